"""Rules that several kinds share: annotations, monitored processes, switches, immutable fields and probes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from levelset.errors import Cause
from levelset.objects import MicroTime, Model
from levelset_dcp.kinds import HealthProbe, ProbeProgram
from levelset_dcp.workloads.health_probes import parse_duration
from levelset_dcp.workloads.service_producers import BadProducer, producers_of

__all__ = [
    "LARGEST_ANNOTATIONS",
    "Monitored",
    "Switched",
    "check_annotations",
    "check_monitor",
    "check_probes",
    "check_same",
    "check_switches",
    "invalid",
    "required",
]

LARGEST_ANNOTATIONS: Final = 262_144


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


def required(field: str, message: str) -> Cause:
    """A cause for a missing value."""
    return Cause(field, "FieldValueRequired", message)


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
        yield required("spec.monitorPid", "is required with monitorTimestamp")
    if spec.monitor_timestamp is None:
        yield required("spec.monitorTimestamp", "is required with monitorPid")
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


def check_probes(probes: Sequence[HealthProbe]) -> Iterator[Cause]:
    """Checks that probes have different names, and run with intervals and timeouts that are longer than zero."""
    for name, count in sorted(Counter(one.name for one in probes).items()):
        if count > 1:
            yield Cause("spec.healthProbes", "FieldValueDuplicate", f"duplicate probe {name!r}")
    for number, one in enumerate(probes):
        field = f"spec.healthProbes[{number}].schedule"
        if not parse_duration(one.schedule.interval):
            yield invalid(f"{field}.interval", "must be longer than zero")
        if one.schedule.timeout and not parse_duration(one.schedule.timeout):
            yield invalid(f"{field}.timeout", "must be longer than zero; leave it out for 10 s")
        if one.executable_probe is not None:
            program = one.executable_probe.executable_template.spec
            yield from _check_program(program, f"spec.healthProbes[{number}].executableProbe.executableTemplate.spec")


def _check_program(program: ProbeProgram, field: str) -> Iterator[Cause]:
    """Checks that the program of a probe uses only what the run of a probe supports."""
    given = {
        "executionType": program.execution_type != "Process",
        "fallbackExecutionTypes": program.fallback_execution_types,
        "envFiles": program.env_files,
        "start": not program.start,
        "stop": program.stop,
        "mode": program.mode != "session",
        "persistent": program.persistent,
        "monitorPid": program.monitor_pid is not None,
        "monitorTimestamp": program.monitor_timestamp is not None,
        "pemCertificates": program.pem_certificates is not None,
        "terminal": program.terminal is not None,
    }
    for name in (name for name, is_given in given.items() if is_given):
        yield invalid(f"{field}.{name}", "is not supported for the program of a probe")
