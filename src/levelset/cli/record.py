"""`levelset record`: switches the recording of running managers on and off, and compares recordings."""

import difflib
from pathlib import Path
from urllib.parse import urlencode

import click

from levelset.cli.commands import CommandGroup
from levelset.cli.output import output_option, progress, reporting_errors, show_json
from levelset.cli.status import call_managers
from levelset.runtime.recording import read_recording, runs_part_at

__all__ = ["diff", "off", "on", "record"]


@click.group(cls=CommandGroup)
def record() -> None:
    """Records running managers, and compares recordings.

    Example: levelset record on incident.levelset --time 10m
    """


@record.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--size", metavar="SIZE", help="Ends it at this size, such as 64Mi.  [default: 256Mi]")
@click.option("--time", "limit", metavar="TIME", help="Ends it after this time, such as 10m.  [default: 1h]")
@click.option("--redact", multiple=True, metavar="FIELD", help="A secret field, such as Website.spec.token.")
@click.option("--pid", type=int, help="The process id of the manager, if several are running.")
@output_option
def on(
    *, file: Path | None, size: str | None, limit: str | None, redact: tuple[str, ...], pid: int | None, output: str
) -> None:
    """Records a running manager in FILE from now on, beginning with what its caches hold.

    Without FILE the manager chooses one. Limits and redaction that the program has set itself are the defaults.

    Example: levelset record on incident.levelset --time 10m
    """
    given = {"file": file and str(file.absolute()), "size": size, "time": limit, "redact": ",".join(redact)}
    words = urlencode({name: value for name, value in given.items() if value})
    found = call_managers(pid, "POST", f"/record?{words}", output)
    if output == "json":
        show_json(found)
        return
    for one in found:
        click.echo(f"recording in {one['file']}; end it: levelset record off")


@record.command()
@click.option("--pid", type=int, help="The process id of the manager, if several are running.")
@output_option
def off(pid: int | None, output: str) -> None:
    """Ends the recording of a running manager.

    Example: levelset record off
    """
    found = call_managers(pid, "DELETE", "/record", output)
    if output == "json":
        show_json(found)
        return
    for one in found:
        click.echo(f"{one['file']}: {one['bytes']:,} bytes; play it: levelset replay {one['file']} module:controllers")


@record.command()
@click.argument("one")
@click.argument("other")
@output_option
def diff(one: str, other: str, output: str) -> None:
    """Shows where two recorded runs part: the first reconcile of an object that did something else.

    Exit codes: 0 they do the same, 1 they part.

    Example: levelset record diff monday.levelset tuesday.levelset
    """
    with reporting_errors(), progress("reading the recordings", output=output):
        parted = runs_part_at(read_recording(one), read_recording(other))
    if output == "json":
        keys = ("where", "one", "other")
        show_json(None if parted is None else dict(zip(keys, parted, strict=True)))
    elif parted is None:
        click.echo("both runs do the same")
    else:
        click.echo(f"the runs part in {parted[0]}:")
        for line in difflib.unified_diff(parted[1], parted[2], one, other, lineterm="", n=100):
            click.echo(f"  {line}")
    if parted is not None:
        raise SystemExit(1)
