"""The indexes of a Job with numbered Pods: as people write them (`0,2-4`), and as each Pod is told its own; pure."""

from collections.abc import Collection, Iterable
from typing import Final

from levelset import replace
from levelset.kinds.batch_v1 import Job
from levelset.kinds.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod

__all__ = ["INDEX", "format_indexes", "index_of", "missing_indexes", "parse_indexes", "with_index"]

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def parse_indexes(text: str | None) -> frozenset[int]:
    """The numbers in a text such as `0,2-4`; what makes no sense is left out."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def format_indexes(numbers: Iterable[int]) -> str:
    """The numbers as a text: those that follow each other as a range."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


def index_of(pod: Pod) -> int | None:
    """The number of a Pod, or None if it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def missing_indexes(completions: int, taken: Collection[int], most: int) -> tuple[int, ...]:
    """The lowest numbers that nobody has, so many at most."""
    free = (number for number in range(completions) if number not in taken)
    return tuple(number for number, _ in zip(free, range(max(0, most)), strict=False))


def with_index(owner: Job, draft: Pod, index: int) -> Pod:
    """The Pod that works on this number, and is told so: by annotation, label, environment, host name and name."""
    meta = draft.metadata
    mark = {INDEX: str(index)}
    made = draft.with_metadata(
        generate_name=f"{owner.name}-{index}-",
        annotations={**meta.annotations, **mark},
        labels={**meta.labels, **mark},
    )
    spec = replace(
        made.spec,
        hostname=made.spec.hostname or f"{owner.name}-{index}",
        containers=tuple(map(_told, made.spec.containers)),
        init_containers=tuple(map(_told, made.spec.init_containers)),
    )
    return replace(made, spec=spec)


def _told(container: Container) -> Container:
    if any(one.name == _VARIABLE for one in container.env):
        return container
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.annotations['{INDEX}']"))
    return replace(container, env=(*container.env, EnvVar(name=_VARIABLE, value_from=source)))
