"""`levelset up`: runs a whole project on this machine: an API server, its controllers and its webhooks."""

import tomllib
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from levelset.cli.main import STARTED
from levelset.cli.output import (
    UsageError,
    durability_option,
    output_option,
    progress,
    reporting_errors,
    verbose_option,
    version_option,
)
from levelset.cli.run import DashboardCommand, actions_option, dashboard_option, open_dashboard
from levelset.cli.targets import load_targets
from levelset.runtime.manager import System
from levelset.runtime.manager import run as run_all
from levelset.runtime.manager.command_hints import install_command

__all__ = ["Project", "disabled_features", "read_project", "up"]

_TABLE: Final = "[tool.levelset]"
_OPTIONAL: Final = {
    "uvloop": ("uvloop", "a faster event loop"),
    "cryptography": ("cryptography", "HTTPS"),
    "opentelemetry": ("opentelemetry-api", "traces"),
}
"""Optional modules: the package that has each, and what it is for."""
_FIRST_STEPS: Final = (
    "kubectl get namespaces",
    "levelset tour",
    "levelset init shop --kind Order --api shop.example.dev/v1",
)
"""The hints of a control plane without controllers."""


@click.command(cls=DashboardCommand)
@click.argument("targets", metavar="[MODULE]...", nargs=-1)
@click.option(
    "--data", default="memory", metavar="memory|PATH", help="Where objects are stored: in memory, or in a file."
)
@durability_option
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The server's port; any free one if 0.")
@click.option(
    "--rbac", is_flag=True, help="Authorize other users than the owner by RBAC, service accounts of Pods among them."
)
@version_option
@click.option("--kubeconfig", metavar="PATH", help="Where to write the kubeconfig for kubectl.")
@click.option("--health", metavar="ADDRESS", help="Serve /healthz, /readyz and /metrics at PORT or HOST:PORT.")
@dashboard_option(default="0")
@actions_option
@click.option("--log-json", is_flag=True, help="Write logs as JSON lines.")
@verbose_option
@output_option
def up(
    *,
    targets: tuple[str, ...],
    data: str,
    port: int,
    rbac: bool,
    dashboard: int | None,
    dashboard_actions: bool,
    log_json: bool,
    verbose: bool,
    output: str,
    **options: str | None,
) -> None:
    """Runs an API server and all controllers of a project until SIGINT or SIGTERM.

    Without MODULE, the modules of the table [tool.levelset] in pyproject.toml are used:

    up = ["shop.operator"]

    Where that names none, it runs the API server and the dashboard alone.

    It serves the dashboard, which shows objects, controllers and events live, and prints its URL. With --output json it
    prints its URLs and the watched kinds as a line of JSON when it is ready.

    Example: levelset up --data shop.db
    """
    shown = "json" if log_json else output
    with reporting_errors():
        project = Project(targets) if targets else read_project(Path("pyproject.toml"))
        with progress("importing the controllers", output=shown):
            found = load_targets(project.targets)
        if project.targets and not found.parts:
            raise UsageError(f"{', '.join(targets) or 'pyproject.toml'}: there are no Controllers to run")
    words = ["--local", "--port", str(port), "--output", output, *(["--log-json"] if log_json else [])]
    words += [*(["--rbac"] if rbac else []), *(["--verbose"] if verbose else [])]
    for name, value in {**options, "data": None if data == "memory" else data}.items():
        words += [f"--{name.replace('_', '-')}", value] if value else []
    waiting = partial(progress, output=shown)
    pages = [] if dashboard is None else [open_dashboard(dashboard, actions=dashboard_actions)]
    whole = System(name="levelset", disabled=disabled_features())
    own: dict[str, Any] = {"webhooks": found.loose_webhooks, "waiting": waiting, "hints": project.hints}
    run_all(*found.parts, whole, *pages, arguments=words, began=STARTED, **own)


def disabled_features() -> dict[str, str]:
    """The optional packages that are not installed, each with the command that installs it."""
    return {
        f"{module} ({purpose})": install_command(package)
        for module, (package, purpose) in _OPTIONAL.items()
        if find_spec(module) is None
    }


class Project(msgspec.Struct, frozen=True):
    """What the table [tool.levelset] says: the modules to run, and the commands to type next, if it names some."""

    targets: Sequence[str] = ()
    hints: Sequence[str] | None = None


def read_project(path: Path) -> Project:
    """Reads pyproject.toml; without a table [tool.levelset] there is nothing to run. UsageError if it is wrong."""
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("levelset")
    except FileNotFoundError:
        return Project(hints=_FIRST_STEPS)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if table is None:
        return Project(hints=_FIRST_STEPS)
    named: Any = table.get("up")
    if not _is_list_of_texts(named) or not named:
        raise UsageError(
            f'{path} has a table {_TABLE} that does not name modules to run; write into it:\n\nup = ["module"]'
        )
    hints: Any = table.get("hints")
    if hints is not None and not _is_list_of_texts(hints):
        raise UsageError(f'{path}: hints in {_TABLE} must be a list of commands, such as ["kubectl get websites"]')
    return Project(named, hints)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)  # pyright: ignore[reportUnknownVariableType]
