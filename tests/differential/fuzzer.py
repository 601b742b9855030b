"""Runs sequences against both servers, and collects what differs, grouped by signature."""

import asyncio
import json
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.differential import corpus, grammar, intended
from tests.differential.grammar import Step
from tests.differential.normal_form import Known, signature
from tests.differential.servers import Server, run_step
from tests.differential.shrinking import shrink

__all__ = ["Finding", "Report", "Tally", "Trial", "compare", "count", "fuzz", "show", "smallest"]

_SEQUENCES_AT_ONCE = 6


@dataclass(frozen=True)
class Trial:
    """What a run of a sequence gave: the number of requests that were compared, and the first that differed."""

    compared: int
    answers: tuple[Any, ...] = ()
    theirs: Any = None
    ours: Any = None
    intended: str = ""

    @property
    def differs(self) -> bool:
        return self.theirs is not None


@dataclass(frozen=True)
class Finding:
    """A difference: the sequence up to the request that is answered differently, and both answers."""

    seed: str
    steps: tuple[Step, ...]
    theirs: Any
    ours: Any
    answers: tuple[Any, ...] = ()


@dataclass
class Tally:
    """Counts of requests and sequences, and how many of them were answered differently; a sequence ends there."""

    requests: int = 0
    sequences: int = 0
    different: int = 0
    stretch: int = 0
    longest: int = 0
    """Requests in a row without a difference: since the last one, and the most."""

    @property
    def agreement(self) -> float:
        return 1 - self.different / max(self.requests, 1)

    def count(self, trial: Trial) -> None:
        self.requests += trial.compared
        self.sequences += 1
        is_different = trial.differs and not trial.intended
        self.different += is_different
        self.stretch += trial.compared - is_different
        self.longest = max(self.longest, self.stretch)
        if is_different:
            self.stretch = 0

    def __str__(self) -> str:
        whole = self.sequences - self.different
        return (
            f"{self.requests} requests in {self.sequences} sequences, {self.different} differ"
            f" ({self.agreement:.2%} agree, {whole / max(self.sequences, 1):.2%} of the sequences),"
            f" {self.longest} in a row agree"
        )


@dataclass
class Report:
    """Counts of all requests and of those to built-in kinds, and the findings by signature."""

    all: Tally = field(default_factory=Tally)
    builtin: Tally = field(default_factory=Tally)
    statuses: Counter[int] = field(default_factory=Counter)
    intended: Counter[str] = field(default_factory=Counter)
    unrepeated: list[str] = field(default_factory=list[str])
    """The seeds of sequences that differed, and did not when they were run again."""
    groups: dict[str, list[Finding]] = field(default_factory=lambda: defaultdict(list))


async def compare(steps: list[Step] | tuple[Step, ...], theirs: Server, ours: Server) -> Trial:
    """Runs a sequence on both servers until an answer differs; each run has its own namespace."""
    name = f"x{secrets.token_hex(4)}"
    mine, other = Known(name), Known(name)
    space = {"do": "POST /api/v1/namespaces", "body": {"metadata": {"name": "${ns}"}}}
    await asyncio.gather(run_step(theirs, 0, space, other), run_step(ours, 0, space, mine))
    seen: list[Any] = []
    for number, step in enumerate(steps, 1):
        expected, found = await asyncio.gather(
            run_step(theirs, number, step, other), run_step(ours, number, step, mine)
        )
        seen.append(expected)
        if expected != found:
            reason = intended.reason(step, expected, found)
            return Trial(number, tuple(seen), expected, found, reason)
    return Trial(len(steps), tuple(seen))


async def fuzz(
    seeds: list[str], their_servers: Callable[[], Server], ours: Server, progress: Callable[[Report], None]
) -> Report:
    """Runs the sequences of all seeds."""
    report, waiting, known = Report(), list(reversed(seeds)), corpus.load()

    async def work() -> None:
        theirs = their_servers()
        while waiting:
            seed = waiting.pop()
            steps = grammar.sequence(known, seed)
            trial = await compare(steps, theirs, ours)
            if trial.differs and not trial.intended:
                again = await compare(steps, theirs, ours)
                if not again.differs or again.intended or again.compared != trial.compared:
                    # Sequences that run at the same time take the same ports, and one that waits crosses a second.
                    report.unrepeated.append(seed)
                    trial = again
            count(report, seed, steps, trial)
            progress(report)

    await asyncio.gather(*(work() for _ in range(_SEQUENCES_AT_ONCE)))
    return report


async def smallest(finding: Finding, theirs: Server, ours: Server) -> Finding | None:
    """The finding with the smallest sequence that still shows it; None if it does not happen again."""
    wanted = signature(finding.steps[-1], finding.theirs, finding.ours)
    found: Finding | None = None

    async def differs(steps: list[Step]) -> bool:
        nonlocal found
        trial = await compare(steps, theirs, ours)
        is_same = trial.differs and not trial.intended and trial.compared == len(steps)
        if not is_same or signature(steps[-1], trial.theirs, trial.ours) != wanted:
            return False
        found = Finding(finding.seed, tuple(steps), trial.theirs, trial.ours, trial.answers)
        return True

    if await differs(list(finding.steps)):
        await shrink(list(finding.steps), differs)
    return found


def count(report: Report, seed: str, steps: list[Step], trial: Trial) -> None:
    """Counts the trial of a sequence, and keeps what differed."""
    report.all.count(trial)
    if not _is_custom(steps[0]):
        report.builtin.count(trial)
    report.statuses.update(one["status"] for one in trial.answers)
    if trial.intended:
        report.intended[trial.intended] += 1
    elif trial.differs:
        last = steps[trial.compared - 1]
        name = signature(last, trial.theirs, trial.ours)
        report.groups[name].append(Finding(seed, tuple(steps[: trial.compared]), trial.theirs, trial.ours))


def _is_custom(step: Step) -> bool:
    """Whether a sequence that begins with this request is about a kind of our definitions: all of it is about one."""
    groups = {one["spec"]["group"] for one in corpus.load().definitions}
    return any(f"/apis/{group}/" in step["do"] for group in groups)


def show(report: Report, limit: int = 40) -> str:
    """The groups, most frequent first, each with its smallest example."""
    lines = [str(report.all), f"  of built-in kinds: {report.builtin}"]
    lines += [f"  intended: {count} x {reason}" for reason, count in report.intended.most_common()]
    lines += [f"  differed once, and not again: {' '.join(report.unrepeated)}"] if report.unrepeated else []
    lines += [f"  statuses: {dict(report.statuses.most_common())}"]
    coarse: Counter[str] = Counter()
    for name, found in report.groups.items():
        coarse[name.partition(" ")[2]] += len(found)
    lines += [f"{count:4} * {name}" for name, count in coarse.most_common(limit) if count > 2]
    for name, found in sorted(report.groups.items(), key=lambda one: -len(one[1]))[:limit]:
        lines.append(f"{len(found):4} {name}   [{min(found, key=lambda one: len(json.dumps(one.steps))).seed}]")
    return "\n".join(lines)
