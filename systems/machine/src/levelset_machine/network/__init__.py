"""Addresses, ports and Service names of the machine: loopback blocks, free ports, and names without a cluster DNS."""

from levelset_machine.network.loopback import AddressPool, Block, NoAddress, claim_block
from levelset_machine.network.ports import NoPort, free_port
from levelset_machine.network.service_names import (
    Lookup,
    ServiceName,
    parse_service_name,
    resolve_host,
    resolve_url,
)

__all__ = [
    "AddressPool",
    "Block",
    "Lookup",
    "NoAddress",
    "NoPort",
    "ServiceName",
    "claim_block",
    "free_port",
    "parse_service_name",
    "resolve_host",
    "resolve_url",
]
