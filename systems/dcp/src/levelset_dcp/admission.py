"""The validating webhooks of DCP: rules between fields, and between the old object and the new one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from levelset import Object, Review, validates
from levelset.errors import Cause, Denied, Invalid
from levelset.objects import MicroTime, Model
from levelset_dcp import kinds
from levelset_dcp.kinds import (
    Container,
    ContainerNetwork,
    Executable,
    ExecutableReplicaSet,
    ExecutableSpec,
)
from levelset_dcp.workloads.modes import container_mode, executable_mode
from levelset_dcp.workloads.service_producers import BadProducer, producers_of

__all__ = [
    "LARGEST_ANNOTATIONS",
    "Monitored",
    "ShutdownGate",
    "Switched",
    "check_annotations",
    "check_container",
    "check_executable",
    "check_monitor",
    "check_network",
    "check_replica_set",
    "check_same",
    "check_switches",
    "invalid",
    "webhooks",
]

LARGEST_ANNOTATIONS: Final = 262_144
_EXECUTABLE_IMMUTABLE: Final = (
    "persistent",
    "mode",
    "monitor_pid",
    "monitor_timestamp",
    "ambient_environment",
    "health_probes",
    "pem_certificates",
    "terminal",
)
_CONTAINER_IMMUTABLE: Final = (
    "image",
    "build",
    "container_name",
    "persistent",
    "mode",
    "monitor_pid",
    "monitor_timestamp",
    "labels",
    "health_probes",
    "pull_policy",
    "create_files",
    "pem_certificates",
    "image_layers",
    "terminal",
)
Check = Callable[[Any, Any], Iterator[Cause]]


class Switched(Protocol):
    """A workload that can be started and stopped."""

    @property
    def start(self) -> bool:
        """spec.start."""
        ...

    @property
    def stop(self) -> bool:
        """spec.stop."""
        ...


class Monitored(Protocol):
    """A workload that may stop with another process."""

    @property
    def monitor_pid(self) -> int | None:
        """spec.monitorPid."""
        ...

    @property
    def monitor_timestamp(self) -> MicroTime | None:
        """spec.monitorTimestamp, the start time of that process."""
        ...


def invalid(field: str, message: str) -> Cause:
    """A cause for an invalid value."""
    return Cause(field, "FieldValueInvalid", message)


def check_annotations(annotations: Mapping[str, str]) -> Iterator[Cause]:
    """Checks the size of annotations, and the form of `service-producer`."""
    size = sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items())
    if size > LARGEST_ANNOTATIONS:
        yield Cause("metadata.annotations", "FieldValueTooLong", f"must not be larger than {LARGEST_ANNOTATIONS} bytes")
    try:
        producers_of(annotations)
    except BadProducer as error:
        yield invalid("metadata.annotations", str(error))


def check_monitor(spec: Monitored, *, is_persistent: bool) -> Iterator[Cause]:
    """Checks that monitorPid and monitorTimestamp are given together, and only for persistent workloads."""
    if spec.monitor_pid is None and spec.monitor_timestamp is None:
        return
    if spec.monitor_pid is None:
        yield Cause("spec.monitorPid", "FieldValueRequired", "is required with monitorTimestamp")
    if spec.monitor_timestamp is None:
        yield Cause("spec.monitorTimestamp", "FieldValueRequired", "is required with monitorPid")
    if not is_persistent:
        yield invalid("spec.monitorPid", "only a persistent workload can monitor a process")


def check_switches(new: Switched, old: Switched) -> Iterator[Cause]:
    """Checks that spec.start and spec.stop are not unset."""
    if old.start and not new.start:
        yield invalid("spec.start", "cannot be unset; set spec.stop to stop it")
    if old.stop and not new.stop:
        yield invalid("spec.stop", "cannot be unset; create a new object to start again")


def check_same(new: Model, old: Model, fields: Iterable[str]) -> Iterator[Cause]:
    """Checks that fields are unchanged."""
    kind: type[Model] = type(new)
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    for one in fields:
        if getattr(new, one) != getattr(old, one):
            yield invalid(f"spec.{names[one]}", "is immutable; create a new object")


def check_executable(new: Executable, old: Executable | None) -> Iterator[Cause]:
    """Validates an Executable."""
    yield from check_annotations(new.metadata.annotations)
    yield from _check_spec(new.spec)
    if old is not None:
        yield from check_switches(new.spec, old.spec)
        yield from check_same(new.spec, old.spec, _EXECUTABLE_IMMUTABLE)


def check_replica_set(new: ExecutableReplicaSet, _old: ExecutableReplicaSet | None) -> Iterator[Cause]:
    """Validates an ExecutableReplicaSet."""
    template = new.spec.template
    yield from check_annotations(template.annotations)
    for cause in _check_spec(template.spec):
        yield Cause(cause.field.replace("spec.", "spec.template.spec.", 1), cause.reason, cause.message)
    if template.spec.stop:
        yield invalid("spec.template.spec.stop", "a template must not be stopped; set spec.replicas to 0")


def _check_spec(spec: ExecutableSpec) -> Iterator[Cause]:
    fallbacks = spec.fallback_execution_types
    if len(set(fallbacks)) < len(fallbacks) or spec.execution_type in fallbacks:
        yield invalid("spec.fallbackExecutionTypes", "must not have duplicates, nor the type in executionType")
    outlives_session = executable_mode(spec) != "session"
    if outlives_session and spec.execution_type != "Process":
        yield invalid("spec.executionType", f"mode {executable_mode(spec)} requires the type Process")
    if outlives_session and fallbacks:
        yield invalid("spec.fallbackExecutionTypes", f"mode {executable_mode(spec)} does not support fallbacks")
    if outlives_session and spec.terminal is not None:
        yield invalid("spec.terminal", f"mode {executable_mode(spec)} does not support a terminal")
    yield from check_monitor(spec, is_persistent=executable_mode(spec) == "persistent")
    names = [one.name for one in spec.health_probes]
    for name in sorted({one for one in names if names.count(one) > 1}):
        yield Cause("spec.healthProbes", "FieldValueDuplicate", f"duplicate probe {name!r}")


def check_container(new: Container, old: Container | None) -> Iterator[Cause]:
    """Validates a Container."""
    spec = new.spec
    mode = container_mode(spec)
    yield from check_annotations(new.metadata.annotations)
    if not spec.image and spec.build is None and mode in ("session", "persistent"):
        yield Cause("spec.image", "FieldValueRequired", "an image or spec.build is required")
    if mode != "session" and not spec.container_name:
        yield Cause("spec.containerName", "FieldValueRequired", f"is required by mode {mode}")
    for number, secret in enumerate(spec.build.secrets if spec.build else ()):
        if secret.type == "file" and not secret.source:
            yield Cause(
                f"spec.build.secrets[{number}].source", "FieldValueRequired", "the path of the secret is required"
            )
    yield from check_monitor(spec, is_persistent=mode == "persistent")
    if old is not None:
        yield from check_switches(spec, old.spec)
        yield from check_same(spec, old.spec, _CONTAINER_IMMUTABLE)
        if (spec.networks is None) != (old.spec.networks is None):
            yield invalid("spec.networks", "cannot be added or removed as a whole; create a new object")


def check_network(new: ContainerNetwork, old: ContainerNetwork | None) -> Iterator[Cause]:
    """Validates a ContainerNetwork."""
    mode = "persistent" if new.spec.persistent else new.spec.mode
    if mode != "session" and not new.spec.network_name:
        yield Cause("spec.networkName", "FieldValueRequired", f"is required by mode {mode}")
    if old is not None:
        yield from check_same(new.spec, old.spec, ("network_name", "ipv6", "mode", "persistent"))


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
        kinds.ContainerExec: _check_metadata,
        kinds.ContainerNetworkConnection: _check_metadata,
        kinds.ContainerNetworkTunnelProxy: _check_metadata,
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
    yield from check_annotations(new.metadata.annotations)
