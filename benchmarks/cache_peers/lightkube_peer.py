"""lightkube: the asynchronous client lists in pages and watches from where the list ended; a dict is the cache."""

import asyncio

import lightkube
from lightkube.config.kubeconfig import KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import Namespace, Pod
from meter import EVENTS, KIND, Meter, kubeconfig


async def main() -> None:
    kind = Pod if KIND == "Pod" else create_namespaced_resource("example.dev", "v1", "Website", "websites")
    client = lightkube.AsyncClient(config=KubeConfig.from_dict(kubeconfig()))
    [one async for one in client.list(Namespace)]  # warm-up, not measured
    meter = Meter()
    cached = meter.cached = {}
    listed = client.list(kind, namespace="*", chunk_size=500)
    async for obj in listed:
        cached[obj.metadata.namespace, obj.metadata.name] = obj
    meter.say("listed", len(cached))
    version = listed.resourceVersion
    meter.watching()
    seen = 0
    async for _, obj in client.watch(kind, namespace="*", resource_version=version):
        cached[obj.metadata.namespace, obj.metadata.name] = obj
        seen += 1
        if seen == EVENTS:
            break
    meter.say("watched", seen)


asyncio.run(main())
