"""The rules of Executable and ExecutableReplicaSet."""

from collections.abc import Iterator
from typing import Final

from levelset.errors import Cause
from levelset_dcp.admission.common import (
    check_annotations,
    check_monitor,
    check_probes,
    check_same,
    check_switches,
    invalid,
)
from levelset_dcp.kinds import Executable, ExecutableReplicaSet, ExecutableSpec
from levelset_dcp.workloads.modes import executable_mode

__all__ = ["check_executable", "check_replica_set"]

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


def check_executable(new: Executable, old: Executable | None) -> Iterator[Cause]:
    """Validates an Executable."""
    yield from check_annotations(new.metadata.annotations)
    yield from _check_spec(new.spec)
    if old is not None:
        yield from check_switches(new.spec, old.spec)
        yield from check_same(new.spec, old.spec, _IMMUTABLE)


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
    yield from check_probes(spec.health_probes)
