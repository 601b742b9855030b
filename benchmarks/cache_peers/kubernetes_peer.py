"""kubernetes (its asyncio half): lists in pages, watches from there; a dict is the cache."""

import asyncio

from kubernetes.aio import client, config, watch
from meter import EVENTS, KIND, Meter, kubeconfig


async def main() -> None:
    await config.load_kube_config_from_dict(kubeconfig())
    async with client.ApiClient() as api:
        await client.CoreV1Api(api).list_namespace()  # warm-up, not measured
        meter = Meter()
        cached = meter.cached = {}
        call, options = listing(api)
        version, token = "", None
        while True:
            page = await call(**options, limit=500, **({"_continue": token} if token else {}))
            items, version, token = unpack(page)
            for obj in items:
                cached[identity(obj)] = obj
            if not token:
                break
        meter.say("listed", len(cached))
        meter.watching()
        seen = 0
        async with watch.Watch() as stream:
            async for event in stream.stream(call, **options, resource_version=version):
                cached[identity(event["object"])] = event["object"]
                seen += 1
                if seen == EVENTS:
                    break
        meter.say("watched", seen)


def listing(api):
    if KIND == "Pod":
        return client.CoreV1Api(api).list_pod_for_all_namespaces, {}
    custom = client.CustomObjectsApi(api)
    return custom.list_cluster_custom_object, {"group": "example.dev", "version": "v1", "plural": "websites"}


def unpack(page):
    if isinstance(page, dict):
        return page["items"], page["metadata"]["resourceVersion"], page["metadata"].get("continue")
    metadata = page.metadata
    return (
        page.items,
        metadata.resource_version,
        getattr(metadata, "_continue", None) or getattr(metadata, "var_continue", None),
    )


def identity(obj):
    if isinstance(obj, dict):
        return obj["metadata"]["namespace"], obj["metadata"]["name"]
    return obj.metadata.namespace, obj.metadata.name


asyncio.run(main())
