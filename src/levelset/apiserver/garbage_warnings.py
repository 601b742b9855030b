"""Says why an object went whose owner is there, but in another namespace, where it cannot own it."""

from typing import Final

from levelset.apiserver import writing
from levelset.apiserver.metadata import time_text
from levelset.apiserver.served import Object
from levelset.apiserver.spots import Spot
from levelset.apiserver.world import World
from levelset.errors import ApiError
from levelset.objects import decode_tree, parse_api_version

__all__ = ["warn_wrong_namespace"]

_COMPONENT: Final = "garbage-collector-controller"


async def warn_wrong_namespace(world: World, spot: Spot, tree: Object, ref: Object) -> None:
    """Writes a Warning event about an object whose owner lives in another namespace; nothing if it lives nowhere."""
    if spot.namespace is None or not await _lives_elsewhere(world, spot.namespace, ref):
        return
    events = world.catalog.find("", "v1", "events")
    if events is None:
        return
    metadata, now = tree["metadata"], time_text(world.now())
    message = (
        f"ownerRef [{ref.get('apiVersion')}/{ref.get('kind')}, namespace: {spot.namespace}, name: {ref.get('name')}"
    )
    event: Object = {
        "metadata": {"generateName": f"{spot.name[:200]}.", "namespace": spot.namespace},
        "involvedObject": {
            "apiVersion": spot.served.api_version,
            "kind": spot.served.kind,
            "namespace": spot.namespace,
            "name": spot.name,
            "uid": metadata.get("uid", ""),
        },
        "reason": "OwnerRefInvalidNamespace",
        "message": f"{message}, uid: {ref.get('uid')}] does not exist in namespace {spot.namespace!r}",
        "type": "Warning",
        "source": {"component": _COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        await writing.create(world, events, spot.namespace, event)
    except ApiError:
        return  # the namespace goes too; nobody will miss the event


async def _lives_elsewhere(world: World, namespace: str, ref: Object) -> bool:
    group, version = parse_api_version(str(ref.get("apiVersion") or ""))
    kind = str(ref.get("kind") or "")
    served = world.catalog.by_gvk(group, version, kind) or world.catalog.kinds(group, kind)
    uid = str(ref.get("uid") or "")
    if served is None or not served.namespaced or not uid:
        return False
    sought = uid.encode()
    page = await world.storage.list(served.prefix)
    return any(
        sought in item.value and decode_tree(item.value)["metadata"].get("uid") == uid
        for item in page.items
        if not item.key.startswith(served.prefix_in(namespace))
    )
