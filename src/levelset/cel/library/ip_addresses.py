"""The IP and CIDR libraries: addresses and networks."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from levelset.cel.errors import EvaluationError
from levelset.cel.types import declare
from levelset.objects.lazy_pattern import Pattern

__all__ = ["OVERLOADS", "Cidr", "Ip", "parse_cidr", "parse_ip"]

_PREFIX = Pattern(r"0|[1-9][0-9]{0,2}")


class Ip:
    """An IP address."""

    __slots__ = ("address",)

    cel_type = "net.IP"

    def __init__(self, address: IPv4Address | IPv6Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ip) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)


class Cidr:
    """A network in CIDR notation, with the address as it was written."""

    __slots__ = ("address", "length", "network")

    cel_type = "net.CIDR"

    def __init__(self, address: IPv4Address | IPv6Address, length: int) -> None:
        self.address, self.length = address, length
        self.network = ip_network(f"{address}/{length}", strict=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and (other.address, other.length) == (self.address, self.length)

    def __hash__(self) -> int:
        return hash((self.address, self.length))

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    def has(self, address: IPv4Address | IPv6Address) -> bool:
        """Whether the network contains the address."""
        return address.version == self.network.version and address in self.network


def parse_ip(text: str) -> Ip:
    """Parses an IP address; raises EvaluationError."""
    try:
        address = ip_address(text)
    except ValueError:
        raise EvaluationError(f"IP Address {text[:80]!r} parse error during conversion from string") from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise EvaluationError(f"IP address {text[:80]!r} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise EvaluationError(f"IPv4-mapped IPv6 address {text[:80]!r} is not allowed")
    return Ip(address)


def parse_cidr(text: str) -> Cidr:
    """Parses a network in CIDR notation; raises EvaluationError."""
    before, slash, length = text.partition("/")
    try:
        address = parse_ip(before).address
    except EvaluationError:
        address = None
    if address is None or not slash or not _PREFIX.fullmatch(length) or int(length) > address.max_prefixlen:
        raise EvaluationError(f"network address parse error during conversion from string: {text[:80]!r}")
    return Cidr(address, int(length))


def _is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except EvaluationError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        parse_cidr(text)
    except EvaluationError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    return str(parse_ip(text)) == text


_LINK_LOCAL_V6 = IPv6Network("ff02::/16")


def _link_local_multicast(ip: Ip) -> bool:
    if isinstance(ip.address, IPv6Address):
        return ip.address in _LINK_LOCAL_V6
    return ip.address.packed[:3] == b"\xe0\x00\x00"


def _global_unicast(ip: Ip) -> bool:
    address = ip.address
    if address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local:
        return False
    return address != IPv4Address("255.255.255.255")


def _contains_cidr(network: Cidr, other: Any) -> bool:
    inner = other if isinstance(other, Cidr) else parse_cidr(other)
    return network.length <= inner.length and network.has(inner.network.network_address)


def _masked(network: Cidr) -> Cidr:
    return Cidr(network.network.network_address, network.length)


OVERLOADS = [
    *declare(
        [
            ("ip: (string) IP", parse_ip),
            ("isIP: (string) bool", _is_ip),
            ("cidr: (string) CIDR", parse_cidr),
            ("isCIDR: (string) bool", _is_cidr),
        ],
        charge="traverse",
    ),
    *declare([("ip.isCanonical: (string) bool", _is_canonical)], charge="twice"),
    *declare(
        [
            ("family: IP.() int", lambda ip: ip.address.version),
            ("isUnspecified: IP.() bool", lambda ip: ip.address.is_unspecified),
            ("isLoopback: IP.() bool", lambda ip: ip.address.is_loopback),
            ("isLinkLocalMulticast: IP.() bool", _link_local_multicast),
            ("isLinkLocalUnicast: IP.() bool", lambda ip: ip.address.is_link_local),
            ("isGlobalUnicast: IP.() bool", _global_unicast),
            ("containsIP: CIDR.(IP) bool", lambda network, ip: network.has(ip.address)),
            ("containsIP: CIDR.(string) bool", lambda network, text: network.has(parse_ip(text).address)),
            ("containsCIDR: CIDR.(CIDR) bool", _contains_cidr),
            ("containsCIDR: CIDR.(string) bool", _contains_cidr),
            ("ip: CIDR.() IP", lambda network: Ip(network.address)),
            ("masked: CIDR.() CIDR", _masked),
            ("prefixLength: CIDR.() int", lambda network: network.length),
        ]
    ),
]
