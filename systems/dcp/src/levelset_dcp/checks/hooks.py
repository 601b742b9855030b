"""The rules as webhook values, for a server of one's own or for any other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from levelset import Object, Review, validates
from levelset.errors import Cause, Denied, Invalid
from levelset_dcp import kinds
from levelset_dcp.checks.containers import check_container, check_network
from levelset_dcp.checks.executables import check_executable, check_replica_set
from levelset_dcp.checks.workloads import check_annotations

__all__ = ["Prohibition", "hooks"]

Check = Callable[[Any, Any], Iterator[Cause]]


class Prohibition:
    """Whether new objects are refused, because the session is about to end."""

    def __init__(self) -> None:
        self.is_on = False

    def begin(self) -> None:
        """Refuses new objects from now on."""
        self.is_on = True


def hooks(prohibition: Prohibition) -> Sequence[Any]:
    """The rules of all kinds; while the prohibition is on, nothing may be created."""
    checks: dict[type[Object], Check] = {
        kinds.Executable: check_executable,
        kinds.ExecutableReplicaSet: check_replica_set,
        kinds.Container: check_container,
        kinds.ContainerNetwork: check_network,
        kinds.ContainerExec: _check_metadata,
        kinds.ContainerNetworkConnection: _check_metadata,
        kinds.ContainerNetworkTunnelProxy: _check_metadata,
        kinds.ContainerVolume: _check_metadata,
        kinds.Endpoint: _check_metadata,
        kinds.Service: _check_metadata,
    }
    return [validates(kind, _asked(kind, check, prohibition)) for kind, check in checks.items()]


def _asked(kind: type[Object], check: Check, prohibition: Prohibition) -> Callable[[Any, Review[Any]], None]:
    def ask(new: Any, review: Review[Any]) -> None:
        if review.old is None and prohibition.is_on:
            raise Denied(f"no {kind.__name__} can be created any more: the session is about to end")
        causes = list(check(new, review.old))
        if causes:
            told = ", ".join(f"{one.field}: {one.message}" for one in causes)
            raise Invalid(f"{kind.__name__} {new.name} is invalid: {told}", causes=causes)

    return ask


def _check_metadata(new: Object, _old: Object | None) -> Iterator[Cause]:
    yield from check_annotations(new.metadata.annotations)
