"""The report of an exploration as text, JSON and JUnit XML.

A failure is reported as a story: the disturbances, the steps around them, and the expected and the actual result.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from levelset.testing.explore.faults.plan import Plan
from levelset.testing.explore.records.run_result import Finding, RunResult
from levelset.testing.explore.records.trace import Step, Trace
from levelset.testing.explore.reports.call_site_coverage import Coverage

__all__ = [
    "COMMAND",
    "Failure",
    "PlanResult",
    "Report",
    "describe_step",
    "is_shown",
    "junit",
    "printable",
    "write_story",
]

_BEFORE: Final = 12
_AFTER: Final = 24
_ACTORS: Final = {"another": "another writer", "user": "the user", "watch": "the cache"}
_VERBS: Final = {
    "apply": "applies",
    "create": "creates",
    "delete": "deletes",
    "deletecollection": "deletes all",
    "get": "gets",
    "list": "lists",
    "outside": "calls",
    "patch": "patches",
    "update": "updates",
    "watch": "watches",
}
_READS: Final = frozenset({"get", "list", "watch"})


def write_story(
    name: str, failed: RunResult, undisturbed: RunResult | None, *, replay: str = "", similar: Sequence[str] = ()
) -> str:
    """The report of a failed run: findings, the steps around them, and the command that replays it."""
    lines = [f"{name}: {failed.plan}", ""]
    for finding in failed.findings:
        lines.append(f"  {finding}")
        lines += [f"    expected   {line}" for line in finding.expected.splitlines()]
        lines += [f"    actual     {line}" for line in finding.actual.splitlines()]
        if finding.step is not None:
            lines.append(f"    at step    {finding.step.number}: {describe_step(finding.step)}")
    lines += ["", "  Steps (> disturbed, * first difference from the undisturbed run):"]
    lines += [f"  {line}" for line in _timeline(failed, undisturbed)]
    if similar:
        lines += ["", *(f"  {line}" for line in similar)]
    if replay:
        lines += ["", f"  Replay: {replay}"]
    return "\n".join(lines) + "\n"


def describe_step(step: Step) -> str:
    """One step as a sentence."""
    return f"{_actor(step)} {_action(step)}{_reasons(step)}"


def _actor(step: Step) -> str:
    return _ACTORS.get(step.process, step.process)


def _action(step: Step) -> str:
    name = (step.name.action.partition(" ")[2] or step.name.action).removesuffix(" by user")
    shown = f"{name} ({step.alias})" if step.alias else name
    match step.act:
        case "reconcile":
            return f"reconciles {shown}" + (f" as of revision {step.seen}" if step.seen else "")
        case "reconciled":
            return f"finished {shown}: {step.outcome}"
        case "event":
            return f"receives {shown}: {step.outcome or 'an event'}" + (
                f" of revision {step.seen}" if step.seen else ""
            )
        case "crash":
            return "crashes and loses its memory"
        case "start":
            return "starts"
        case "disturb":
            return f"is disturbed: {step.disturbance or step.name.action}"
        case "call" | "user":
            made = f", which creates revision {step.revision}" if step.made else ""
            return f"{_VERBS.get(step.verb, step.verb)} {shown} -> {step.outcome or 'no response'}{made}"


def _reasons(step: Step) -> str:
    if step.act == "reconcile" and step.cause is not None and step.cause.reasons:
        return f", because {'; '.join(step.cause.reasons)}"
    return ""


def _timeline(failed: RunResult, undisturbed: RunResult | None) -> Iterator[str]:
    """The steps around the disturbances, the divergence from the undisturbed run, and the findings."""
    steps = failed.trace.steps
    diverged = _divergence(failed.trace, undisturbed.trace) if undisturbed is not None else None
    broken = [one.step.number for one in failed.findings if one.step is not None]
    shown = [one for one in steps if is_shown(one)]
    matters = {one.number for one in shown if one.disturbance or one.act in {"crash", "disturb"}} | set(broken)
    near = _surrounding(shown, matters or ({diverged} if diverged else set()))
    last = 0
    for index, step in near:
        if index != last:
            yield "    ..."
        last = index + 1
        sign = ">" if step.disturbance or step.act == "disturb" else "*" if step.number == diverged else " "
        yield f"{sign} {step.number:>4} {step.at:>9.3f} s  {describe_step(step)}"
    if last < len(shown):
        yield "    ..."


def is_shown(step: Step) -> bool:
    """Whether a story shows the step: reads are left out, unless they are disturbed."""
    return step.is_write or step.act != "call" or step.verb not in _READS or bool(step.disturbance)


def _surrounding(steps: Sequence[Step], numbers: set[int]) -> list[tuple[int, Step]]:
    """The steps with these numbers, and some before and after each, with their indexes."""
    if not numbers:
        return list(enumerate(steps))[: _BEFORE + _AFTER]
    hits = [index for index, step in enumerate(steps) if step.number in numbers]
    indexes = {index for hit in hits for index in range(hit - _BEFORE // 2, hit + _AFTER // 2)}
    return [(index, step) for index, step in enumerate(steps) if index in indexes]


def _divergence(trace: Trace, other: Trace) -> int | None:
    """The number of the first step that differs from the undisturbed run."""
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
"""The arguments of the command that replays a plan."""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """One plan that was run, and the rules that it broke, if any."""

    plan: Plan
    rules: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it broke no rule."""
        return not self.rules


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure mode: the shortest plan that shows it, and how many others show the same.

    `found` is the plan that showed it first, and `also` has one plan for each other kind of disturbance that does.
    """

    shown: RunResult
    found: Plan
    others: int = 0
    also: tuple[Plan, ...] = ()

    @property
    def rule(self) -> str:
        """The first rule that it breaks."""
        return self.shown.findings[0].rule

    def and_by(self, plan: Plan) -> "Failure":
        """The failure with one more plan that shows it."""
        known = {_fault_names(self.shown.plan), *map(_fault_names, self.also)}
        also = self.also if len(plan) > 1 or _fault_names(plan) in known else (*self.also, plan)
        return Failure(self.shown, self.found, self.others + 1, also)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an exploration.

    `derived` is the number of derived plans; `target` is the name of the exploration on a command line. `undisturbed`
    may itself have findings: then no plan is run. `notes` are limits of the result, and
    `warnings` what makes it worth little: controllers that changed nothing.
    """

    name: str
    seed: int
    undisturbed: RunResult
    tried: tuple[PlanResult, ...] = ()
    failures: tuple[Failure, ...] = ()
    derived: int = 0
    seconds: float = 0.0
    target: str = ""
    command: tuple[str, ...] = COMMAND
    notes: tuple[str, ...] = field(default=())
    warnings: tuple[str, ...] = field(default=())
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def ok(self) -> bool:
        """Whether neither the undisturbed run nor any plan has findings."""
        return not self.failures and self.undisturbed.ok

    @property
    def families(self) -> Mapping[str, tuple[int, int]]:
        """The number of plans run and failed, by kind of disturbance, or `pairs`."""
        played: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for one in self.tried:
            word = one.plan.disturbances[0].word if len(one.plan) == 1 else "pairs"
            played[word] += 1
            failed[word] += not one.ok
        return {word: (count, failed[word]) for word, count in played.items()}

    def replay(self, plan: Plan) -> str:
        """The command that replays one plan."""
        target = self.target or f"module:{self.name}"
        return shlex.join(one.format(target=target, seed=self.seed, plan=plan.id) for one in self.command)

    def story(self) -> str:
        """The report as text: one line if there is no failure, else the story of each failure mode."""
        if not self.undisturbed.ok:
            return f"{write_story(self.name, self.undisturbed, None, replay=self.replay(Plan()))}\n{self.summary()}\n"
        stories = [
            write_story(
                self.name, one.shown, self.undisturbed, replay=self.replay(one.shown.plan), similar=_similar_plans(one)
            )
            for one in self.failures
        ]
        return "\n".join([*stories, *(f"note: {one}" for one in self.notes), f"{self.summary()}\n"])

    def summary(self) -> str:
        """One line, and one more for each warning."""
        return "\n".join([self._result(), *(f"warning: {one}" for one in self.warnings)])

    def _result(self) -> str:
        if not self.undisturbed.ok:
            return f"{self.name}: the undisturbed run fails; no plan was run"
        failed, modes = sum(not one.ok for one in self.tried), len(self.failures)
        how = f"{failed} failed in {modes} {'mode' if modes == 1 else 'modes'}" if failed else "no failures"
        return f"{self.name}: {len(self.tried)} of {self.derived} plans run in {self.seconds:.1f} s, {how}"

    def to_json(self) -> str:
        """The report as JSON."""
        return json.dumps(self.to_tree(), indent=2, ensure_ascii=False) + "\n"

    def to_tree(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "name": self.name,
            "seed": self.seed,
            "ok": self.ok,
            "played": len(self.tried),
            "derived": self.derived,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "undisturbed": {
                "digest": self.undisturbed.trace.digest,
                "steps": len(self.undisturbed.trace),
                "findings": [_finding(one) for one in self.undisturbed.findings],
            },
            "families": {word: {"played": all_, "failed": bad} for word, (all_, bad) in self.families.items()},
            "failures": [self._failure(one) for one in self.failures],
            "coverage": self.coverage.to_tree(),
        }

    def to_junit(self) -> Element:
        """The report as a JUnit test suite: one case for the undisturbed run, and one for each plan."""
        suite = Element("testsuite", name=f"explore {self.name}", tests=str(len(self.tried) + 1))
        suite.set("failures", str(sum(not one.ok for one in self.tried) + (not self.undisturbed.ok)))
        suite.set("time", f"{self.seconds:.3f}")
        if self.warnings:
            properties = SubElement(suite, "properties")
            for warning in self.warnings:
                SubElement(properties, "property", name="warning", value=printable(warning))
        case = SubElement(suite, "testcase", classname=self.name, name="undisturbed")
        if not self.undisturbed.ok:
            SubElement(case, "failure", message=str(self.undisturbed.findings[0])).text = printable(self.story())
        if self.warnings:
            SubElement(case, "system-out").text = printable("\n".join(f"warning: {one}" for one in self.warnings))
        stories = {one.found.id: one for one in self.failures}
        for one in self.tried:
            self._case(suite, one, stories.get(one.plan.id))
        return suite

    def _case(self, suite: Element, tried: PlanResult, failure: Failure | None) -> None:
        case = SubElement(suite, "testcase", classname=self.name, name=printable(str(tried.plan)))
        if tried.ok:
            return
        found = SubElement(case, "failure", message=printable(", ".join(tried.rules)))
        if failure is None:
            found.text = f"Replay: {self.replay(tried.plan)}"
        else:
            command = self.replay(failure.shown.plan)
            found.text = printable(write_story(self.name, failure.shown, self.undisturbed, replay=command))

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
    assert one.step is not None, "called only for findings with a step"
    return {"at": one.step.at, "process": one.step.process, "outcome": one.step.outcome}


def printable(text: str) -> str:
    """The text without characters that are invalid in XML and HTML."""
    return "".join(one if one in "\n\t" or one >= " " else "?" for one in text)


def junit(reports: Sequence[Report]) -> str:
    """Reports as JUnit XML."""
    suites = Element("testsuites")
    suites.extend(one.to_junit() for one in reports)
    indent(suites)
    return tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _fault_names(plan: Plan) -> tuple[str, ...]:
    return tuple(sorted(one.word for one in plan))


def _similar_plans(one: Failure) -> list[str]:
    """The lines about the other plans that show the same failure mode."""
    if not one.others:
        return []
    lines = [f"{one.others} more {'plan fails' if one.others == 1 else 'plans fail'} in the same mode"]
    lines[0] += ", among them" if one.also else "."
    return lines + [f"  {plan}" for plan in one.also]
