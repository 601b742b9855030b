"""The validating webhooks of all kinds of DCP, and the gate that closes when the session shuts down."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from levelset import Object, Review, validates
from levelset.errors import Cause, Denied, Invalid
from levelset_dcp import kinds
from levelset_dcp.admission.common import check_annotations
from levelset_dcp.admission.containers import check_container, check_exec, check_network, check_tunnel_proxy
from levelset_dcp.admission.executables import check_executable, check_replica_set

__all__ = ["ShutdownGate", "webhooks"]

Check = Callable[[Any, Any], Iterator[Cause]]


class ShutdownGate:
    """Whether new objects are rejected, because the session is shutting down."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        """Rejects new objects from now on."""
        self.is_closed = True


def webhooks(shutdown_gate: ShutdownGate) -> Sequence[Any]:
    """The validating webhooks of all kinds; while the gate is closed, creates are denied."""
    checks: dict[type[Object], Check] = {
        kinds.Executable: check_executable,
        kinds.ExecutableReplicaSet: check_replica_set,
        kinds.Container: check_container,
        kinds.ContainerNetwork: check_network,
        kinds.ContainerExec: check_exec,
        kinds.ContainerNetworkConnection: _check_metadata,
        kinds.ContainerNetworkTunnelProxy: check_tunnel_proxy,
        kinds.ContainerVolume: _check_metadata,
        kinds.Endpoint: _check_metadata,
        kinds.Service: _check_metadata,
    }
    return [validates(kind, _validator(kind, check, shutdown_gate)) for kind, check in checks.items()]


def _validator(kind: type[Object], check: Check, shutdown_gate: ShutdownGate) -> Callable[[Any, Review[Any]], None]:
    def validate(new: Any, review: Review[Any]) -> None:
        if review.old is None and shutdown_gate.is_closed:
            raise Denied(f"cannot create {kind.__name__}: the session is shutting down")
        causes = list(check(new, review.old))
        if causes:
            details = ", ".join(f"{one.field}: {one.message}" for one in causes)
            raise Invalid(f"{kind.__name__} {new.name} is invalid: {details}", causes=causes)

    return validate


def _check_metadata(new: Object, _old: Object | None) -> Iterator[Cause]:
    """Validates what all kinds have; the other rules of these kinds are in their schemas."""
    yield from check_annotations(new.metadata.annotations)
