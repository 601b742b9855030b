"""`levelset replay FILE module:controllers`: plays a recorded run again, without a cluster."""

from dataclasses import asdict
from typing import Any

import click

from levelset.cli.output import UsageError, mark, output_option, progress, reporting_errors, show_json
from levelset.cli.targets import load_controllers
from levelset.testing.replay import Replay
from levelset.testing.replay import replay as play

__all__ = ["replay"]


@click.command()
@click.argument("file", metavar="FILE")
@click.argument("targets", metavar="MODULE:CONTROLLERS...", nargs=-1, required=True)
@click.option("--until", metavar="N|TIME", help="Ends after so many reconciles, or at this time (12.5s).")
@click.option("--object", "only", metavar="KIND/NAME", help="Plays only the reconciles of this object.")
@click.option("--break", "stop_at", metavar="KIND/NAME|N", help="Stops in the debugger before these reconciles.")
@output_option
def replay(*, file: str, targets: tuple[str, ...], until: str | None, output: str, **chosen: Any) -> None:
    """Plays a recorded run again, without a cluster, and shows what differs first.

    The controllers, as they are now, get the events, answers and times of the recording. Nothing is sent anywhere.

    Example: levelset replay run.levelset website.py --break website/blog

    Exit codes: 0 everything is as recorded, 1 something differs, 2 usage error.
    """
    with reporting_errors():
        with progress("importing the controllers", output=output):
            found = load_controllers(targets)
        with progress(f"playing {file}", output="json" if chosen["stop_at"] else output):
            result = play(file, found.controllers, until=_until(until), **chosen)
    if output == "json":
        show_json(_tree(result))
    else:
        _show(file, result)
    if not result.ok:
        raise SystemExit(1)


def _until(text: str | None) -> int | float | None:
    if text is None:
        return None
    try:
        return float(text[:-1]) if text.endswith("s") else int(text)
    except ValueError:
        raise UsageError(f"--until {text}: expected a number of reconciles (20), or a time (12.5s)") from None


def _show(file: str, result: Replay) -> None:
    if result.difference is not None:
        click.echo(f"{mark('fail')} {result.difference}")
    else:
        did = f"{_counted(result.reconciles, 'reconcile')} and {_counted(result.requests, 'request')}"
        if result.is_quit:
            click.echo(f"{mark('ok')} {file}: {did} until you quit the debugger, all as recorded")
        else:
            click.echo(f"{mark('ok')} {file}: {did} in {result.seconds:.1f} s, all as recorded")
    if result.is_partial:
        click.echo("the recording was switched on in a running process: what its code remembered then is not known")
    if not result.is_complete:
        click.echo("the recording is cut off: the process was killed, or still runs")
    for note in result.notes:
        click.echo(f"{mark('warn')} a replay cannot repeat this: {note}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _tree(result: Replay) -> dict[str, Any]:
    difference = result.difference
    return {
        **{name: value for name, value in asdict(result).items() if name not in {"difference", "notes"}},
        "ok": result.ok,
        "difference": None if difference is None else str(difference),
        "place": None if difference is None else difference.place,
        "notes": [str(one) for one in result.notes],
    }
