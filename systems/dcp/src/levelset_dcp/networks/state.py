"""The observed state of a network, the connections to change, and its status; all pure."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from levelset import replace, set_condition
from levelset_dcp.engines.models import NetworkInfo
from levelset_dcp.kinds import ContainerNetwork, ContainerNetworkStatus, NetworkState

__all__ = [
    "Change",
    "ConnectionChanges",
    "ObservedNetwork",
    "Step",
    "claimed",
    "connection_changes",
    "failed",
    "inspected",
    "name_of",
    "observed_from_status",
    "plan",
    "removed_externally",
    "retry_later",
    "status_of",
]


_FINAL: Final = ("FailedToStart", "Removed")


def name_of(network: ContainerNetwork) -> str:
    """The deterministic name of the network in the engine."""
    return network.spec.network_name or f"{network.name[:200]}-{network.metadata.uid[:8]}"


class ObservedNetwork(Struct, frozen=True, kw_only=True):
    """The observed state of a network."""

    uid: str
    state: NetworkState = "Pending"
    message: str = ""
    info: NetworkInfo | None = None
    id: str = ""
    connected: frozenset[str] = frozenset()
    """The containers that were connected for a ContainerNetworkConnection; others are not touched."""
    retry_at: float = 0.0
    """The loop time of the next attempt."""
    is_removed: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the state is terminal."""
        return self.state in _FINAL

    @property
    def members(self) -> frozenset[str]:
        """The containers that are attached to it."""
        return frozenset() if self.info is None else frozenset(self.info.container_ids)


Change = Callable[[ObservedNetwork], ObservedNetwork | None]


class ConnectionChanges(Struct, frozen=True):
    """The containers to connect, with their aliases, and the containers to disconnect."""

    connect: Mapping[str, tuple[str, ...]]
    disconnect: frozenset[str]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return not self.connect and not self.disconnect


def connection_changes(observed: ObservedNetwork, wanted: Mapping[str, tuple[str, ...]]) -> ConnectionChanges:
    """The changes that attach exactly the wanted containers; containers connected by other clients stay."""
    missing = {one: aliases for one, aliases in wanted.items() if one not in observed.members}
    return ConnectionChanges(missing, (observed.connected & observed.members) - wanted.keys())


Step = Literal["none", "create", "resume", "change_connections", "clear_message"]
"""Do nothing; create or adopt the network; inspect it after a restart; change connections; drop an old error."""


def plan(observed: ObservedNetwork, wanted: Mapping[str, tuple[str, ...]], now: float) -> Step:
    """The next step at a loop time, for these containers that are wanted in the network."""
    is_due = now >= observed.retry_at
    if observed.state in ("Pending", "NotFound"):
        return "create" if is_due else "none"
    if observed.state != "Running":
        return "none"
    if observed.info is None:
        return "resume" if is_due else "none"
    if not connection_changes(observed, wanted).is_empty:
        return "change_connections" if is_due else "none"
    return "clear_message" if observed.message else "none"  # the connection that failed is not wanted any more


def claimed(observed: ObservedNetwork, wanted: Mapping[str, tuple[str, ...]]) -> ObservedNetwork:
    """Marks attached containers that have a connection object as ours, so that they may be disconnected later."""
    if observed.state != "Running" or observed.info is None:
        return observed
    return replace(observed, connected=observed.connected | (wanted.keys() & observed.members))


def observed_from_status(network: ContainerNetwork) -> ObservedNetwork:
    """Restores the observed state from the status after a restart."""
    status = network.status or ContainerNetworkStatus()
    state = status.state or "Pending"
    return ObservedNetwork(uid=network.metadata.uid, state=state, message=status.message, id=status.id)


def inspected(info: NetworkInfo, wanted: frozenset[str] = frozenset()) -> Change:
    """Applies an inspection; attached containers that are `wanted` count as connected by us."""

    def change(observed: ObservedNetwork) -> ObservedNetwork | None:
        if observed.is_final:
            return None
        ours = observed.connected | (wanted & frozenset(info.container_ids))
        return replace(observed, state="Running", info=info, id=info.id, connected=ours, message="", retry_at=0.0)

    return change


def removed_externally(message: str) -> Change:
    """The network was removed by another client of the engine."""

    def change(observed: ObservedNetwork) -> ObservedNetwork | None:
        if observed.state != "Running":
            return None
        return replace(observed, state="Removed", message=message, info=None, connected=frozenset())

    return change


def retry_later(message: str, retry_at: float, state: NetworkState | None = None) -> Change:
    """Nothing can be done before `retry_at`."""

    def change(observed: ObservedNetwork) -> ObservedNetwork:
        return replace(observed, state=state or observed.state, message=message, retry_at=retry_at)

    return change


def failed(message: str) -> Change:
    """The network cannot be created."""
    return lambda observed: replace(observed, state="FailedToStart", message=message)


def status_of(network: ContainerNetwork, observed: ObservedNetwork, now: datetime) -> ContainerNetworkStatus:
    """The new status of a network."""
    before = network.status or ContainerNetworkStatus()
    conditions = set_condition(
        before.conditions,
        "Ready",
        observed.state == "Running",
        now=now,
        reason=observed.state or "Pending",
        message=observed.message or f"network {name_of(network)} is {observed.state}",
        observed_generation=network.metadata.generation,
    )
    info = observed.info
    return replace(
        before,
        state=observed.state,
        message=observed.message,
        id=observed.id,
        network_name=before.network_name if info is None else info.name,
        driver=before.driver if info is None else info.driver,
        ipv6=before.ipv6 if info is None else info.ipv6,
        subnets=before.subnets if info is None else info.subnets,
        gateways=before.gateways if info is None else info.gateways,
        container_ids=_members(before, observed),
        conditions=conditions,
        observed_generation=network.metadata.generation,
    )


def _members(before: ContainerNetworkStatus, observed: ObservedNetwork) -> tuple[str, ...]:
    if observed.info is None:
        return () if observed.is_final else before.container_ids
    return tuple(sorted(observed.info.container_ids))
