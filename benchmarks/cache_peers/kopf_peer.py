"""kopf: an operator with one handler that does nothing, which is all of its pipeline; a dict is the cache."""

import asyncio
import contextlib
import logging

import kopf
from meter import COUNT, EVENTS, KIND, Meter, kubeconfig


async def main() -> None:
    logging.disable(logging.CRITICAL)
    registry, done = kopf.OperatorRegistry(), asyncio.Event()
    meter = Meter()
    cached = meter.cached = {}
    seen = 0

    @kopf.on.login(registry=registry)
    def login(**_):
        user, cluster = kubeconfig()["users"][0]["user"], kubeconfig()["clusters"][0]["cluster"]
        return kopf.ConnectionInfo(server=cluster["server"], token=user["token"])

    @kopf.on.startup(registry=registry)
    def start(settings, **_):
        settings.posting.enabled = False
        settings.watching.chunk_size = 500

    names = ("", "v1", "pods") if KIND == "Pod" else ("example.dev", "v1", "websites")

    @kopf.on.event(*names, registry=registry)
    async def event(body, namespace, name, **_):
        nonlocal seen
        cached[namespace, name] = dict(body)
        seen += 1
        if seen == COUNT:
            meter.say("listed", COUNT)
            meter.watching()
        if seen == COUNT + EVENTS:
            done.set()

    operator = asyncio.create_task(kopf.operator(registry=registry, clusterwide=True, standalone=True), name="operator")
    await done.wait()
    meter.say("watched", EVENTS)
    operator.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await operator


asyncio.run(main())
