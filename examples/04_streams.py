"""The loop by hand: two watches, a store, an index and a stream of refs, driven without a Controller.

An application's settings are a ConfigMap that names a Secret; beside it we keep a ConfigMap that tells whether the
Secret is there. It runs on a server of its own, plays a short story, and ends.
"""

import asyncio
from collections.abc import Iterator

from levelset import (
    Client,
    Context,
    Index,
    Object,
    ObjectMeta,
    Ref,
    by,
    drive,
    merge,
    store,
    watch,
    without_managed_fields,
)
from levelset.apiserver import ApiServer


class Settings(Object, api="v1", kind="ConfigMap"):
    """What an application is told."""

    data: dict[str, str] = {}


class Secret(Object, api="v1"):
    """What an application is to keep to itself."""


def secrets(settings: Settings) -> Iterator[Ref[Secret]]:
    """The Secret that some settings name."""
    yield Ref(Secret, settings.data["secret"], settings.namespace)


uses = Index(Settings, secrets)


async def reconcile(settings: Settings, ctx: Context) -> None:
    """Keeps the ConfigMap that tells how it is."""
    missing = [ref.name for ref in secrets(settings) if await ctx.client.find(ref) is None]
    report = Settings(
        metadata=ObjectMeta(name=f"{settings.name}-report", namespace=settings.namespace),
        data={"state": f"waits for {' '.join(missing)}" if missing else "complete"},
    )
    await ctx.apply(report, owner=settings)


async def play(client: Client) -> None:
    """What people do meanwhile: they write settings that name a Secret, wait for the report, and make the Secret."""
    metadata = ObjectMeta(name="shop", namespace="default", labels={"app": "shop"})
    await client.create(Settings(metadata=metadata, data={"secret": "password"}))
    report = Ref(Settings, "shop-report", "default")
    print("the report says:", (await client.wait(report, lambda one: "waits" in one.data["state"])).data["state"])
    await client.create(Secret(metadata=ObjectMeta(name="password", namespace="default")))
    print("the report says:", (await client.wait(report, lambda one: one.data["state"] == "complete")).data["state"])


async def main() -> None:
    """Assembles the loop, and runs it until the story is over."""
    async with ApiServer() as server, await Client.connect(server) as client:
        kept, writer = store(Settings, uses)
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
            .flat_map(lambda secret: kept.by(uses, secret.ref))
            .map(lambda settings: settings.ref)
        )
        story = asyncio.create_task(play(client), name="story")
        outcomes = drive(merge(changed, affected).take_until(story), reconcile, reading=kept, writing=client)
        async for outcome in outcomes:
            print(outcome.ref, outcome.error or outcome.action)
        await story


asyncio.run(main())
