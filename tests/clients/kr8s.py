"""kr8s: its asyncio objects, and a watch that resumes after a server restart."""

import asyncio
import time
from contextlib import aclosing
from typing import Any

import kr8s
from kr8s.asyncio.objects import APIObject, ConfigMap, Deployment, Event, new_class

from tests.clients.verbs import GROUP, Plain, configmap, deployment, owned, restart, skip, verb, widget

NAMESPACE = "with-kr8s"
Widget = new_class("Widget", f"{GROUP}/v1", namespaced=True, scalable=True, scalable_spec="replicas")


def in_namespace(tree: dict[str, Any]) -> dict[str, Any]:
    return tree | {"metadata": tree["metadata"] | {"namespace": NAMESPACE}}


async def make(kind: type[APIObject], tree: dict[str, Any], api: Any) -> Any:
    made = await kind(in_namespace(tree), api=api)
    await made.create()
    return made


async def read(api: Any) -> None:
    with verb("create"):
        await make(ConfigMap, configmap("one", k="1"), api)
        await make(Widget, widget("w", color="red"), api)
        await make(Deployment, deployment("web"), api)
    with verb("get"):
        found = await ConfigMap.get("one", namespace=NAMESPACE, api=api)
        assert found.data == {"k": "1"}, found.raw
        assert (await Widget.get("w", namespace=NAMESPACE, api=api)).spec.color == "red"
    with verb("list"):
        names = [item.name async for item in api.get("configmaps", namespace=NAMESPACE)]
        assert names == ["one"], names
        found = [item async for item in api.get("deployments", namespace=NAMESPACE, label_selector={"app": "web"})]
        assert len(found) == 1
        assert {"Widget", "Deployment"} <= {item["kind"] for item in await api.api_resources()}
    with verb("watch"):
        async with asyncio.timeout(10), aclosing(api.watch("configmaps", namespace=NAMESPACE)) as events:
            first = await anext(events)
            await make(ConfigMap, configmap("watched"), api)
            second = await anext(events)
        assert [(kind, item.name) for kind, item in (first, second)] == [("ADDED", "one"), ("ADDED", "watched")]


async def change(api: Any) -> None:
    skip("apply", "kr8s has no apply")
    skip("apply-ssa", "kr8s has no apply")
    one = await ConfigMap.get("one", namespace=NAMESPACE, api=api)
    with verb("patch"):
        await one.patch({"data": {"m": "1"}})
        await one.patch([{"op": "add", "path": "/data/j", "value": "1"}], type="json")
        assert one.data.keys() == {"k", "m", "j"}, one.raw
        await one.label(color="red")
        await one.annotate(note="yes")
        assert one.labels["color"] == "red"
    with verb("scale"):
        for kind, name in ((Deployment, "web"), (Widget, "w")):
            scaled: Any = await kind.get(name, namespace=NAMESPACE, api=api)
            async with asyncio.timeout(10):
                await scaled.scale(3)
            assert scaled.spec.replicas == 3
    skip("explain", "kr8s has no explain")
    with verb("wait"):
        waiting: Any = await Widget.get("w", namespace=NAMESPACE, api=api)
        late = asyncio.create_task(waiting.wait("condition=Ready", timeout=10))
        other: Any = await Widget.get("w", namespace=NAMESPACE, api=api)
        await other.patch({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status")
        await late
    with verb("events"):
        involved = {
            "kind": "ConfigMap",
            "name": "one",
            "namespace": NAMESPACE,
            "apiVersion": "v1",
            "uid": one.metadata.uid,
        }
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Seen", "type": "Normal"}
        await make(Event, event | {"involvedObject": involved, "message": "seen"}, api)
        selected = api.get("events", namespace=NAMESPACE, field_selector={"involvedObject.name": "one"})
        assert [item.reason for item in [found.raw async for found in selected]] == ["Seen"]


async def remove(api: Any) -> None:
    for policy in ("Background", "Foreground", "Orphan"):
        with verb(f"delete-{policy.lower()}"):
            owner = await make(ConfigMap, configmap(f"{policy.lower()}-owner"), api)
            child = await make(ConfigMap, owned(configmap(f"{policy.lower()}-child"), owner.raw), api)
            await owner.delete(propagation_policy=policy)
            await owner.wait("delete", timeout=10)
            if policy != "Orphan":
                await child.wait("delete", timeout=10)
                continue
            await child.refresh()
            assert "ownerReferences" not in child.metadata, child.raw


async def follow(api: Any, seen: list[str], done: asyncio.Event) -> None:
    """Watches ConfigMaps and resumes after each disconnect, as users of kr8s do."""
    since = None
    while not done.is_set():
        try:
            async with aclosing(api.watch("configmaps", namespace=f"{NAMESPACE}-again", since=since)) as events:
                async for kind, item in events:
                    since = item.metadata.resourceVersion
                    seen.append(f"{kind} {item.name}")
        except Exception:  # noqa: BLE001 - refused or cut while the server is away, in the words of several libraries
            await asyncio.sleep(0.1)


async def survive(api: Any, plain: Plain) -> None:
    with verb("restart"):
        path = plain.make_namespace(f"{NAMESPACE}-again") + "/configmaps"
        seen: list[str] = []
        done = asyncio.Event()
        watching = asyncio.create_task(follow(api, seen, done))
        plain.must("POST", path, configmap("before"))
        await reached(seen, "ADDED before")
        await asyncio.to_thread(restart)
        plain.must("POST", path, configmap("after"))
        await reached(seen, "ADDED after")
        done.set()
        watching.cancel()
        assert seen == ["ADDED before", "ADDED after"], seen


async def reached(seen: list[str], wanted: str) -> None:
    deadline = time.monotonic() + 15
    while wanted not in seen:
        assert time.monotonic() < deadline, f"{wanted} was not seen: {seen}"
        await asyncio.sleep(0.02)


async def main() -> None:
    plain = Plain()
    plain.define()
    plain.make_namespace(NAMESPACE)
    api = await kr8s.asyncio.api()
    await read(api)
    await change(api)
    await remove(api)
    await survive(api, plain)


if __name__ == "__main__":
    asyncio.run(main())
