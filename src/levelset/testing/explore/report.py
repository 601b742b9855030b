"""What came of an exploration: how many plans were played, which failed, and the same for people, CI and programs.

Tells a failure as a story: what was done to the controller, what it saw and did, and what should have been.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from levelset.testing.explore.plans import Plan
from levelset.testing.explore.run_result import Finding, Played
from levelset.testing.explore.trace import Step, Trace

__all__ = ["COMMAND", "Failure", "Report", "Tried", "junit", "tell", "way_of", "words_of"]

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


COMMAND: Final = ("levelset", "explore", "{target}", "--seed", "{seed}", "--replay", "{plan}")
"""The words of the command that plays a plan again."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One plan that was played, and the rules that it broke, if any."""

    plan: Plan
    rules: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it broke none."""
        return not self.rules


@dataclass(frozen=True, slots=True)
class Failure:
    """One way to fail: the shortest plan that shows it, and how many others showed the same.

    `found` is the plan that showed it first, and `also` one for each other kind of disturbance that did.
    """

    shown: Played
    found: Plan
    others: int = 0
    also: tuple[Plan, ...] = ()

    @property
    def rule(self) -> str:
        """What it breaks first."""
        return self.shown.findings[0].rule

    def and_by(self, plan: Plan) -> "Failure":
        """The same, shown by one more plan."""
        known = {_means(self.shown.plan), *map(_means, self.also)}
        also = self.also if len(plan) > 1 or _means(plan) in known else (*self.also, plan)
        return Failure(self.shown, self.found, self.others + 1, also)


@dataclass(frozen=True, slots=True)
class Report:
    """The whole of it. `derived` is how many plans there were to choose from; `target` is how a command line calls it.

    `undisturbed` may itself have findings: then no plan is played. `notes` say what makes the result say less than it
    seems to.
    """

    name: str
    seed: int
    undisturbed: Played
    tried: tuple[Tried, ...] = ()
    failures: tuple[Failure, ...] = ()
    derived: int = 0
    seconds: float = 0.0
    target: str = ""
    command: tuple[str, ...] = COMMAND
    notes: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing broke, neither undisturbed nor by any plan."""
        return not self.failures and self.undisturbed.ok

    @property
    def families(self) -> Mapping[str, tuple[int, int]]:
        """How many plans were played and how many failed, by the word of the first disturbance, or `pairs`."""
        played: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for one in self.tried:
            word = one.plan.disturbances[0].word if len(one.plan) == 1 else "pairs"
            played[word] += 1
            failed[word] += not one.ok
        return {word: (count, failed[word]) for word, count in played.items()}

    def replay(self, plan: Plan) -> str:
        """The command that plays one plan again, exactly."""
        target = self.target or f"module:{self.name}"
        return shlex.join(one.format(target=target, seed=self.seed, plan=plan.id) for one in self.command)

    def story(self) -> str:
        """All of it in words: one line if all is well, else what broke, and how."""
        if not self.undisturbed.ok:
            return f"{tell(self.name, self.undisturbed, None, replay=self.replay(Plan()))}\n{self.summary()}\n"
        stories = [
            tell(self.name, one.shown, self.undisturbed, replay=self.replay(one.shown.plan), coda=_coda(one))
            for one in self.failures
        ]
        return "\n".join([*stories, *(f"note: {one}" for one in self.notes), f"{self.summary()}\n"])

    def summary(self) -> str:
        """One line."""
        if not self.undisturbed.ok:
            return f"{self.name}: it fails undisturbed; no plan was played"
        failed, ways = sum(not one.ok for one in self.tried), len(self.failures)
        how = f"{failed} failed in {ways} {'way' if ways == 1 else 'ways'}" if failed else "nothing broke"
        return f"{self.name}: {len(self.tried)} of {self.derived} plans played in {self.seconds:.1f} s, {how}"

    def to_json(self) -> str:
        """All of it for programs."""
        return json.dumps(self.to_tree(), indent=2, ensure_ascii=False) + "\n"

    def to_tree(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "name": self.name,
            "seed": self.seed,
            "ok": self.ok,
            "played": len(self.tried),
            "derived": self.derived,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "undisturbed": {
                "digest": self.undisturbed.trace.digest,
                "steps": len(self.undisturbed.trace),
                "findings": [_finding(one) for one in self.undisturbed.findings],
            },
            "families": {word: {"played": all_, "failed": bad} for word, (all_, bad) in self.families.items()},
            "failures": [self._failure(one) for one in self.failures],
        }

    def to_junit(self) -> Element:
        """All of it for CI, as a suite: one case for the undisturbed run, and one for each plan."""
        suite = Element("testsuite", name=f"explore {self.name}", tests=str(len(self.tried) + 1))
        suite.set("failures", str(sum(not one.ok for one in self.tried) + (not self.undisturbed.ok)))
        suite.set("time", f"{self.seconds:.3f}")
        case = SubElement(suite, "testcase", classname=self.name, name="undisturbed")
        if not self.undisturbed.ok:
            SubElement(case, "failure", message=str(self.undisturbed.findings[0])).text = _printable(self.story())
        stories = {one.found.id: one for one in self.failures}
        for one in self.tried:
            self._case(suite, one, stories.get(one.plan.id))
        return suite

    def _case(self, suite: Element, tried: Tried, failure: Failure | None) -> None:
        case = SubElement(suite, "testcase", classname=self.name, name=_printable(str(tried.plan)))
        if tried.ok:
            return
        found = SubElement(case, "failure", message=_printable(", ".join(tried.rules)))
        if failure is None:
            found.text = f"Replay it: {self.replay(tried.plan)}"
        else:
            command = self.replay(failure.shown.plan)
            found.text = _printable(tell(self.name, failure.shown, self.undisturbed, replay=command))

    def _failure(self, one: Failure) -> dict[str, Any]:
        return {
            "plan": one.shown.plan.id,
            "words": str(one.shown.plan),
            "found": one.found.id,
            "others": one.others,
            "also": [plan.id for plan in one.also],
            "replay": self.replay(one.shown.plan),
            "findings": [_finding(finding) for finding in one.shown.findings],
        }


def _finding(one: Finding) -> dict[str, Any]:
    step = None if one.step is None else {"number": one.step.number, "name": str(one.step.name), **_times(one)}
    return {**asdict(one), "step": step}


def _times(one: Finding) -> dict[str, Any]:
    assert one.step is not None, "asked for findings with a step"
    return {"at": one.step.at, "process": one.step.process, "outcome": one.step.outcome}


def _printable(text: str) -> str:
    """The text without the characters that XML does not know."""
    return "".join(one if one in "\n\t" or one >= " " else "?" for one in text)


def junit(reports: Sequence[Report]) -> str:
    """Reports for CI, in the form that JUnit has made common."""
    suites = Element("testsuites")
    suites.extend(one.to_junit() for one in reports)
    indent(suites)
    return tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def way_of(played: Played) -> tuple[str, ...]:
    """In which way a run fails: runs that break the same rule at the same kind of step are alike."""
    finding = played.findings[0]
    return finding.rule, "" if finding.step is None else f"{finding.step.verb} {finding.step.kind}"


def _means(plan: Plan) -> tuple[str, ...]:
    return tuple(sorted(one.word for one in plan))


def _coda(one: Failure) -> list[str]:
    """What is said of the other plans that show the same."""
    if not one.others:
        return []
    lines = [f"{one.others} more {'plan fails' if one.others == 1 else 'plans fail'} in the same way"]
    lines[0] += ", among them" if one.also else "."
    return lines + [f"  {plan}" for plan in one.also]
