"""What is known of a network, what is to be done with it next, and what its status says; all pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from levelset import replace as changed
from levelset import set_condition
from levelset_dcp.engines.models import NetworkInfo
from levelset_dcp.kinds import ContainerNetwork, ContainerNetworkSpec, ContainerNetworkStatus, NetworkState
from levelset_dcp.modes import HABITS, Habits

__all__ = [
    "Change",
    "Moves",
    "NetworkKnown",
    "failed",
    "habits_of",
    "inspected",
    "known_of",
    "moves_of",
    "name_of",
    "status_of",
    "vanished",
    "waits",
]


_FINAL: Final = ("FailedToStart", "Removed")


def habits_of(spec: ContainerNetworkSpec) -> Habits:
    """What the mode of a network means; `persistent: true` wins."""
    return HABITS["persistent" if spec.persistent else spec.mode]


def name_of(network: ContainerNetwork) -> str:
    """What the engine calls it: the same each time, so that it is found again."""
    return network.spec.network_name or f"{network.name[:200]}-{network.metadata.uid[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkKnown:
    """A network, as far as it is known."""

    uid: str
    state: NetworkState = "Pending"
    message: str = ""
    info: NetworkInfo | None = None
    id: str = ""
    connected: frozenset[str] = frozenset()
    """The containers that were connected because somebody asked for it; others are not touched."""
    again_at: float = 0.0
    """Not before that time of the loop's clock is it tried again."""
    is_gone: bool = False

    @property
    def is_final(self) -> bool:
        """Whether nothing follows."""
        return self.state in _FINAL

    @property
    def members(self) -> frozenset[str]:
        """The containers that are in it."""
        return frozenset() if self.info is None else frozenset(self.info.container_ids)


Change = Callable[[NetworkKnown], NetworkKnown | None]


@dataclass(frozen=True, slots=True)
class Moves:
    """Who is to be connected, under which names, and who is to be disconnected."""

    connect: Mapping[str, tuple[str, ...]]
    disconnect: frozenset[str]

    @property
    def is_nothing(self) -> bool:
        """Whether everybody is where they should be."""
        return not self.connect and not self.disconnect


def moves_of(known: NetworkKnown, wanted: Mapping[str, tuple[str, ...]]) -> Moves:
    """What is to be done so that those are in the network who are wanted; whom somebody else has connected stays."""
    missing = {one: aliases for one, aliases in wanted.items() if one not in known.members}
    return Moves(missing, (known.connected & known.members) - wanted.keys())


def known_of(network: ContainerNetwork) -> NetworkKnown:
    """What the status alone says, when nobody remembers."""
    status = network.status or ContainerNetworkStatus()
    state = status.state or "Pending"
    return NetworkKnown(uid=network.metadata.uid, state=state, message=status.message, id=status.id)


def inspected(info: NetworkInfo, wanted: frozenset[str] = frozenset()) -> Change:
    """This is how the network is; whoever is in it and `wanted` counts as connected by us."""

    def change(known: NetworkKnown) -> NetworkKnown | None:
        if known.is_final:
            return None
        ours = known.connected | (wanted & frozenset(info.container_ids))
        return replace(known, state="Running", info=info, id=info.id, connected=ours, message="", again_at=0.0)

    return change


def vanished(words: str) -> Change:
    """Somebody has removed it."""

    def change(known: NetworkKnown) -> NetworkKnown | None:
        if known.state != "Running":
            return None
        return replace(known, state="Removed", message=words, info=None, connected=frozenset())

    return change


def waits(words: str, again_at: float, state: NetworkState | None = None) -> Change:
    """Nothing can be done for now."""

    def change(known: NetworkKnown) -> NetworkKnown:
        return replace(known, state=state or known.state, message=words, again_at=again_at)

    return change


def failed(words: str) -> Change:
    """The engine does not make it."""
    return lambda known: replace(known, state="FailedToStart", message=words)


def status_of(network: ContainerNetwork, known: NetworkKnown, now: datetime) -> ContainerNetworkStatus:
    """How the network is now."""
    before = network.status or ContainerNetworkStatus()
    conditions = set_condition(
        before.conditions,
        "Ready",
        known.state == "Running",
        now=now,
        reason=known.state or "Pending",
        message=known.message or f"network {name_of(network)} is {known.state}",
        observed_generation=network.metadata.generation,
    )
    info = known.info
    return changed(
        before,
        state=known.state,
        message=known.message,
        id=known.id,
        network_name=before.network_name if info is None else info.name,
        driver=before.driver if info is None else info.driver,
        ipv6=before.ipv6 if info is None else info.ipv6,
        subnets=before.subnets if info is None else info.subnets,
        gateways=before.gateways if info is None else info.gateways,
        container_ids=_members(before, known),
        conditions=conditions,
        observed_generation=network.metadata.generation,
    )


def _members(before: ContainerNetworkStatus, known: NetworkKnown) -> tuple[str, ...]:
    if known.info is None:
        return () if known.is_final else before.container_ids
    return tuple(sorted(known.info.container_ids))
