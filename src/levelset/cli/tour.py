"""`levelset tour`: runs a controller, a test in virtual time, an exploration and the API server, and prints a log."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from levelset.aio import event_loop
from levelset.cli.output import heading, output_option, show_json
from levelset.client import Client, MergePatch
from levelset.errors import ApiError
from levelset.kinds import ConfigMap
from levelset.objects import Meta, ObjectMeta, Ref, Resource, Spec, Status
from levelset.runtime.controller import Action, Context, Controller, owns, requeue
from levelset.runtime.manager import open_local
from levelset.runtime.manager.command_hints import script_path
from levelset.runtime.watch import watch
from levelset.testing import Cluster, open_cluster
from levelset.testing import run as run_in_virtual_time
from levelset.testing.explore import Exploration, State, explore

__all__ = ["STOPS", "Greeting", "GreetingSpec", "GreetingStatus", "Say", "Stop", "tour"]

Say = Callable[[str], None]
"""Prints one line of a stop."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of the tour: a title, and a function that prints its lines while it runs."""

    title: str
    show: Callable[[Say], None]

    def lines(self) -> list[str]:
        """Runs the stop, and returns its lines."""
        found: list[str] = []
        self.show(found.append)
        return found


class GreetingSpec(Spec):
    """The desired state of a greeting."""

    text: Annotated[str, Meta(min_length=1)]


class GreetingStatus(Status):
    """The observed state of a greeting."""

    config_map: str = ""


class Greeting(Resource[GreetingSpec, GreetingStatus], api="tour.example.dev/v1"):
    """A greeting, which is kept in a ConfigMap."""


async def _reconcile(greeting: Greeting, ctx: Context) -> Action:
    """Applies the ConfigMap that the greeting should have: the same for the first time and for a repair."""
    wanted = ConfigMap.new(greeting.name, namespace=greeting.namespace, data={"text": greeting.spec.text})
    made = await ctx.apply(wanted, owner=greeting)
    await ctx.set_status(greeting, GreetingStatus(config_map=made.name))
    return requeue(minutes=5)


_greetings = Controller(Greeting, _reconcile, owns(ConfigMap))


def _hello() -> Greeting:
    return Greeting.new("hello", GreetingSpec(text="Hello!"), namespace="default")


def _controller(say: Say) -> None:
    event_loop.run(_repair(say))


async def _repair(say: Say) -> None:
    async with open_local(_greetings) as local:
        client = local.client
        say('create   Greeting/hello with text "Hello!"')
        made = await client.create(_hello())
        say(f"applied  {await _seen(client, made.spec.text)}")
        say("outside  another client writes another text into the ConfigMap")
        began = time.perf_counter()
        await client.patch(Ref(ConfigMap, "hello", "default"), MergePatch({"data": {"text": "Goodbye!"}}))
        repaired = await _seen(client, made.spec.text)
        say(f"repaired {repaired}, {(time.perf_counter() - began) * 1000:.0f} ms later")
        await client.delete(Ref(ConfigMap, "hello", "default"))
        say("outside  another client deletes the ConfigMap")
        say(f"repaired {await _seen(client, made.spec.text)}")


async def _seen(client: Client, text: str) -> str:
    """Waits until the ConfigMap has this text, and returns it as a line."""
    async with asyncio.timeout(10), aclosing(watch(client, ConfigMap, namespace="default").applied()) as found:
        async for one in found:
            if one.name == "hello" and one.data.get("text") == text:
                return f'ConfigMap/hello with text "{text}"'
    raise AssertionError("a watch does not end")


def _virtual_time(say: Say) -> None:
    began = time.perf_counter()
    count = run_in_virtual_time(_day())
    say("test     create a Greeting, delete its ConfigMap, wait until it is back, let 24 hours pass")
    say(f"passed   {count} reconciles in a day of virtual time, {time.perf_counter() - began:.2f} s of real time")


async def _day() -> int:
    async with open_cluster() as cluster, cluster.running(_greetings):
        await cluster.create(_hello())
        child = await cluster.until(Ref(ConfigMap, "hello", "default"))
        await cluster.delete(child.ref)
        await cluster.until(child.ref)
        await cluster.advance(24 * 3600)
        return len(cluster.reconciles())


async def _forgetful(greeting: Greeting, ctx: Context) -> None:
    """Has a bug: a crash between the two writes forgets the first, and creates a second ConfigMap."""
    if greeting.status is None or not greeting.status.config_map:
        generated = ObjectMeta(generate_name=f"{greeting.name}-", namespace=greeting.namespace)
        made = await ctx.create(ConfigMap(metadata=generated), owner=greeting)
        await ctx.set_status(greeting, GreetingStatus(config_map=made.name))


async def _scenario(cluster: Cluster) -> None:
    await cluster.create(_hello())
    await cluster.settled()


def _at_most_one_config_map(state: State) -> None:
    assert len(state.list(ConfigMap)) <= 1, "a second ConfigMap"


def _exploration(say: Say) -> None:
    for name, function in (("forgetful", _forgetful), ("repairing", _reconcile)):
        controller = Controller(Greeting, function, owns(ConfigMap), name=name)
        report = explore(
            Exploration(_scenario, [controller], invariants=[_at_most_one_config_map], name=name),
            budget=20,
        )
        if report.ok:
            say(f"{name}: {len(report.tried)} runs, a fault in each, no failure")
            continue
        shown = report.failures[0].shown
        say(f"{name}: breaks with this fault: {shown.plan}")
        say(f"           {shown.findings[0].sentence}")


def _server(say: Say) -> None:
    with tempfile.TemporaryDirectory() as folder:
        event_loop.run(_answers(say, Path(folder) / "kubeconfig"))


async def _answers(say: Say, kubeconfig: Path) -> None:
    async with open_local(_greetings, listen=True, kubeconfig=str(kubeconfig)) as local:
        say(f"serves   {local.server.url} in process {os.getpid()}, for kubectl and every other client")
        async with await Client.connect(str(kubeconfig)) as client:
            made = await client.create(_hello())
            say(f"201      created {made.ref} at resource version {made.metadata.resource_version}")
            for wrong in (_hello(), _hello().with_metadata(name="silent").with_spec(text="")):
                try:
                    await client.create(wrong)
                except ApiError as error:
                    say(f"{error.code}      {error.message}")


STOPS: Sequence[Stop] = (
    Stop("A controller repairs what another client has changed", _controller),
    Stop("A test of it: the real server and controller, in virtual time", _virtual_time),
    Stop("The explorer crashes a controller at every step, and finds a planted bug", _exploration),
    Stop("The server validates and answers as kube-apiserver does", _server),
)


@click.command()
@output_option
def tour(output: str) -> None:
    """Shows the main features in seconds, by running them.

    Example: levelset tour
    """
    if output == "json":
        show_json([{"title": stop.title, "lines": stop.lines()} for stop in STOPS])
        return
    for number, stop in enumerate(STOPS, 1):
        click.echo(heading(f"{number}. {stop.title}"))
        stop.show(lambda line: click.echo(f"   {line}"))
        click.echo()
    command = f"{script_path('levelset')} init shop --kind Order --api shop.example.dev/v1"
    here, source = Path.cwd(), Path(__file__)
    shown = source.relative_to(here) if source.is_relative_to(here) else source
    click.echo(f"This was {shown}. Next, a project of your own, with tests: {command}")
