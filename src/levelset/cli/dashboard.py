"""`levelset dashboard`: the dashboard of any cluster, without controllers of its own."""

import asyncio
import signal
from typing import Final

import click

from levelset.cli.output import output_option, reporting_errors, show_line
from levelset.cli.run import actions_option
from levelset.client import Client, load_config
from levelset.objects.ref import GroupVersionKind

__all__ = ["dashboard"]

_POD: Final = GroupVersionKind("", "v1", "Pod")


@click.command()
@click.option("--kubeconfig", metavar="PATH", help="The kubeconfig file of the cluster.")
@click.option("--context", metavar="NAME", help="The kubeconfig context.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port; any free one if 0.")
@actions_option
@output_option
def dashboard(kubeconfig: str | None, context: str | None, port: int, *, dashboard_actions: bool, output: str) -> None:
    """Serves the dashboard of any cluster.

    It runs on this machine until SIGINT or SIGTERM, and prints its URL; with --output json as a line of JSON.

    It shows objects, their problems, events and logs with the rights of the kubeconfig. Reconciles and metrics are
    those of a process: `levelset run --dashboard` shows them for its controllers.

    Example: levelset dashboard --kubeconfig staging.kubeconfig
    """
    with reporting_errors():
        asyncio.run(_serve(kubeconfig, context, port, actions=dashboard_actions, output=output))


async def _serve(kubeconfig: str | None, context: str | None, port: int, *, actions: bool, output: str) -> None:
    from levelset.dashboard import DashboardSource, open_dashboard  # noqa: PLC0415  # imported late: the help needs none

    config = await asyncio.to_thread(load_config, kubeconfig, context)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with await Client.connect(config) as client, open_dashboard(port, actions=actions) as (page, url):
        await client.resource(_POD)  # raises what is wrong with the server or the credentials
        page.show(DashboardSource.of_client(client))
        if output == "json":
            show_line({"cluster": config.server, "dashboard": url})
        else:
            click.echo(f"cluster     {config.server}\ndashboard   {url}")
        await stopped.wait()
