"""Server-side apply on a real kube-apiserver, through the client: ownership, conflicts, force, removal."""

import uuid

import pytest

from levelset import Client, ObjectMeta, Ref
from levelset.errors import Conflict
from levelset.kinds.core_v1 import ConfigMap


def settings(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


async def test_each_manager_owns_what_it_applies_and_removes_only_that(kube_client: Client) -> None:
    name = f"applied-{uuid.uuid4().hex[:8]}"
    await kube_client.apply(settings(name, a="1", b="1"), manager="one")
    await kube_client.apply(settings(name, c="2"), manager="other")
    with pytest.raises(Conflict, match="one"):
        await kube_client.apply(settings(name, a="3", c="2"), manager="other")
    await kube_client.apply(settings(name, a="3", c="2"), manager="other", force=True)
    await kube_client.apply(settings(name, b="1"), manager="one")
    assert (await kube_client.get(Ref(ConfigMap, name, "default"))).data == {"a": "3", "b": "1", "c": "2"}
    await kube_client.apply(settings(name), manager="one")
    assert (await kube_client.get(Ref(ConfigMap, name, "default"))).data == {"a": "3", "c": "2"}


async def test_an_apply_that_changes_nothing_makes_no_version(kube_client: Client) -> None:
    name = f"applied-{uuid.uuid4().hex[:8]}"
    first = await kube_client.apply(settings(name, a="1"), manager="one")
    again = await kube_client.apply(settings(name, a="1"), manager="one")
    assert first.metadata.resource_version == again.metadata.resource_version
