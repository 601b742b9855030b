"""The completion indexes of an Indexed Job: their text form (`0,2-4`), and how a Pod gets its own; pure."""

from collections.abc import Collection, Iterable
from typing import Final

from levelset import replace
from levelset.kinds.batch_v1 import Job
from levelset.kinds.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod

__all__ = ["INDEX", "format_indexes", "index_of", "missing_indexes", "parse_indexes", "with_index"]

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def parse_indexes(text: str | None) -> frozenset[int]:
    """The numbers in a text such as `0,2-4`; invalid parts are ignored."""
    found: set[int] = set()
    for part in filter(None, (text or "").split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def format_indexes(numbers: Iterable[int]) -> str:
    """The numbers as a text, with consecutive ones as a range."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


def index_of(pod: Pod) -> int | None:
    """The completion index of a Pod, or None."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def missing_indexes(completions: int, taken: Collection[int], most: int) -> tuple[int, ...]:
    """The lowest `most` indexes that are not taken."""
    free = (number for number in range(completions) if number not in taken)
    return tuple(number for number, _ in zip(free, range(max(0, most)), strict=False))


def with_index(owner: Job, pod: Pod, index: int) -> Pod:
    """The Pod with a completion index as annotation, label, environment variable, host name and name prefix."""
    meta = pod.metadata
    mark = {INDEX: str(index)}
    made = pod.with_metadata(
        generate_name=f"{owner.name}-{index}-",
        annotations={**meta.annotations, **mark},
        labels={**meta.labels, **mark},
    )
    spec = replace(
        made.spec,
        hostname=made.spec.hostname or f"{owner.name}-{index}",
        containers=tuple(map(_with_variable, made.spec.containers)),
        init_containers=tuple(map(_with_variable, made.spec.init_containers)),
    )
    return replace(made, spec=spec)


def _with_variable(container: Container) -> Container:
    if any(one.name == _VARIABLE for one in container.env):
        return container
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.annotations['{INDEX}']"))
    return replace(container, env=(*container.env, EnvVar(name=_VARIABLE, value_from=source)))
