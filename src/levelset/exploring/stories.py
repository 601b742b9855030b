"""Tells a failure as a story: what was done to the controller, what it saw and did, and what should have been."""

from collections.abc import Iterator, Sequence
from typing import Final

from levelset.exploring.findings import Played
from levelset.exploring.traces import Step, Trace

__all__ = ["tell", "words_of"]

_BEFORE: Final = 12
_AFTER: Final = 24
_WHO: Final = {"people": "somebody", "watch": "the cache"}
_VERBS: Final = {
    "apply": "applies",
    "create": "creates",
    "delete": "deletes",
    "deletecollection": "deletes all",
    "get": "gets",
    "list": "lists",
    "patch": "patches",
    "update": "updates",
    "watch": "watches",
}
_READS: Final = frozenset({"get", "list", "watch"})


def tell(name: str, failed: Played, undisturbed: Played | None, *, replay: str = "", coda: Sequence[str] = ()) -> str:
    """The story of a run that went wrong, as some lines of text."""
    lines = [f"{name}: {failed.plan}", ""]
    for finding in failed.findings:
        lines.append(f"  {finding}")
        lines += [f"    should be  {line}" for line in finding.expected.splitlines()]
        lines += [f"    but is     {line}" for line in finding.actual.splitlines()]
        if finding.step is not None:
            lines.append(f"    at step    {finding.step.number}: {words_of(finding.step)}")
    lines += ["", "  What happened (> is where it was disturbed, * where it left the undisturbed course):"]
    lines += [f"  {line}" for line in _chapter(failed, undisturbed)]
    if coda:
        lines += ["", *(f"  {line}" for line in coda)]
    if replay:
        lines += ["", f"  Replay it: {replay}"]
    return "\n".join(lines) + "\n"


def words_of(step: Step) -> str:
    """One step in words."""
    return f"{_who(step)} {_does(step)}{_why(step)}"


def _who(step: Step) -> str:
    return _WHO.get(step.process, step.process)


def _does(step: Step) -> str:
    name = (step.name.said.partition(" ")[2] or step.name.said).removesuffix(" by people")
    shown = f"{name} ({step.alias})" if step.alias else name
    match step.act:
        case "look":
            return f"looks at {shown}" + (f" as of revision {step.seen}" if step.seen else "")
        case "looked":
            return f"is done with {shown}: {step.outcome}"
        case "event":
            return f"sees {shown}: {step.outcome or 'an event'}" + (f" of revision {step.seen}" if step.seen else "")
        case "crash":
            return "is gone, with all that it had in memory"
        case "start":
            return "starts"
        case "disturb":
            return f"is disturbed: {step.disturbance or step.name.said}"
        case "call" | "people":
            made = f", which makes revision {step.revision}" if step.made else ""
            return f"{_VERBS.get(step.verb, step.verb)} {shown} -> {step.outcome or 'no answer'}{made}"


def _why(step: Step) -> str:
    if step.act == "look" and step.cause is not None and step.cause.reasons:
        return f", because {'; '.join(step.cause.reasons)}"
    return ""


def _chapter(failed: Played, undisturbed: Played | None) -> Iterator[str]:
    """The steps around what matters: where it was disturbed, where it went another way, and where it broke."""
    steps = failed.trace.steps
    parted = _parting(failed.trace, undisturbed.trace) if undisturbed is not None else None
    broken = [one.step.number for one in failed.findings if one.step is not None]
    shown = [one for one in steps if _is_telling(one)]
    matters = {one.number for one in shown if one.disturbance or one.act in {"crash", "disturb"}} | set(broken)
    kept = _near(shown, matters or ({parted} if parted else set()))
    last = 0
    for index, step in kept:
        if index != last:
            yield "    ..."
        last = index + 1
        sign = ">" if step.disturbance or step.act == "disturb" else "*" if step.number == parted else " "
        yield f"{sign} {step.number:>4} {step.at:>9.3f} s  {words_of(step)}"
    if last < len(shown):
        yield "    ..."


def _is_telling(step: Step) -> bool:
    return step.is_write or step.act != "call" or step.verb not in _READS or bool(step.disturbance)


def _near(steps: Sequence[Step], numbers: set[int]) -> list[tuple[int, Step]]:
    """The steps with these numbers and some before and after each, with their indexes."""
    if not numbers:
        return list(enumerate(steps))[: _BEFORE + _AFTER]
    hits = [index for index, step in enumerate(steps) if step.number in numbers]
    kept = {near for hit in hits for near in range(hit - _BEFORE // 2, hit + _AFTER // 2)}
    return [(index, step) for index, step in enumerate(steps) if index in kept]


def _parting(trace: Trace, other: Trace) -> int | None:
    """The number of the first step that is not the same as in the undisturbed run."""
    for mine, theirs in zip(trace.steps, other.steps, strict=False):
        if (mine.act, mine.name, mine.outcome, mine.process) != (
            theirs.act,
            theirs.name,
            theirs.outcome,
            theirs.process,
        ):
            return mine.number
    return None
