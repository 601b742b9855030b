"""`levelset explore module:exploration`: breaks controllers on purpose, and shows the step that breaks them."""

import json
import math
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from levelset.cli.output import Failed, Refused, output_option, show_json, show_table, speaking, working
from levelset.cli.targets import load
from levelset.testing.explore import Exploration, Plan, Played, Report, junit
from levelset.testing.explore import explore as play_all
from levelset.testing.explore import replay as play
from levelset.testing.explore.exploration import name_of
from levelset.testing.explore.report import COMMAND, tell

__all__ = ["explore", "read_budget"]


@click.command()
@click.argument("target", metavar="MODULE:EXPLORATION")
@click.option(
    "--budget", default="200", metavar="PLANS|SECONDSs", help="How many plans to play, or for how long (30s)."
)
@click.option("--seed", default=1, show_default=True, help="Begins the chance in the run; the same seed, the same run.")
@click.option("--replay", metavar="ID", help="Plays this plan alone, and shows every step of it.")
@click.option("--only", metavar="NAME", help="Of several explorations, takes the one with this name.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Writes the whole report there, as JSON.")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path), help="Writes the report there, for CI.")
@output_option
def explore(
    *,
    target: str,
    budget: str,
    seed: int,
    replay: str | None,
    only: str | None,
    json_file: Path | None,
    junit_file: Path | None,
    output: str,
) -> None:
    """Crashes, delays and confuses controllers at every step, and shows the step that breaks them.

    MODULE:EXPLORATION names an Exploration, or a list of them; a module alone means all that it holds.

    Example: levelset explore operators.website:exploration --budget 30s

    Exit codes: 0 nothing broke, 1 something did, 2 it was not understood.
    """
    with speaking():
        with working(f"loads {target}", output=output):
            found = _chosen(load(target, Exploration, what="Explorations"), target, only)
        if replay is not None:
            _replay(found, target, replay, seed, output)
            return
        plans, within = read_budget(budget)
        reports = [
            _explore(one, target, seed, output, command=_command(one, found, only), budget=plans, within=within)
            for one in found
        ]
    if json_file is not None:
        _write(json_file, json.dumps([one.to_tree() for one in reports], indent=2) + "\n")
    if junit_file is not None:
        _write(junit_file, junit(reports))
    if output == "json":
        show_json([one.to_tree() for one in reports])
    else:
        for report in reports:
            _show(report)
    if not all(one.ok for one in reports):
        raise SystemExit(1)


def read_budget(text: str) -> tuple[int | None, float | None]:
    """How many plans, or how many seconds: whichever is given."""
    try:
        plans, seconds = (None, float(text[:-1])) if text.endswith("s") else (int(text), None)
    except ValueError:
        plans, seconds = 0, None
    if not 0 < (plans or seconds or 0) < math.inf:
        raise Refused(f"--budget {text}: give a number of plans such as 200, or a time such as 30s")
    return plans, seconds


def _chosen(found: Sequence[Exploration], target: str, only: str | None) -> Sequence[Exploration]:
    chosen = [one for one in found if only in {None, name_of(one)}]
    if not chosen:
        names = ", ".join(map(name_of, found))
        raise Refused(f"{target} holds no exploration with the name {only}; there is {names}")
    return chosen


def _command(one: Exploration, found: Sequence[Exploration], only: str | None) -> tuple[str, ...]:
    """The words that play a plan of this one again."""
    is_alone = len(found) == 1 and only is None
    return (
        COMMAND
        if is_alone
        else (*COMMAND[:3], "--only", name_of(one).replace("{", "{{").replace("}", "}}"), *COMMAND[3:])
    )


def _explore(one: Exploration, target: str, seed: int, output: str, **limits: Any) -> Report:
    with _progress(one.name or target, output) as progress:
        return play_all(one, seed=seed, target=target, progress=progress, **limits)


def _replay(found: Sequence[Exploration], target: str, replay: str, seed: int, output: str) -> None:
    if len(found) != 1:
        names = ", ".join(map(name_of, found))
        raise Refused(f"{target} holds {len(found)} explorations ({names}); --replay needs one: add --only NAME")
    with working(f"plays {replay}", output=output):
        played = play(found[0], replay, seed=seed)
    if output == "json":
        show_json(_run(played))
    else:
        click.echo(played.trace.text(), nl=False)
    for missed in played.missed:
        click.echo(f"this never came to pass: {missed}", err=True)
    if played.missed and played.ok:
        raise Failed("so this was another run: the scenario or the controllers are no longer those of the report")
    if output == "text":
        _tell_replay(found[0], target, played, seed)
    if not played.ok:
        raise SystemExit(1)


def _tell_replay(one: Exploration, target: str, played: Played, seed: int) -> None:
    if played.ok:
        click.echo(f"nothing broke ({len(played.trace)} steps, {played.trace.digest})")
        return
    click.echo()
    with working("plays it undisturbed"):
        undisturbed = play(one, Plan(), seed=seed)
    click.echo(tell(one.name or target, played, undisturbed), nl=False)


def _run(played: Played) -> dict[str, Any]:
    """One run as plain data: every step of it, and what was wrong."""
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
        show_table(("DISTURBANCE", "PLAYED", "FAILED"), rows)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}") from error


@contextmanager
def _progress(name: str, output: str) -> Generator[Callable[[int, int, int], None] | None, None, None]:
    """A bar on a terminal, told of how many plans were played, of how many, and how many failed; nothing elsewhere."""
    if output == "json" or not sys.stderr.isatty():
        yield None
        return
    # Late: only a terminal needs it.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)

        def tell(played: int, whole: int, failed: int) -> None:
            shown: dict[str, Any] = {"completed": played, "total": whole}
            bar.update(task, description=f"{name}: {failed} failed" if failed else name, **shown)

        yield tell
