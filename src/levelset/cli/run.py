"""`levelset run module:controllers`: runs controllers on a cluster, or on a server of their own.

The page that a command serves beside what it runs: which port was asked for, and the part that serves it.
"""

from functools import partial
from typing import Any

import click

from levelset.cli.output import output_option, speaking, working
from levelset.cli.targets import gather_controllers
from levelset.runtime.manager import LeaderElection, System
from levelset.runtime.manager import run as run_all

__all__ = ["open_dashboard", "read_dashboard", "run"]


def read_dashboard(_: click.Context, option: click.Parameter, value: str) -> int | None:
    """The port that `--dashboard` names, 0 for any free one; None if no page is wanted."""
    if value.lower() == "no":
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= 5 and int(value) <= 65535):
        raise click.BadParameter(f"{value}: give a port up to 65535, 0 for any free one, or no", param=option)
    return int(value)


def open_dashboard(port: int) -> System:
    """The part to run with the others."""
    from levelset.dashboard import dashboard  # noqa: PLC0415  # late: other commands do without

    return dashboard(port)


@click.command()
@click.argument("targets", metavar="MODULE:CONTROLLERS...", nargs=-1, required=True)
@click.option("--local", is_flag=True, help="Bring an API server along, in memory, that serves the kinds in use.")
@click.option(
    "--kubeconfig", metavar="PATH", help="Where the cluster is; with --local, where to write one for kubectl."
)
@click.option("--context", metavar="NAME", help="The context in it.")
@click.option("-n", "--namespace", metavar="NAME", help="Look at this namespace only.")
@click.option("--health", metavar="ADDRESS", help="Serve /healthz, /readyz and /metrics at PORT or HOST:PORT.")
@click.option("--leader", metavar="NAME", help="Run only while this replica holds the Lease of that name.")
@click.option("--dashboard", is_flag=True, help="Serve a page that shows it all, and print its address.")
@click.option("--log-json", is_flag=True, help="Write logs as JSON, one object on each line.")
@output_option
def run(*, targets: tuple[str, ...], leader: str | None, dashboard: bool, **options: Any) -> None:
    """Runs controllers until they are told to stop.

    MODULE:CONTROLLERS names a Controller or a System, a list of them, or a function that makes them; a module alone
    means all Controllers, Systems and webhooks that it holds.

    With --output json it says where it is and what it watches in a line of JSON, as soon as it is ready.

    Example: levelset run website.py --local
    """
    output = "json" if options["log_json"] else options["output"]
    with speaking():
        with working("loads the controllers", output=output):
            found = gather_controllers(targets)
        election = None if leader is None else LeaderElection(name=leader)
    own: dict[str, Any] = {"webhooks": found.loose_webhooks, "leader": election}
    own["waiting"] = partial(working, output=output)
    pages = [open_dashboard(0)] if dashboard else []
    run_all(*found.parts, *pages, arguments=_words(options), **own)


def _words(options: dict[str, Any]) -> list[str]:
    """The options as `levelset.run` reads them from a command line."""
    words: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value:
            words += [flag, str(value)]
    return words
