"""`levelset explore module:exploration`: tests controllers with injected faults, and shows the steps of failures."""

import json
import math
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from levelset.cli.output import (
    CommandFailed,
    UsageError,
    output_option,
    progress,
    reporting_errors,
    show_json,
    show_table,
)
from levelset.cli.targets import load, loader
from levelset.errors import ConfigError
from levelset.runtime.controller import Controller
from levelset.testing.explore import Exploration, Plan, Report, RunResult, junit, recorded_scenario, write_html
from levelset.testing.explore import explore as run_plans
from levelset.testing.explore import replay as run_plan
from levelset.testing.explore.exploration import name_of
from levelset.testing.explore.reports.report import COMMAND, write_story
from levelset.testing.explore.search import DEFAULT_BUDGET, Progress, SearchProgress

__all__ = ["describe_progress", "explore", "read_budget", "read_limits"]


@click.command()
@click.argument("target", metavar="MODULE:EXPLORATION")
@click.option(
    "--budget",
    metavar="PLANS|TIME",
    help=f"The maximum number of plans, or the time to spend (30s).  [default: {DEFAULT_BUDGET}, or all with --time]",
)
@click.option("--time", "spent", metavar="TIME", help="The time to spend on each exploration (60s, 10m, 1h).")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Runs N plans at once.  [default: all cores]")
@click.option(
    "--state",
    "state_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Notes what was run in this file, and continues there if it was interrupted.",
)
@click.option("--seed", default=1, show_default=True, help="The random seed; the same seed gives the same runs.")
@click.option("--replay", metavar="ID", help="Runs only this plan, and shows every step of it.")
@click.option("--from", "recording", metavar="FILE", help="Explores around this recording: TARGET names controllers.")
@click.option("--since", metavar="N|TIME", help="With --from, begins at this reconcile, or time (12.5s).")
@click.option("--until", metavar="N|TIME", help="With --from, ends after this reconcile, or at this time.")
@click.option("--object", "thing", metavar="KIND/NAME", help="With --from, leaves out other objects of this kind.")
@click.option("--only", metavar="NAME", help="Of several explorations, runs the one with this name.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Writes the report to this file, as JSON.")
@click.option(
    "--junit", "junit_file", type=click.Path(path_type=Path), help="Writes the report to this file, as JUnit XML."
)
@click.option("--html", "html_file", type=click.Path(path_type=Path), help="Writes the report as one HTML file.")
@output_option
def explore(
    *,
    target: str,
    budget: str | None,
    spent: str | None,
    jobs: int | None,
    state_file: Path | None,
    seed: int,
    replay: str | None,
    only: str | None,
    recording: str | None,
    since: str | None,
    until: str | None,
    thing: str | None,
    json_file: Path | None,
    junit_file: Path | None,
    html_file: Path | None,
    output: str,
) -> None:
    """Tests controllers with crashes, conflicts, lost responses and stale caches at every step.

    MODULE:EXPLORATION names an Exploration, or a list of them; a module alone means all in it.

    With --from FILE the scenario is a recorded run: others do what they did then, and the controllers whatever they do
    now, with faults around it. MODULE:EXPLORATION then names the controllers, or an Exploration that has them, for
    its invariants and its outside.

    Example: levelset explore operators.website:exploration --budget 30s

    Example: levelset explore website.py --from run.levelset --until 12.5s --object website/blog

    Exit codes: 0 no failures, 1 failures, 2 usage error.
    """
    with reporting_errors():
        with progress(f"importing {target}", output=output):
            stretch = _Stretch(recording, since, until, thing)
            found = _selected(_explorations(target, stretch), target, only)
        if replay is not None:
            _replay(found, target, replay, seed, output)
            return
        limits = read_limits(budget, spent)
        options = {**limits, "jobs": jobs or _cores(), "state": state_file}
        commands = [(*_command(one, found, only), *stretch.words()) for one in found]
        reports = [
            _explore(one, target, seed, output, command=command, **options)
            for one, command in zip(found, commands, strict=True)
        ]
    for path, write in ((json_file, _json), (junit_file, junit), (html_file, write_html)):
        if path is not None:
            _write(path, write(reports))
    if output == "json":
        show_json([one.to_tree() for one in reports])
    else:
        for report in reports:
            _show(report)
    if not all(one.ok for one in reports):
        raise SystemExit(1)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The stretch of a recording that the options name; `file` is None without --from."""

    file: str | None
    since: str | None
    until: str | None
    only: str | None

    def words(self) -> tuple[str, ...]:
        """The options again, for the command that replays a plan."""
        given = (("--from", self.file), ("--since", self.since), ("--until", self.until), ("--object", self.only))
        return tuple(word for name, value in given if value is not None for word in (name, _escaped(value)))


def _explorations(target: str, stretch: _Stretch) -> Sequence[Exploration]:
    if stretch.file is None:
        if words := stretch.words():
            raise UsageError(f"{words[0]} is a place in a recording: add --from FILE")
        return load(target, Exploration, what="Explorations")
    scenario = recorded_scenario(stretch.file, since=stretch.since, until=stretch.until, only=stretch.only)
    name = Path(stretch.file).name
    try:
        return [replace(one, scenario=scenario) for one in load(target, Exploration, what="Explorations")]
    except ConfigError:
        controllers: Callable[[], Sequence[Controller[Any]]]
        controllers = loader(target, Controller, what="Controllers or Explorations")
        controllers()  # what is wrong with the target is said now
        return [Exploration(scenario, controllers, name=name)]


def read_budget(text: str) -> tuple[int | None, float | None]:
    """The number of plans, or the number of seconds, whichever is given."""
    try:
        plans, seconds = (None, float(text[:-1])) if text.endswith("s") else (int(text), None)
    except ValueError:
        plans, seconds = 0, None
    if not 0 < (plans or seconds or 0) < math.inf:
        raise UsageError(f"--budget {text}: expected a number of plans such as 200, or a time such as 30s")
    return plans, seconds


def read_limits(budget: str | None, spent: str | None) -> dict[str, Any]:
    """The limits of an exploration: `budget` in plans, None for all, and `within` in seconds."""
    if spent is None:
        plans, within = read_budget(budget or str(DEFAULT_BUDGET))
    else:
        plans, within = (None, None) if budget is None else read_budget(budget)
        within = min(_read_time(spent), math.inf if within is None else within)
    return {"budget": plans, "within": within}


def _read_time(text: str) -> float:
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:], 0.0)
    try:
        seconds = float(text[:-1]) * unit
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"--time {text}: expected a time such as 60s, 10m or 1h")
    return seconds


def _cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _json(reports: Sequence[Report]) -> str:
    return json.dumps([one.to_tree() for one in reports], indent=2) + "\n"


def _selected(found: Sequence[Exploration], target: str, only: str | None) -> Sequence[Exploration]:
    chosen = [one for one in found if only in {None, name_of(one)}]
    if not chosen:
        names = ", ".join(map(name_of, found))
        raise UsageError(f"{target} has no exploration named {only}; it has {names}")
    return chosen


def _command(one: Exploration, found: Sequence[Exploration], only: str | None) -> tuple[str, ...]:
    """The arguments of the command that replays a plan of this exploration."""
    is_alone = len(found) == 1 and only is None
    return COMMAND if is_alone else (*COMMAND[:3], "--only", _escaped(name_of(one)), *COMMAND[3:])


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _explore(one: Exploration, target: str, seed: int, output: str, **limits: Any) -> Report:
    try:
        with _progress(one.name or target, output) as progress:
            return run_plans(one, seed=seed, target=target, progress=progress, **limits)
    except KeyboardInterrupt:
        if limits["state"] is not None:
            click.echo(f"interrupted; the same command continues from {limits['state']}", err=True)
        raise


def _replay(found: Sequence[Exploration], target: str, replay: str, seed: int, output: str) -> None:
    if len(found) != 1:
        names = ", ".join(map(name_of, found))
        raise UsageError(f"{target} has {len(found)} explorations ({names}); --replay needs one: add --only NAME")
    with progress(f"running {replay}", output=output):
        played = run_plan(found[0], replay, seed=seed)
    if output == "json":
        show_json(_run(played))
    else:
        click.echo(played.trace.text(), nl=False)
    for missed in played.missed:
        click.echo(f"this disturbance was not reached: {missed}", err=True)
    if played.missed and played.ok:
        raise CommandFailed("this is not the reported run: the scenario or the controllers have changed since")
    if output == "text":
        _show_replay(found[0], target, played, seed)
    if not played.ok:
        raise SystemExit(1)


def _show_replay(one: Exploration, target: str, played: RunResult, seed: int) -> None:
    if played.ok:
        click.echo(f"no failures ({len(played.trace)} steps, {played.trace.digest})")
        return
    click.echo()
    with progress("running it undisturbed"):
        undisturbed = run_plan(one, Plan(), seed=seed)
    click.echo(write_story(one.name or target, played, undisturbed), nl=False)


def _run(played: RunResult) -> dict[str, Any]:
    """One run as plain data: its steps and findings."""
    return {
        "plan": played.plan.id,
        "seed": played.seed,
        "ok": played.ok,
        "digest": played.trace.digest,
        "steps": [step.line() for step in played.trace],
        "missed": list(played.missed),
        "findings": [{"rule": one.rule, "sentence": one.sentence} for one in played.findings],
    }


def _show(report: Report) -> None:
    click.echo(report.story(), nl=False)
    if report.families:
        rows = [(word, all_, bad or "-") for word, (all_, bad) in sorted(report.families.items())]
        show_table(("DISTURBANCE", "PLANS", "FAILED"), rows)
    if report.coverage.sites:
        click.echo(report.coverage.summary())


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from error


@contextmanager
def _progress(name: str, output: str) -> Generator[Progress | None, None, None]:
    """A progress line on a terminal; yields its update function, None elsewhere."""
    if output == "json" or not sys.stderr.isatty():
        yield None
        return
    # Imported late: only a terminal needs it.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    # Without a thread that refreshes it: worker processes are forked meanwhile.
    with Bar(console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task(name, total=None)

        def update(now: SearchProgress) -> None:
            bar.update(task, description=describe_progress(name, now), completed=now.played, total=now.total)
            bar.refresh()

        yield update


def describe_progress(name: str, now: SearchProgress) -> str:
    """The progress of an exploration as one line."""
    found = (
        f"{now.failed} failed in {now.modes} {'mode' if now.modes == 1 else 'modes'}" if now.failed else "no failures"
    )
    return f"{name}: {found}, {now.states} states, {now.per_second:.0f} plans/s"
