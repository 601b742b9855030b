"""The same few calls for each client for Python; each runs in an environment that has only that client."""

import os
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Annotated, Any, Literal, Self

__all__ = ["ADAPTERS", "Adapter"]

PAGE = 500
KUBECONFIG = os.environ.get("KUBECONFIG", "")


class Adapter:
    """One client."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def warm_up(self) -> None:
        """A first request, so that the connection is there."""
        raise NotImplementedError

    def list(self, kind: str) -> AsyncIterator[Any]:
        """All objects of a kind, in pages if the client can."""
        raise NotImplementedError

    def watch(self, kind: str) -> AsyncIterator[Any]:
        """The changes since the list."""
        raise NotImplementedError

    def key(self, obj: Any) -> Any:
        return obj.metadata.namespace, obj.metadata.name

    def image(self, obj: Any) -> str:
        image: str = obj["spec"]["image"]
        return image

    def is_running(self, pod: Any) -> bool:
        return bool(pod.spec.containers[0].image) and pod.status.phase == "Running"

    def has_status(self, obj: Any) -> bool:
        return bool(obj.get("status"))

    async def create_child(self, obj: Any) -> None:
        raise NotImplementedError

    async def set_status(self, obj: Any) -> None:
        raise NotImplementedError


def child_of(name: str, namespace: str, uid: str, image: str) -> dict[str, Any]:
    owner = {"apiVersion": "example.dev/v1", "kind": "Website", "name": name, "uid": uid, "controller": True}
    metadata = {"name": name, "namespace": namespace, "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"image": image}}


class Lightkube(Adapter):
    """A Website is its generic resource, a tree; a Pod its own class."""

    def __init__(self) -> None:
        lightkube: Any = import_module("lightkube")
        config: Any = import_module("lightkube.config.kubeconfig")
        core: Any = import_module("lightkube.resources.core_v1")
        generic: Any = import_module("lightkube.generic_resource")
        self._client = lightkube.AsyncClient(config=config.KubeConfig.from_file(KUBECONFIG))
        website = generic.create_namespaced_resource("example.dev", "v1", "Website", "websites")
        self._kinds = {"Website": website, "Pod": core.Pod, "Namespace": core.Namespace, "ConfigMap": core.ConfigMap}
        self._merge = import_module("lightkube.types").PatchType.MERGE
        self._version = ""

    async def warm_up(self) -> None:
        [one async for one in self._client.list(self._kinds["Namespace"])]

    async def list(self, kind: str) -> AsyncIterator[Any]:  # type: ignore[override]  # a generator
        listed = self._client.list(self._kinds[kind], namespace="*", chunk_size=PAGE)
        async for obj in listed:
            yield obj
        self._version = listed.resourceVersion

    async def watch(self, kind: str) -> AsyncIterator[Any]:  # type: ignore[override]  # a generator
        async for _, obj in self._client.watch(self._kinds[kind], namespace="*", resource_version=self._version):
            yield obj

    async def create_child(self, obj: Any) -> None:
        meta = obj.metadata
        child = child_of(meta.name, meta.namespace, meta.uid, obj["spec"]["image"])
        await self._client.create(self._kinds["ConfigMap"].from_dict(child))

    async def set_status(self, obj: Any) -> None:
        kind, meta = self._kinds["Website"].Status, obj.metadata
        body = {"status": {"ready": 1}}
        await self._client.patch(kind, meta.name, body, namespace=meta.namespace, patch_type=self._merge)


class Official(Adapter):
    """`kubernetes` (its asyncio half) and `kubernetes_asyncio`: a Website is a tree, a Pod a generated class."""

    def __init__(self, package: str) -> None:
        self._client: Any = import_module(f"{package}.client")
        self._config: Any = import_module(f"{package}.config")
        self._watch: Any = import_module(f"{package}.watch")

    async def __aenter__(self) -> Self:
        await self._config.load_kube_config(config_file=KUBECONFIG)
        self._api = self._client.ApiClient()
        self._core, self._custom = self._client.CoreV1Api(self._api), self._client.CustomObjectsApi(self._api)
        self._version = ""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.close()

    async def warm_up(self) -> None:
        await self._core.list_namespace()

    def _call(self, kind: str) -> tuple[Any, dict[str, Any]]:
        if kind == "Pod":
            return self._core.list_pod_for_all_namespaces, {}
        names = {"group": "example.dev", "version": "v1", "plural": "websites"}
        return self._custom.list_cluster_custom_object, names

    async def list(self, kind: str) -> AsyncIterator[Any]:  # type: ignore[override]  # a generator
        call, options = self._call(kind)
        token: Any = None
        while True:
            page = await call(**options, limit=PAGE, **({"_continue": token} if token else {}))
            if isinstance(page, dict):
                items, metadata = page["items"], page["metadata"]
                self._version, token = metadata["resourceVersion"], metadata.get("continue")
            else:
                items, self._version = page.items, page.metadata.resource_version
                token = getattr(page.metadata, "_continue", None) or getattr(page.metadata, "var_continue", None)
            for obj in items:
                yield obj
            if not token:
                return

    async def watch(self, kind: str) -> AsyncIterator[Any]:  # type: ignore[override]  # a generator
        call, options = self._call(kind)
        async with self._watch.Watch() as stream:
            async for event in stream.stream(call, **options, resource_version=self._version):
                yield event["object"]

    def key(self, obj: Any) -> Any:
        if isinstance(obj, dict):
            return obj["metadata"]["namespace"], obj["metadata"]["name"]
        return obj.metadata.namespace, obj.metadata.name

    async def create_child(self, obj: Any) -> None:
        meta = obj["metadata"]
        child = child_of(meta["name"], meta["namespace"], meta["uid"], obj["spec"]["image"])
        await self._core.create_namespaced_config_map(meta["namespace"], child)

    async def set_status(self, obj: Any) -> None:
        meta = obj["metadata"]
        where = ("example.dev", "v1", meta["namespace"], "websites", meta["name"])
        body = {"status": {"ready": 1}}
        await self._custom.patch_namespaced_custom_object_status(
            *where, body, _content_type="application/merge-patch+json"
        )


class Kr8s(Adapter):
    """Every object is a tree in a class."""

    async def __aenter__(self) -> Self:
        package: Any = import_module("kr8s.asyncio")
        objects: Any = import_module("kr8s.asyncio.objects")
        self._all = import_module("kr8s").ALL
        self._api = await package.api(kubeconfig=KUBECONFIG)
        website = objects.new_class("Website", version="example.dev/v1", namespaced=True)
        self._kinds = {"Website": website, "Pod": objects.Pod}
        self._config_map = objects.ConfigMap
        return self

    async def warm_up(self) -> None:
        [one async for one in self._api.get("namespaces")]

    async def list(self, kind: str) -> AsyncIterator[Any]:  # type: ignore[override]  # a generator
        self._listed = 0
        async for obj in self._api.get(self._kinds[kind], namespace=self._all):
            self._listed += 1
            yield obj

    async def watch(self, kind: str) -> AsyncIterator[Any]:  # type: ignore[override]  # a generator
        # Its watch cannot start at a version: it sends all existing objects first.
        async for _, obj in self._api.watch(self._kinds[kind], namespace=self._all):
            yield obj

    def key(self, obj: Any) -> Any:
        return obj.namespace, obj.name

    def image(self, obj: Any) -> str:
        image: str = obj.raw["spec"]["image"]
        return image

    def is_running(self, pod: Any) -> bool:
        return bool(pod.raw["spec"]["containers"][0]["image"]) and pod.raw["status"]["phase"] == "Running"

    def has_status(self, obj: Any) -> bool:
        return bool(obj.raw.get("status"))

    async def create_child(self, obj: Any) -> None:
        child = child_of(obj.name, obj.namespace, obj.raw["metadata"]["uid"], obj.raw["spec"]["image"])
        await (await self._config_map(child, api=self._api)).create()

    async def set_status(self, obj: Any) -> None:
        await obj.patch({"status": {"ready": 1}}, subresource="status")


class Cloudcoil(Adapter):
    """Every object is a pydantic model; a status is written by a PUT of the whole object."""

    async def __aenter__(self) -> Self:
        resources: Any = import_module("cloudcoil.resources")
        core: Any = import_module("cloudcoil.models.kubernetes.core.v1")
        self._kinds = {"Website": _cloudcoil_website(resources), "Pod": core.Pod, "Namespace": core.Namespace}
        self._config_map = core.ConfigMap
        self._config = import_module("cloudcoil.client").Config(kubeconfig=KUBECONFIG)
        await self._config.__aenter__()
        self._version = ""
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._config.__aexit__(*error)

    async def warm_up(self) -> None:
        await self._kinds["Namespace"].async_list()

    async def list(self, kind: str) -> AsyncIterator[Any]:  # type: ignore[override]  # a generator
        listed = await self._kinds[kind].async_list(all_namespaces=True, limit=PAGE)
        self._version = listed.metadata.resource_version
        async for obj in listed:
            yield obj

    async def watch(self, kind: str) -> AsyncIterator[Any]:  # type: ignore[override]  # a generator
        events = await self._kinds[kind].async_watch(all_namespaces=True, resource_version=self._version)
        async for event, obj in events:
            if event != "BOOKMARK":
                yield obj

    def image(self, obj: Any) -> str:
        image: str = obj.spec.image
        return image

    def has_status(self, obj: Any) -> bool:
        return obj.status is not None

    async def create_child(self, obj: Any) -> None:
        child = child_of(obj.name, obj.namespace, obj.metadata.uid, obj.spec.image)
        await self._config_map.model_validate(child).async_create()

    async def set_status(self, obj: Any) -> None:
        obj.status = {"ready": 1}
        await obj.async_update_status()


def _cloudcoil_website(resources: Any) -> Any:
    """The class of a Website, as its users write one."""
    pydantic: Any = import_module("pydantic")
    base: Any = import_module("cloudcoil.pydantic").BaseModel
    spec = pydantic.create_model("WebsiteSpec", __base__=base, image=(str, ...), certificate=(str, ...))
    version = Annotated[Literal["example.dev/v1"], pydantic.Field(alias="apiVersion")]
    fields = {
        "api_version": (version, "example.dev/v1"),
        "kind": (Literal["Website"], "Website"),
        "spec": (spec, ...),
        "status": (dict[str, Any] | None, None),
    }
    return pydantic.create_model("Website", __base__=resources.Resource, **fields)


ADAPTERS: dict[str, Any] = {
    "cloudcoil": Cloudcoil,
    "lightkube": Lightkube,
    "kubernetes": lambda: Official("kubernetes.aio"),
    "kubernetes_asyncio": lambda: Official("kubernetes_asyncio"),
    "kr8s": Kr8s,
}
