"""The listen address of a Service, its attempts to listen, and its status; all pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from levelset import replace, set_condition
from levelset_dcp.kinds import Endpoint, Service, ServiceStatus
from levelset_dcp.kinds.services import AllocationMode

__all__ = [
    "ATTEMPTS",
    "Attempt",
    "ListenAddress",
    "Step",
    "endpoints_of",
    "failed",
    "listen_address",
    "plan",
    "preferred_port",
    "status_of",
]

ATTEMPTS: Final = 30
"""The number of attempts to listen before a Service stays NotReady until it changes."""

_LOCALHOST: Final = ("127.0.0.1", "::1")
_BOUND: Final[dict[AllocationMode, tuple[tuple[str, ...], str]]] = {
    "Localhost": (_LOCALHOST, "localhost"),
    "IPv4ZeroOne": (("127.0.0.1",), "127.0.0.1"),
    "IPv4Loopback": (("127.0.0.1",), "127.0.0.1"),
    "IPv6ZeroOne": (("::1",), "::1"),
    "AllInterfaces": (("0.0.0.0", "::"), "localhost"),  # noqa: S104 - requested by the Service
    "IPv4AllInterfaces": (("0.0.0.0",), "localhost"),  # noqa: S104 - as above
    "IPv6AllInterfaces": (("::",), "localhost"),
}


class ListenAddress(Struct, frozen=True):
    """Where a Service listens: its addresses, of which the first is required, and the address in the status."""

    addresses: tuple[str, ...]
    advertised: str


class Attempt(Struct, frozen=True):
    """The progress of listening: the port, or the number of attempts and the last error."""

    generation: int
    port: int | None = None
    advertised: str = ""
    tries: int = 0
    error: str = ""


def listen_address(service: Service) -> ListenAddress | None:
    """The address of a Service's proxy; None if it has no proxy."""
    spec = service.spec
    if spec.address_allocation_mode == "Proxyless":
        return None
    if spec.address and spec.address != "localhost":
        return ListenAddress((spec.address,), spec.address)
    addresses, advertised = _BOUND[spec.address_allocation_mode]
    return ListenAddress(addresses, advertised)


Step = Literal["none", "close", "listen"]
"""Leave the listener as it is; close it, because the Service has no proxy; open it."""


def plan(service: Service, previous: Attempt | None) -> Step:
    """The next step of the listener, after the previous attempt for it, if any."""
    if listen_address(service) is None:
        return "close"
    is_current = previous is not None and previous.generation == (service.metadata.generation or 0)
    if is_current and previous is not None and (previous.port or previous.tries >= ATTEMPTS):
        return "none"
    return "listen"


def preferred_port(service: Service) -> int:
    """The port of the spec, or the previous port, so that clients reach the Service after a restart."""
    return service.spec.port or (service.status.effective_port if service.status else 0)


def failed(attempt: Attempt, error: str) -> Attempt:
    """Records a failed attempt."""
    return replace(attempt, tries=attempt.tries + 1, error=error)


def endpoints_of(service: Service, endpoints: Sequence[Endpoint]) -> Sequence[Endpoint]:
    """The Endpoints of a Service, the oldest first."""
    mine = [one for one in endpoints if one.spec.service_name == service.name and not one.metadata.deletion_timestamp]
    return sorted(mine, key=lambda one: (one.metadata.creation_timestamp or datetime.min, one.name))  # noqa: DTZ901


def status_of(service: Service, attempt: Attempt | None, endpoints: Sequence[Endpoint], now: datetime) -> ServiceStatus:
    """The new status of a Service."""
    before = service.status or ServiceStatus()
    is_proxied = listen_address(service) is not None
    made = _proxied(before, attempt, endpoints) if is_proxied else _proxyless(before, endpoints)
    reason, message = _reason(made, endpoints)
    conditions = set_condition(
        before.conditions,
        "Ready",
        made.state == "Ready",
        now=now,
        reason=reason,
        message=message,
        observed_generation=service.metadata.generation,
    )
    return replace(made, conditions=conditions, observed_generation=service.metadata.generation)


def _proxied(before: ServiceStatus, attempt: Attempt | None, endpoints: Sequence[Endpoint]) -> ServiceStatus:
    if attempt is None or attempt.port is None:
        error = attempt.error if attempt is not None else ""
        return replace(before, state="NotReady", effective_address="", effective_port=0, message=error)
    state = "Ready" if endpoints else "NotReady"
    return replace(before, state=state, effective_address=attempt.advertised, effective_port=attempt.port, message="")


def _proxyless(before: ServiceStatus, endpoints: Sequence[Endpoint]) -> ServiceStatus:
    """The status of a Service without a proxy: it sticks to its first Endpoint while that exists."""
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
        return "HasEndpoints", f"endpoints: {len(endpoints)}"
    if status.message:
        return "CannotListen", status.message
    return "NoEndpoints", "no workload produces it yet"
