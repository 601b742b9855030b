"""The reconcile loop without a Controller: two watches, a store, an index and a stream of refs.

An application's settings are a ConfigMap that names a Secret; a second ConfigMap reports whether the
Secret exists. It runs on an embedded server, plays a short scenario, and ends.
"""

import asyncio
from collections.abc import Iterator

from levelset import Client, Context, Index, Object, ObjectMeta, Ref, by, watch
from levelset.aio import merge
from levelset.apiserver import ApiServer
from levelset.objects import without_managed_fields
from levelset.runtime.cache import store
from levelset.runtime.controller import drive


class Settings(Object, api="v1", kind="ConfigMap"):
    """The settings of an application."""

    data: dict[str, str] = {}


class Secret(Object, api="v1"):
    """The credentials of an application."""


def secrets(settings: Settings) -> Iterator[Ref[Secret]]:
    """The Secret that some settings name."""
    yield Ref(Secret, settings.data["secret"], settings.namespace)


uses = Index(Settings, secrets)


async def reconcile(settings: Settings, ctx: Context) -> None:
    """Writes the ConfigMap that reports whether the Secret exists."""
    missing = [ref.name for ref in secrets(settings) if await ctx.client.find(ref) is None]
    report = Settings(
        metadata=ObjectMeta(name=f"{settings.name}-report", namespace=settings.namespace),
        data={"state": f"waits for {' '.join(missing)}" if missing else "complete"},
    )
    await ctx.apply(report, owner=settings)


async def play(client: Client) -> None:
    """The scenario: create settings that name a Secret, wait for the report, and create the Secret."""
    metadata = ObjectMeta(name="shop", namespace="default", labels={"app": "shop"})
    await client.create(Settings(metadata=metadata, data={"secret": "password"}))
    report = Ref(Settings, "shop-report", "default")
    print("the report says:", (await client.wait(report, lambda one: "waits" in one.data["state"])).data["state"])
    await client.create(Secret(metadata=ObjectMeta(name="password", namespace="default")))
    print("the report says:", (await client.wait(report, lambda one: one.data["state"] == "complete")).data["state"])


async def main() -> None:
    """Assembles the loop, and runs it until the scenario is over."""
    async with ApiServer() as server, await Client.connect(server) as client:
        settings_store, writer = store(Settings, uses)
        changed = (
            watch(client, Settings, labels="app")
            .modify(without_managed_fields)
            .reflect(writer)
            .applied()
            .changed(by.generation)
            .refs()
        )
        affected = (
            watch(client, Secret)
            .touched()
            .flat_map(lambda secret: settings_store.by(uses, secret.ref))
            .map(lambda settings: settings.ref)
        )
        scenario = asyncio.create_task(play(client), name="scenario")
        requests = merge(changed, affected).take_until(scenario)
        outcomes = drive(requests, reconcile, reading=settings_store, writing=client)
        async for outcome in outcomes:
            print(outcome.ref, outcome.error or outcome.action)
        await scenario


asyncio.run(main())
