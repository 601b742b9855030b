"""What a Service should be next, from what it wants, where it listens, and which endpoints there are; all pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from datetime import datetime
from typing import Final

from levelset import replace, set_condition
from levelset_dcp.kinds import Endpoint, Service, ServiceStatus
from levelset_dcp.kinds.services import AllocationMode

__all__ = ["ATTEMPTS", "Attempt", "Place", "endpoints_of", "failed", "places_of", "preferred_port", "status_of"]

ATTEMPTS: Final = 30
"""How often it is tried to listen, before a Service is left as it is until it changes."""

_LOCALHOST: Final = ("127.0.0.1", "::1")
_BOUND: Final[dict[AllocationMode, tuple[tuple[str, ...], str]]] = {
    "Localhost": (_LOCALHOST, "localhost"),
    "IPv4ZeroOne": (("127.0.0.1",), "127.0.0.1"),
    "IPv4Loopback": (("127.0.0.1",), "127.0.0.1"),
    "IPv6ZeroOne": (("::1",), "::1"),
    "AllInterfaces": (("0.0.0.0", "::"), "localhost"),  # noqa: S104 - whoever writes the Service asks for it
    "IPv4AllInterfaces": (("0.0.0.0",), "localhost"),  # noqa: S104 - as above
    "IPv6AllInterfaces": (("::",), "localhost"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Service listens: the addresses, of which the first is needed, and what clients are told."""

    addresses: tuple[str, ...]
    told: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """How far it has come to listen: the port once it does, and otherwise why it does not."""

    generation: int
    port: int | None = None
    told: str = ""
    tries: int = 0
    trouble: str = ""


def places_of(service: Service) -> Place | None:
    """Where it should listen; nowhere if it has no proxy."""
    spec = service.spec
    if spec.address_allocation_mode == "Proxyless":
        return None
    if spec.address and spec.address != "localhost":
        return Place((spec.address,), spec.address)
    addresses, told = _BOUND[spec.address_allocation_mode]
    return Place(addresses, told)


def preferred_port(service: Service) -> int:
    """The port that it should have: the one it wants, or the one it had, so that its clients find it again."""
    return service.spec.port or (service.status.effective_port if service.status else 0)


def failed(attempt: Attempt, trouble: str) -> Attempt:
    """One more try that came to nothing."""
    return changed(attempt, tries=attempt.tries + 1, trouble=trouble)


def endpoints_of(service: Service, endpoints: Sequence[Endpoint]) -> Sequence[Endpoint]:
    """Its endpoints, the oldest first."""
    mine = [one for one in endpoints if one.spec.service_name == service.name and not one.metadata.deletion_timestamp]
    return sorted(mine, key=lambda one: (one.metadata.creation_timestamp or datetime.min, one.name))  # noqa: DTZ901


def status_of(service: Service, attempt: Attempt | None, endpoints: Sequence[Endpoint], now: datetime) -> ServiceStatus:
    """How the Service is now."""
    before = service.status or ServiceStatus()
    is_proxied = places_of(service) is not None
    made = _proxied(before, attempt, endpoints) if is_proxied else _proxyless(before, endpoints)
    reason, words = _reason(made, endpoints)
    conditions = set_condition(
        before.conditions,
        "Ready",
        made.state == "Ready",
        now=now,
        reason=reason,
        message=words,
        observed_generation=service.metadata.generation,
    )
    return replace(made, conditions=conditions, observed_generation=service.metadata.generation)


def _proxied(before: ServiceStatus, attempt: Attempt | None, endpoints: Sequence[Endpoint]) -> ServiceStatus:
    if attempt is None or attempt.port is None:
        trouble = attempt.trouble if attempt is not None else ""
        return replace(before, state="NotReady", effective_address="", effective_port=0, message=trouble)
    state = "Ready" if endpoints else "NotReady"
    return replace(before, state=state, effective_address=attempt.told, effective_port=attempt.port, message="")


def _proxyless(before: ServiceStatus, endpoints: Sequence[Endpoint]) -> ServiceStatus:
    """The first endpoint, and no other as long as it is there."""
    chosen = next((one for one in endpoints if one.name == before.proxyless_endpoint_name), None)
    chosen = chosen or (endpoints[0] if endpoints else None)
    return replace(
        before,
        state="NotReady" if chosen is None else "Ready",
        effective_address="" if chosen is None else chosen.spec.address,
        effective_port=0 if chosen is None else chosen.spec.port,
        proxyless_endpoint_name="" if chosen is None else chosen.name,
        message="",
    )


def _reason(status: ServiceStatus, endpoints: Sequence[Endpoint]) -> tuple[str, str]:
    if status.state == "Ready":
        return "HasEndpoints", f"there are endpoints: {len(endpoints)}"
    if status.message:
        return "CannotListen", status.message
    return "NoEndpoints", "no workload produces it yet"
