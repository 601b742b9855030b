"""kubernetes_asyncio: the generated API of the official client, for asyncio."""

import asyncio
from typing import Any

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.dynamic import DynamicClient

from tests.clients.verbs import CERTIFICATES, GROUP, OURS, Plain, configmap, deployment, owned, skip, verb, widget

NAMESPACE = "with-kubernetes-asyncio"


async def read(core: Any, apps: Any, widgets: Any) -> None:
    with verb("create"):
        await core.create_namespaced_config_map(NAMESPACE, configmap("one", k="1"))
        await apps.create_namespaced_deployment(NAMESPACE, deployment("web"))
        await widgets.create(widget("w", color="red"), namespace=NAMESPACE)
    with verb("get"):
        assert (await core.read_namespaced_config_map("one", NAMESPACE)).data == {"k": "1"}
        assert (await widgets.get(name="w", namespace=NAMESPACE)).spec.color == "red"
        try:
            await core.read_namespaced_config_map("none", NAMESPACE)
        except ApiException as error:
            assert error.status == 404, error
    with verb("list"):
        found = await core.list_namespaced_config_map(NAMESPACE, field_selector=OURS)
        assert [item.metadata.name for item in found.items] == ["one"]
        assert len((await apps.list_deployment_for_all_namespaces(label_selector="app=web")).items) == 1
        assert len((await widgets.get(namespace=NAMESPACE)).items) == 1
    with verb("watch"):
        seen: list[str] = []
        async with asyncio.timeout(10), watch.Watch() as watcher:
            query = {"timeout_seconds": 10, "field_selector": OURS}
            async for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, **query):
                seen.append(f"{event['type']} {event['object'].metadata.name}")
                if len(seen) == 2:
                    break
                await core.create_namespaced_config_map(NAMESPACE, configmap("watched"))
        assert seen == ["ADDED one", "ADDED watched"], seen


async def change(core: Any, apps: Any, widgets: Any) -> None:
    skip("apply", "the client has no client-side apply")
    with verb("apply-ssa"):
        await widgets.server_side_apply(widget("s", color="red"), namespace=NAMESPACE, field_manager="mine")
        forced = {"namespace": NAMESPACE, "field_manager": "other", "force_conflicts": True}
        assert (await widgets.server_side_apply(widget("s", color="blue"), **forced)).spec.color == "blue"
    with verb("patch"):
        await core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"s": "1"}})
        operations = [{"op": "add", "path": "/data/j", "value": "1"}]
        json_patch = {"_content_type": "application/json-patch+json"}
        one = await core.patch_namespaced_config_map("one", NAMESPACE, operations, **json_patch)
        assert one.data.keys() == {"k", "s", "j"}, one.data
        one.data["k"] = "2"
        assert (await core.replace_namespaced_config_map("one", NAMESPACE, one)).data["k"] == "2"
    with verb("scale"):
        await apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
        assert (await apps.read_namespaced_deployment("web", NAMESPACE)).spec.replicas == 3
    skip("explain", "the client has no explain")
    skip("wait", "the client has no wait")
    with verb("events"):
        involved = client.V1ObjectReference(kind="ConfigMap", name="one", namespace=NAMESPACE, api_version="v1")
        meta = client.V1ObjectMeta(generate_name="e-")
        event = client.CoreV1Event(
            metadata=meta, involved_object=involved, reason="Seen", message="seen", type="Normal"
        )
        await core.create_namespaced_event(NAMESPACE, event)
        found = await core.list_namespaced_event(NAMESPACE, field_selector="involvedObject.name=one")
        assert [item.reason for item in found.items] == ["Seen"]


async def remove(core: Any, plain: Plain) -> None:
    maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    for policy in ("Background", "Foreground", "Orphan"):
        with verb(f"delete-{policy.lower()}"):
            name = policy.lower()
            owner = plain.must("POST", maps, configmap(f"{name}-owner"))
            plain.must("POST", maps, owned(configmap(f"{name}-child"), owner))
            await core.delete_namespaced_config_map(f"{name}-owner", NAMESPACE, propagation_policy=policy)
            plain.wait_gone(f"{maps}/{name}-owner")
            if policy == "Orphan":
                child = await core.read_namespaced_config_map("orphan-child", NAMESPACE)
                assert not child.metadata.owner_references, child
            else:
                plain.wait_gone(f"{maps}/{name}-child")
    with verb("delete-all"):
        await core.delete_collection_namespaced_config_map(NAMESPACE)
        left = await core.list_namespaced_config_map(NAMESPACE)
        assert {item.metadata.name for item in left.items} <= {CERTIFICATES}


async def main() -> None:
    plain = Plain()
    plain.define()
    plain.make_namespace(NAMESPACE)
    await config.load_kube_config()
    async with client.ApiClient() as api:
        core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
        dynamic = await DynamicClient(api)
        widgets = await dynamic.resources.get(api_version=f"{GROUP}/v1", kind="Widget")
        await read(core, apps, widgets)
        await change(core, apps, widgets)
        await remove(core, plain)


if __name__ == "__main__":
    asyncio.run(main())
