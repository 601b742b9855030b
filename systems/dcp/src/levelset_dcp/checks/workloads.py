"""Rules that programs and containers have in common."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from levelset import Model
from levelset.errors import Cause
from levelset.objects import MicroTime
from levelset_dcp.producing import BadProducer, producers_of

__all__ = [
    "LARGEST_ANNOTATIONS",
    "Monitored",
    "Switched",
    "check_annotations",
    "check_monitor",
    "check_same",
    "check_switches",
    "invalid",
]

LARGEST_ANNOTATIONS: Final = 262_144


class Switched(Protocol):
    """A workload that can be started and stopped."""

    @property
    def start(self) -> bool:
        """Whether to start it."""
        ...

    @property
    def stop(self) -> bool:
        """Whether to stop it."""
        ...


class Monitored(Protocol):
    """A workload that may end with another process."""

    @property
    def monitor_pid(self) -> int | None:
        """The process to watch."""
        ...

    @property
    def monitor_timestamp(self) -> MicroTime | None:
        """When that process began."""
        ...


def invalid(field: str, message: str) -> Cause:
    """A value that cannot be."""
    return Cause(field, "FieldValueInvalid", message)


def check_annotations(annotations: Mapping[str, str]) -> Iterator[Cause]:
    """They are not too large, and say in the right form which Services are produced."""
    size = sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items())
    if size > LARGEST_ANNOTATIONS:
        yield Cause("metadata.annotations", "FieldValueTooLong", f"must have at most {LARGEST_ANNOTATIONS} bytes")
    try:
        producers_of(annotations)
    except BadProducer as error:
        yield invalid("metadata.annotations", str(error))


def check_monitor(spec: Monitored, *, is_persistent: bool) -> Iterator[Cause]:
    """A process to watch is named by both its number and its time, and for what would outlive the session only."""
    if spec.monitor_pid is None and spec.monitor_timestamp is None:
        return
    if spec.monitor_pid is None:
        yield Cause("spec.monitorPid", "FieldValueRequired", "is needed beside monitorTimestamp")
    if spec.monitor_timestamp is None:
        yield Cause("spec.monitorTimestamp", "FieldValueRequired", "is needed beside monitorPid")
    if not is_persistent:
        yield invalid("spec.monitorPid", "only a persistent workload can watch another process")


def check_switches(new: Switched, old: Switched) -> Iterator[Cause]:
    """What was started stays started, and what was stopped stays stopped."""
    if old.start and not new.start:
        yield invalid("spec.start", "it may not be taken back; set spec.stop to stop it")
    if old.stop and not new.stop:
        yield invalid("spec.stop", "it may not be unset; make a new object to start again")


def check_same(new: Model, old: Model, fields: Iterable[str]) -> Iterator[Cause]:
    """These attributes are what they were."""
    kind: type[Model] = type(new)
    names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    for one in fields:
        if getattr(new, one) != getattr(old, one):
            yield invalid(f"spec.{names[one]}", "it cannot be changed; make a new object")
