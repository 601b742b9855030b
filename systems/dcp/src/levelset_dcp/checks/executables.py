"""Rules for Executables and sets of them."""

from collections.abc import Iterator
from typing import Final

from levelset.errors import Cause
from levelset_dcp.checks.workloads import check_annotations, check_monitor, check_same, check_switches, invalid
from levelset_dcp.kinds import Executable, ExecutableReplicaSet, ExecutableSpec

__all__ = ["check_executable", "check_replica_set", "mode_of"]

_IMMUTABLE: Final = (
    "persistent",
    "mode",
    "monitor_pid",
    "monitor_timestamp",
    "ambient_environment",
    "health_probes",
    "pem_certificates",
    "terminal",
)


def mode_of(spec: ExecutableSpec) -> str:
    """The mode that counts: `persistent: true` wins over `mode`."""
    return "persistent" if spec.persistent else spec.mode


def check_executable(new: Executable, old: Executable | None) -> Iterator[Cause]:
    """Everything that is wrong with an Executable."""
    yield from check_annotations(new.metadata.annotations)
    yield from _check_spec(new.spec)
    if old is not None:
        yield from check_switches(new.spec, old.spec)
        yield from check_same(new.spec, old.spec, _IMMUTABLE)


def check_replica_set(new: ExecutableReplicaSet, _old: ExecutableReplicaSet | None) -> Iterator[Cause]:
    """Everything that is wrong with a set."""
    template = new.spec.template
    yield from check_annotations(template.annotations)
    for cause in _check_spec(template.spec):
        yield Cause(cause.field.replace("spec.", "spec.template.spec.", 1), cause.reason, cause.message)
    if template.spec.stop:
        yield invalid("spec.template.spec.stop", "replicas that are stopped make no sense; set spec.replicas to 0")


def _check_spec(spec: ExecutableSpec) -> Iterator[Cause]:
    fallbacks = spec.fallback_execution_types
    if len(set(fallbacks)) < len(fallbacks) or spec.execution_type in fallbacks:
        yield invalid("spec.fallbackExecutionTypes", "each type is tried once: name those that executionType is not")
    is_kept = mode_of(spec) != "session"
    if is_kept and spec.execution_type != "Process":
        yield invalid("spec.executionType", f"mode {mode_of(spec)} is for type Process only")
    if is_kept and fallbacks:
        yield invalid("spec.fallbackExecutionTypes", f"mode {mode_of(spec)} has no fallbacks")
    if is_kept and spec.terminal is not None:
        yield invalid("spec.terminal", f"mode {mode_of(spec)} has no terminal")
    yield from check_monitor(spec, is_persistent=mode_of(spec) == "persistent")
    names = [one.name for one in spec.health_probes]
    for name in sorted({one for one in names if names.count(one) > 1}):
        yield Cause("spec.healthProbes", "FieldValueDuplicate", f"there are several probes {name!r}")
