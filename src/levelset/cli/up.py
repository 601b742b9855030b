"""`levelset up`: the whole of a project on this machine: an API server, its controllers and its webhooks."""

import tomllib
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from levelset.cli.output import Refused, output_option, speaking, working
from levelset.cli.run import open_dashboard, read_dashboard
from levelset.cli.targets import gather
from levelset.runtime.manager import run as run_all

__all__ = ["targets_here", "up"]

_TABLE: Final = "[tool.levelset]"


@click.command()
@click.argument("targets", metavar="[MODULE]...", nargs=-1)
@click.option("--data", default="memory", metavar="memory|PATH", help="Where objects are kept: memory, or a file.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The server's port; any free one if 0.")
@click.option("--kubeconfig", metavar="PATH", help="Where to write the kubeconfig for kubectl.")
@click.option("--health", metavar="ADDRESS", help="Serve /healthz, /readyz and /metrics at PORT or HOST:PORT.")
@click.option(
    "--dashboard",
    default="0",
    metavar="PORT|no",
    callback=read_dashboard,
    help="The port of the page that shows it all; any free one if 0, none if no.",
)
@click.option("--log-json", is_flag=True, help="Write logs as JSON, one object on each line.")
@output_option
def up(
    *,
    targets: tuple[str, ...],
    data: str,
    port: int,
    dashboard: int | None,
    log_json: bool,
    output: str,
    **options: str | None,
) -> None:
    """Runs an API server and all controllers of a project, until they are told to stop.

    Modules may be named; otherwise those that pyproject.toml names in its table [tool.levelset] are taken:

    up = ["shop.operator"]

    It serves a page that shows objects, controllers and events as they change, and prints its address. With --output
    json it says where it is and what it watches in a line of JSON, as soon as it is ready.

    Example: levelset up --data shop.db
    """
    shown = "json" if log_json else output
    with speaking():
        with working("loads the controllers", output=shown):
            found = gather(targets or targets_here(Path("pyproject.toml")))
        if not found.parts:
            raise Refused(f"{', '.join(targets) or 'pyproject.toml'}: there are no Controllers to run")
    words = ["--local", "--port", str(port), "--output", output, *(["--log-json"] if log_json else [])]
    for name, value in {**options, "data": None if data == "memory" else data}.items():
        words += [f"--{name}", value] if value else []
    waiting = partial(working, output=shown)
    pages = [] if dashboard is None else [open_dashboard(dashboard)]
    run_all(*found.parts, *pages, webhooks=found.loose_webhooks, arguments=words, waiting=waiting)


def targets_here(path: Path) -> list[str]:
    """The modules that a project runs; Refused, with what to write, if it does not say."""
    hint = f'name modules, or write into pyproject.toml:\n\n{_TABLE}\nup = ["module"]'
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("levelset", {})
    except FileNotFoundError:
        raise Refused(f"there is no {path} here; {hint}") from None
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read: {error}") from error
    named: list[Any] | None = table.get("up")
    if not isinstance(named, list) or not named:
        raise Refused(f"{path} does not say what to run; {hint}")
    return [str(one) for one in named]
