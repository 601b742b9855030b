"""`levelset dashboard`: the dashboard of any cluster, without controllers of its own, and of files of past runs."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import click

from levelset.cli.output import output_option, reporting_errors, show_line
from levelset.cli.run import actions_option
from levelset.client import Client, load_config
from levelset.objects.ref import GroupVersionKind

__all__ = ["dashboard"]

_POD: Final = GroupVersionKind("", "v1", "Pod")


@click.command()
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--kubeconfig", metavar="PATH", help="The kubeconfig file of the cluster.")
@click.option("--context", metavar="NAME", help="The kubeconfig context.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port; any free one if 0.")
@actions_option
@output_option
def dashboard(*, files: tuple[str, ...], dashboard_actions: bool, **options: Any) -> None:
    """Serves the dashboard of any cluster, or shows recordings and reports.

    It runs on this machine until SIGINT or SIGTERM, and prints its URL; with --output json as a line of JSON.

    It shows objects, their problems, events and logs with the rights of the kubeconfig, and the managers of the
    cluster: those on this machine with their controllers, watches, failures and reconciles; those in Pods with their
    metrics, if the kubeconfig may get pods/proxy; and their Leases.

    FILE is a recording, which it shows step by step, forwards and backwards, or the HTML report of an exploration. With
    files it needs no cluster, and shows one only if --kubeconfig or --context names it.

    Example: levelset dashboard --kubeconfig staging.kubeconfig

    Example: levelset dashboard run.levelset report.html
    """
    with reporting_errors():
        asyncio.run(_serve(files, actions=dashboard_actions, **options))


async def _serve(
    files: Sequence[str], *, kubeconfig: str | None, context: str | None, port: int, actions: bool, output: str
) -> None:
    from levelset.dashboard import DashboardSource, RecordedRuns, open_dashboard  # noqa: PLC0415  # imported late: the help needs none

    runs = await asyncio.to_thread(RecordedRuns, files)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with AsyncExitStack() as stack:
        facts: dict[str, str] = {}
        page, url = await stack.enter_async_context(open_dashboard(port, actions=actions, runs=runs))
        if kubeconfig or context or not files:
            config = await asyncio.to_thread(load_config, kubeconfig, context)
            client = await stack.enter_async_context(await Client.connect(config))
            stack.push_async_callback(page.close)  # before the client
            await client.resource(_POD)  # raises what is wrong with the server or the credentials
            page.show(DashboardSource.of_client(client, server=config.server))
            facts["cluster"] = config.server
        facts["dashboard"] = f"{url}#/runs" if files else url
        if output == "json":
            show_line(facts)
        else:
            click.echo("\n".join(f"{name:<11} {value}" for name, value in facts.items()))
        await stopped.wait()
