"""`levelset run module:controllers`: runs controllers against a cluster, or on a local API server."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import click

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
from levelset.cli.targets import load_controllers
from levelset.runtime.manager import System
from levelset.runtime.manager import run as run_all

__all__ = [
    "DashboardCommand",
    "actions_option",
    "dashboard_option",
    "open_dashboard",
    "program_arguments",
    "run",
]

F = TypeVar("F", bound=Callable[..., Any])
_OF_SERVER: Final = ("data", "port", "kubernetes_version")


class DashboardCommand(click.Command):
    """A command with `dashboard_option`: the word after it is its port only if it can be one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the words of the command line."""
        end = args.index("--") if "--" in args else len(args)
        words = [
            "--dashboard=0" if word == "--dashboard" and not _is_value(args[at + 1 : at + 2]) else word
            for at, word in enumerate(args[:end])
        ]
        return super().parse_args(ctx, words + args[end:])


def _is_value(words: list[str]) -> bool:
    return any(one.isdecimal() or one.lower() == "no" for one in words)


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
        text = f"{value}: expected a port up to 65535, 0 for any free one, or no"
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


@click.command(cls=DashboardCommand)
@click.argument("targets", metavar="MODULE:CONTROLLERS...", nargs=-1, required=True)
@click.option("--local", is_flag=True, help="Run an API server in this process that serves the kinds in use.")
@click.option("--data", metavar="PATH", help="With --local, the file that stores the objects.  [default: in memory]")
@durability_option
@click.option("--port", type=click.IntRange(0, 65535), help="With --local, the server's port; any free one if 0.")
@version_option
@click.option("--kubeconfig", metavar="PATH", help="The kubeconfig file; with --local, where to write one for kubectl.")
@click.option("--context", metavar="NAME", help="The kubeconfig context.")
@click.option("-n", "--namespace", metavar="NAME", multiple=True, help="Watch only this namespace; may be repeated.")
@click.option("--health", metavar="ADDRESS", help="Serve /healthz, /readyz and /metrics at PORT or HOST:PORT.")
@click.option("--leader", metavar="NAME", help="Use leader election with the Lease of this name.")
@click.option("--shards", metavar="NAME", help="Share the objects with all replicas of this name.")
@dashboard_option(default="no")
@actions_option
@click.option("--record", metavar="FILE", help="Record the run in this file, for `levelset replay`.")
@click.option("--record-size", metavar="SIZE", help="End recordings at this size, such as 64Mi.  [default: 256Mi]")
@click.option("--record-time", metavar="TIME", help="End recordings after this time, such as 10m.")
@click.option("--log-json", is_flag=True, help="Write logs as JSON lines.")
@verbose_option
@output_option
def run(*, targets: tuple[str, ...], dashboard: int | None, dashboard_actions: bool, **options: Any) -> None:
    """Runs controllers until SIGINT or SIGTERM.

    MODULE:CONTROLLERS names a Controller or a System, a list of them, or a function that returns them; a module alone
    means all Controllers, Systems and webhooks in it.

    SIGUSR1 begins a recording, SIGUSR2 ends it; `levelset record on` and `off` do the same.

    With --output json it prints its URLs and the watched kinds as a line of JSON when it is ready.

    Example: levelset run website.py --local
    """
    if not options["local"]:
        given = [f"--{name.replace('_', '-')}" for name in _OF_SERVER if options[name] is not None]
        if given:
            raise UsageError(f"{' and '.join(given)}: of the API server that --local runs; pass that, too.")
        options.pop("durability")
    output = "json" if options["log_json"] else options["output"]
    with reporting_errors(), progress("importing the controllers", output=output):
        found = load_controllers(targets)
    own: dict[str, Any] = {"webhooks": found.loose_webhooks, "waiting": partial(progress, output=output)}
    port = 0 if dashboard is None and dashboard_actions else dashboard
    pages = [] if port is None else [open_dashboard(port, actions=dashboard_actions)]
    run_all(*found.parts, *pages, arguments=program_arguments(options), began=STARTED, **own)


def program_arguments(options: dict[str, Any]) -> list[str]:
    """The options as command-line arguments of `levelset.run`."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value:
            several: tuple[Any, ...] = (value,) if isinstance(value, str | int) else value
            words += [word for one in several for word in (flag, str(one))]
    return words
