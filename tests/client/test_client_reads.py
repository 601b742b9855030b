from contextlib import aclosing
from typing import Any

import pytest

from levelset.client.client import Client
from levelset.client.internals import list_page
from levelset.client.lists import Items
from levelset.client.object_types import OnlyMetadata
from levelset.client.patches import MergePatch
from levelset.client.transport.interface import Call
from levelset.errors import BadObject, BadSelector, ConfigError, Expired, NotFound, UnknownKind
from levelset.objects import GroupVersionKind, LabelSelector, PartialObjectMetadata, Ref, Resource, Spec, Unstructured
from tests.client.fixtures import (
    WEBSITE,
    ConfigMap,
    Namespace,
    Website,
    open_client,
    recording,
    website,
)

UNLABEL = MergePatch({"metadata": {"labels": None}})
COMPACT = Call(method="POST", path="/levelset/compact", about="compact")


class StrictSpec(Spec):
    image: int


class StrictWebsite(Resource[StrictSpec, None], api="example.dev/v1", kind="Website"):
    """The same kind, with an image that no server would have."""


async def test_get_returns_typed_unstructured_or_metadata_only_objects() -> None:  # K04
    async with open_client() as client:
        made = await client.create(website("blog", replicas=2))
        assert await client.get(Website, "blog") == made
        assert await client.get(made.ref) == made
        tree = await client.get(WEBSITE, "blog", namespace="default")
        assert isinstance(tree, Unstructured)
        assert tree.tree["spec"]["replicas"] == 2
        part = await client.get(OnlyMetadata(Website), "blog")
        assert isinstance(part, PartialObjectMetadata)
        assert part.metadata == made.metadata
        ref: Ref[Any] = Ref(WEBSITE, "blog", "default")
        assert (await client.get(ref)).tree == tree.tree


async def test_each_get_returns_a_new_object() -> None:  # K04
    async with open_client() as client:
        made = await client.create(website("blog", labels={"a": "b"}))
        await client.patch(made.ref, UNLABEL)
        assert (await client.get(made.ref)).metadata.labels == {}
        assert made.metadata.labels == {"a": "b"}


async def test_get_of_a_missing_object_raises_not_found_and_find_returns_none() -> None:
    async with open_client() as client:
        with pytest.raises(NotFound) as caught:
            await client.get(Website, "blog")
        assert (caught.value.request, caught.value.details["name"]) == ("get Website/default/blog", "blog")
        assert await client.find(Website, "blog") is None
        assert await client.find(WEBSITE, "blog") is None


async def test_find_distinguishes_a_kind_that_is_not_served_from_a_missing_object() -> None:
    async with open_client(crd=False) as client:
        with pytest.raises(NotFound):
            await client.find(Website, "blog")
        with pytest.raises(UnknownKind):
            await client.find(WEBSITE, "blog")


async def test_without_a_namespace_the_namespace_of_the_client_is_used() -> None:
    async with open_client(namespace="other") as client:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        made = await client.create(website("blog", namespace=None))
        assert made.namespace == client.namespace == "other"
        await client.create(website("blog", namespace="default"))
        assert (await client.get(Website, "blog")).namespace == "other"
        assert (await client.get(Website, "blog", namespace="default")).namespace == "default"
        assert len(await client.list(Website)) == 2


async def test_a_list_is_selected_by_labels_fields_and_namespace() -> None:  # K13
    async with open_client() as client:
        for name, tier in (("a", "public"), ("b", "private")):
            await client.create(website(name, labels={"tier": tier}))
        selectors: list[Any] = ["tier=public", {"tier": "public"}, LabelSelector.of(tier="public")]
        for labels in selectors:
            assert [site.name for site in await client.list(Website, labels=labels)] == ["a"]
        assert [site.name for site in await client.list(Website, fields="metadata.name=b")] == ["b"]
        assert [site.name for site in await client.list(Website, fields={"metadata.name": "b"})] == ["b"]
        assert len(await client.list(Website, namespace="default")) == 2
        assert len(await client.list(Website, namespace="kube-system")) == 0
        with pytest.raises(BadSelector):
            await client.list(Website, labels="tier in public")


async def test_an_empty_list_has_a_version_to_watch_from() -> None:  # K13
    async with open_client() as client:
        found = await client.list(WEBSITE)
        assert (list(found), found.continue_, found.remaining) == ([], None, None)
        assert int(found.resource_version) > 0


async def test_a_list_with_a_limit_is_a_page_and_leads_to_the_next() -> None:  # K13
    async with open_client() as client:
        for name in "abcde":
            await client.create(website(name))
        first = await client.list(Website, limit=2)
        assert ([site.name for site in first], first.remaining) == (["a", "b"], 3)
        second = await client.list(Website, limit=2, continue_=first.continue_)
        assert [site.name for site in second] == ["c", "d"]
        assert second.resource_version == first.resource_version


async def test_each_follows_the_pages_as_far_as_they_are_read() -> None:  # K13
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        for name in "abcde":
            await client.create(website(name))
        calls.clear()
        async with aclosing(_generator(client)) as sites:
            assert [(await anext(sites)).name for _ in range(3)] == ["a", "b", "c"]
        assert len(calls) == 2
        assert [site.name async for site in client.each(WEBSITE, page_size=2)] == list("abcde")


def _generator(client: Client) -> Any:
    return client.each(Website, page_size=2)


async def test_each_continues_with_the_token_of_an_expired_page() -> None:  # kube-rs 91
    async with open_client() as client:
        for name in "abcde":
            await client.create(website(name))
        found: list[str] = []
        async for site in client.each(Website, page_size=2):
            found.append(site.name)
            if site.name == "b":
                await client.create(website("bb"))
                await client.send(COMPACT)
        assert found == ["a", "b", "bb", "c", "d", "e"]


async def test_an_expired_page_offers_a_token() -> None:  # kube-rs 91
    async with open_client() as client:
        for name in "abc":
            await client.create(website(name))
        page = await list_page(client, Website, limit=1)
        await client.create(website("d"))
        await client.send(COMPACT)
        with pytest.raises(Expired) as caught:
            await list_page(client, Website, limit=1, continue_=page.continue_)
        again = await list_page(client, Website, continue_=caught.value.details["continue"])
        assert [cached.head.name for cached in again.items] == ["b", "c", "d"]


async def test_metadata_only_requests_use_the_partial_object_accept_header() -> None:  # kube-rs 86, K15
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        made = await client.create(website("blog"))
        only = OnlyMetadata(WEBSITE)
        calls.clear()
        await client.get(only, "blog")
        found = await client.list(only)
        await client.patch(made.ref, UNLABEL, only_metadata=True)
        async with client.watch(only, resource_version="0"):
            pass
        kinds = [
            call.headers["accept"].split(";")[1] for call in calls if call.path.startswith("/apis/example.dev/v1/")
        ]
        one, many = "as=PartialObjectMetadata", "as=PartialObjectMetadataList"
        assert kinds == [one, many, one, one]
        assert found.refs() == [Ref(WEBSITE, "blog", "default")]
        assert "spec" not in found.cached[0].tree()


async def test_items_are_decoded_on_first_access_and_then_shared() -> None:
    async with open_client() as client:
        await client.create(website("a"))
        await client.create(website("b"))
        sites = await client.list(Website)
        assert isinstance(sites, Items)
        assert sites[0] is sites[0]
        assert (sites[-1].name, [one.name for one in sites[:1]], len(sites)) == ("b", ["a"], 2)
        assert [item.cached.head.name for item in sites.items()] == ["a", "b"]
        assert sites == list(sites)
        assert repr(sites) == f"Items(2 Website, resource_version={sites.resource_version!r})"
        with pytest.raises(IndexError):
            sites[2]


async def test_an_object_that_does_not_fit_its_class_does_not_affect_others() -> None:  # kube-rs 90
    async with open_client() as client:
        await client.create(website("good", image="nginx:1"))
        sites: Any = await client.list(StrictWebsite)
        assert [cached.head.name for cached in sites.cached] == ["good"]
        assert [ref.name for ref in sites.refs()] == ["good"]
        with pytest.raises(BadObject, match="StrictWebsite"):
            sites[0]


async def test_versions_and_pages_that_contradict_each_other_are_refused_before_sending() -> None:  # kube-rs 87
    async with open_client() as client:
        with pytest.raises(ConfigError, match="needs a resource_version"):
            await client.list(Website, match="Exact")
        with pytest.raises(ConfigError, match="an exact one"):
            await client.list(Website, resource_version="0", match="Exact")
        with pytest.raises(ConfigError, match="continue_ implies"):
            await client.list(Website, resource_version="7", continue_="token")


async def test_version_zero_is_left_out_of_paged_lists() -> None:  # kube-rs 87
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        await client.create(website("a"))
        await client.create(website("b"))
        calls.clear()
        page = await client.list(Website, resource_version="0", limit=1)
        await client.list(Website, resource_version="0", continue_=page.continue_)
        await client.list(Website, resource_version="0")
        assert ["resourceVersion" in call.query for call in calls] == [False, False, True]


async def test_a_list_at_an_exact_version_is_of_that_version() -> None:
    async with open_client() as client:
        first = await client.create(website("a"))
        await client.create(website("b"))
        version = first.metadata.resource_version
        found = await client.list(Website, resource_version=version, match="Exact")
        assert [site.name for site in found] == ["a"]
        newer = await client.list(Website, resource_version=version, match="NotOlderThan")
        assert [site.name for site in newer] == ["a", "b"]


async def test_pages_can_be_without_managed_fields_and_transformed() -> None:
    async with open_client() as client:
        await client.create(website("a", image="nginx:1"))
        full = await list_page(client, Website)
        bare = await list_page(client, Website, managed_fields=False)
        cut = await list_page(client, Website, transform=lambda raw: raw.replace(b"nginx", b"caddy"))
        assert b"managedFields" in full.items[0].raw
        assert b"managedFields" not in bare.items[0].raw
        assert cut.items[0].read(Website).spec.image == "caddy:1"


async def test_items_have_their_kind_although_the_list_does_not_repeat_it() -> None:
    async with open_client() as client:
        for name in "ab":
            await client.create(ConfigMap(metadata=website(name).metadata))
        page = await list_page(client, ConfigMap, namespace="default")
        assert [cached.tree()["kind"] for cached in page.items] == ["ConfigMap", "ConfigMap"]


async def test_a_client_confined_to_a_namespace_uses_it_and_refuses_others() -> None:  # K18
    async with open_client() as client:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}})
        mine = client.in_namespace("mine")
        await client.create(website("theirs"))
        made = await mine.create(website("blog", namespace=None))
        assert made.namespace == "mine"
        assert [site.name for site in await mine.list(Website)] == ["blog"]
        assert (await mine.apply(website("blog", namespace=None, replicas=3), force=True)).spec.replicas == 3
        for refused in (mine.get(Website, "a", namespace="default"), mine.list(Website, namespace="default")):
            with pytest.raises(ConfigError, match="confined to namespace mine"):
                await refused
        with pytest.raises(ConfigError):
            mine.in_namespace("default")
        assert (await mine.get(Namespace, "default")).name == "default"
        assert len(await mine.delete_collection(Website)) == 1
        assert len(await client.list(Website)) == 1


async def test_the_resource_of_a_class_is_known_and_that_of_a_bare_kind_discovered() -> None:
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        known = await client.resource(Website)
        assert (known.gvr.resource, known.namespaced, calls) == ("websites", True, [])
        requested = await client.resource(WEBSITE)
        await client.resource(WEBSITE)
        assert (requested.gvr, requested.namespaced) == (known.gvr, True)
        assert len(calls) == 1
        with pytest.raises(UnknownKind):
            await client.resource(GroupVersionKind("example.dev", "v1", "Nothing"))


async def test_get_needs_a_name_or_a_ref() -> None:
    async with open_client() as client:
        get: Any = client.get
        with pytest.raises(ConfigError, match="name of the Website is missing"):
            await get(Website)
        with pytest.raises(ConfigError, match="names its object"):
            await get(Ref(Website, "a", "default"), "b")
        with pytest.raises(ConfigError, match="names its namespace"):
            await get(Ref(Website, "a", "default"), namespace="x")
