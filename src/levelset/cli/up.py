"""`levelset up`: runs a whole project on this machine: an API server, its controllers and its webhooks."""

import tomllib
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from levelset.cli.output import UsageError, output_option, progress, reporting_errors
from levelset.cli.run import open_dashboard, read_dashboard
from levelset.cli.targets import load_targets
from levelset.runtime.manager import run as run_all

__all__ = ["project_targets", "up"]

_TABLE: Final = "[tool.levelset]"


@click.command()
@click.argument("targets", metavar="[MODULE]...", nargs=-1)
@click.option(
    "--data", default="memory", metavar="memory|PATH", help="Where objects are stored: in memory, or in a file."
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The server's port; any free one if 0.")
@click.option("--kubeconfig", metavar="PATH", help="Where to write the kubeconfig for kubectl.")
@click.option("--health", metavar="ADDRESS", help="Serve /healthz, /readyz and /metrics at PORT or HOST:PORT.")
@click.option(
    "--dashboard",
    default="0",
    metavar="PORT|no",
    callback=read_dashboard,
    help="The port of the dashboard; any free one if 0, no dashboard if no.",
)
@click.option("--log-json", is_flag=True, help="Write logs as JSON lines.")
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
    """Runs an API server and all controllers of a project until SIGINT or SIGTERM.

    Without MODULE, the modules of the table [tool.levelset] in pyproject.toml are used:

    up = ["shop.operator"]

    It serves the dashboard, which shows objects, controllers and events live, and prints its URL. With --output json it
    prints its URLs and controllers as a line of JSON when it is ready.

    Example: levelset up --data shop.db
    """
    shown = "json" if log_json else output
    with reporting_errors():
        with progress("importing the controllers", output=shown):
            found = load_targets(targets or project_targets(Path("pyproject.toml")))
        if not found.parts:
            raise UsageError(f"{', '.join(targets) or 'pyproject.toml'}: there are no Controllers to run")
    words = ["--local", "--port", str(port), "--output", output, *(["--log-json"] if log_json else [])]
    for name, value in {**options, "data": None if data == "memory" else data}.items():
        words += [f"--{name}", value] if value else []
    waiting = partial(progress, output=shown)
    pages = [] if dashboard is None else [open_dashboard(dashboard)]
    run_all(*found.parts, *pages, webhooks=found.loose_webhooks, arguments=words, waiting=waiting)


def project_targets(path: Path) -> list[str]:
    """The modules that pyproject.toml names; UsageError, with what to write, if it names none."""
    hint = f'pass modules, or write into pyproject.toml:\n\n{_TABLE}\nup = ["module"]'
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("levelset", {})
    except FileNotFoundError:
        raise UsageError(f"there is no {path} in this directory; {hint}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    named: list[Any] | None = table.get("up")
    if not isinstance(named, list) or not named:
        raise UsageError(f"{path} does not name modules to run; {hint}")
    return [str(one) for one in named]
