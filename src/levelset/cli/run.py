"""`levelset run module:controllers`: runs controllers against a cluster, or on a local API server."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from levelset.cli.main import STARTED
from levelset.cli.output import output_option, progress, reporting_errors, verbose_option
from levelset.cli.targets import load_controllers
from levelset.runtime.manager import System
from levelset.runtime.manager import run as run_all

__all__ = ["actions_option", "dashboard_option", "open_dashboard", "program_arguments", "run"]

F = TypeVar("F", bound=Callable[..., Any])


def dashboard_option(*, default: str) -> Callable[[F], F]:
    """Adds the option `--dashboard`, which may have a port; its value is that port, 0 for any free one, or None."""
    text = "Serve the dashboard, at any free port unless one is given; no dashboard if no."
    return click.option(
        "--dashboard",
        default=default,
        is_flag=False,
        flag_value="0",
        metavar="[PORT|no]",
        callback=_read_dashboard,
        help=text,
    )


def _read_dashboard(_: click.Context, option: click.Parameter, value: str) -> int | None:
    if value.lower() == "no":
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= 5 and int(value) <= 65535):
        text = f"{value}: expected a port up to 65535, 0 for any free one, or no; without any, write it last"
        raise click.BadParameter(text, param=option)
    return int(value)


def open_dashboard(port: int, *, actions: bool) -> System:
    """The dashboard as a System to run with the controllers."""
    from levelset.dashboard import dashboard  # noqa: PLC0415  # imported late: only these commands need it

    return dashboard(port, actions=actions)


def actions_option(function: F) -> F:
    """Adds the option `--dashboard-actions`."""
    text = "Let the dashboard change objects and pause controllers."
    return click.option("--dashboard-actions", is_flag=True, help=text)(function)


@click.command()
@click.argument("targets", metavar="MODULE:CONTROLLERS...", nargs=-1, required=True)
@click.option("--local", is_flag=True, help="Run an in-memory API server that serves the kinds in use.")
@click.option("--kubeconfig", metavar="PATH", help="The kubeconfig file; with --local, where to write one for kubectl.")
@click.option("--context", metavar="NAME", help="The kubeconfig context.")
@click.option("-n", "--namespace", metavar="NAME", multiple=True, help="Watch only this namespace; may be repeated.")
@click.option("--health", metavar="ADDRESS", help="Serve /healthz, /readyz and /metrics at PORT or HOST:PORT.")
@click.option("--leader", metavar="NAME", help="Use leader election with the Lease of this name.")
@click.option("--shards", metavar="NAME", help="Share the objects with all replicas of this name.")
@click.option("--dashboard", is_flag=True, help="Serve the dashboard, and print its URL.")
@actions_option
@click.option("--record", metavar="FILE", help="Record the run in this file, for `levelset replay`.")
@click.option("--record-size", metavar="SIZE", help="End recordings at this size, such as 64Mi.  [default: 256Mi]")
@click.option("--record-time", metavar="TIME", help="End recordings after this time, such as 10m.")
@click.option("--log-json", is_flag=True, help="Write logs as JSON lines.")
@verbose_option
@output_option
def run(*, targets: tuple[str, ...], dashboard: bool, dashboard_actions: bool, **options: Any) -> None:
    """Runs controllers until SIGINT or SIGTERM.

    MODULE:CONTROLLERS names a Controller or a System, a list of them, or a function that returns them; a module alone
    means all Controllers, Systems and webhooks in it.

    SIGUSR1 begins a recording, SIGUSR2 ends it; `levelset record on` and `off` do the same.

    With --output json it prints its URLs and the watched kinds as a line of JSON when it is ready.

    Example: levelset run website.py --local
    """
    output = "json" if options["log_json"] else options["output"]
    with reporting_errors(), progress("importing the controllers", output=output):
        found = load_controllers(targets)
    own: dict[str, Any] = {"webhooks": found.loose_webhooks, "waiting": partial(progress, output=output)}
    pages = [open_dashboard(0, actions=dashboard_actions)] if dashboard or dashboard_actions else []
    run_all(*found.parts, *pages, arguments=program_arguments(options), began=STARTED, **own)


def program_arguments(options: dict[str, Any]) -> list[str]:
    """The options as command-line arguments of `levelset.run`."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value:
            several: tuple[Any, ...] = (value,) if isinstance(value, str) else value
            words += [word for one in several for word in (flag, str(one))]
    return words
