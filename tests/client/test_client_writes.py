import asyncio
from typing import Any

import pytest

from levelset.client.internals import apply_body, with_settings
from levelset.client.object_types import OnlyMetadata
from levelset.client.patches import JsonPatch, MergePatch, StrategicPatch
from levelset.client.request_body import request_body_of
from levelset.client.transport.interface import Call
from levelset.errors import (
    AlreadyExists,
    ApplyConflict,
    BadName,
    BadObject,
    BadRequest,
    ConfigError,
    Conflict,
    Invalid,
    NotFound,
    ServerFailed,
)
from levelset.objects import ObjectMeta, Ref, Unstructured, replace
from tests.client.fixtures import (
    CONFIG_MAP,
    WEBSITE,
    ConfigMap,
    Namespace,
    Website,
    WebsiteSpec,
    WebsiteStatus,
    open_client,
    recording,
    website,
)

LABELLED = MergePatch({"metadata": {"labels": {"a": "b"}}})


async def test_create_returns_the_stored_object_and_does_not_change_its_input() -> None:  # K01
    async with open_client() as client:
        site = website("blog")
        made = await client.create(site)
        assert made.metadata.uid
        assert made.metadata.resource_version
        assert made.metadata.generation == 1
        assert (site.metadata.uid, site.metadata.resource_version) == ("", "")


async def test_create_of_an_existing_name_raises_already_exists_with_the_request() -> None:  # K01
    async with open_client() as client:
        site = await client.create(website("blog"))
        with pytest.raises(AlreadyExists) as caught:
            await client.create(website("blog"))
        assert caught.value.request == "create Website/default/blog"
        assert str(caught.value).startswith("create Website/default/blog: ")
        with pytest.raises(ServerFailed, match="resourceVersion should not be set"):  # as kube-apiserver answers
            await client.create(site)


async def test_generate_name_is_completed_by_the_server() -> None:  # K02
    async with open_client() as client:
        made = [await client.create(_generated()) for _ in range(3)]
        assert len({one.name for one in made}) == 3
        assert all(one.name.startswith("blog-") for one in made)


def _generated() -> Website:
    return website("x").with_metadata(name="", generate_name="blog-")


async def test_an_update_of_a_stale_version_conflicts_and_of_nothing_is_not_found() -> None:  # K03
    async with open_client() as client:
        old = await client.create(website("blog"))
        await client.update(old.with_spec(replicas=2))
        with pytest.raises(Conflict) as caught:
            await client.update(old.with_spec(replicas=3))
        assert not isinstance(caught.value, AlreadyExists)
        with pytest.raises(NotFound):
            await client.update(website("none"))


async def test_a_no_op_update_keeps_the_version_and_sends_no_watch_event() -> None:  # K03
    async with open_client() as client:
        old = await client.create(website("blog"))
        async with client.watch(Website, resource_version=old.metadata.resource_version) as batches:
            same = await client.update(old)
            await client.update(same.with_spec(replicas=5))
            (event,) = await anext(batches)
        assert same.metadata.resource_version == old.metadata.resource_version
        assert event.cached is not None
        assert event.cached.read(Website).spec.replicas == 5


async def test_an_update_preserves_fields_that_the_class_does_not_define() -> None:
    async with open_client() as client:
        tree = {"apiVersion": "example.dev/v1", "kind": "Website", "metadata": {"name": "blog"}}
        await client.create({**tree, "spec": {"extra": {"kept": "yes"}}})
        site = await client.get(Website, "blog")
        await client.update(site.with_spec(replicas=7))
        found = await client.get(WEBSITE, "blog")
        assert found.tree["spec"] == {"extra": {"kept": "yes"}, "replicas": 7}


async def test_an_item_of_a_list_can_be_written_back_as_it_is() -> None:
    async with open_client() as client:
        await client.create(ConfigMap(metadata=website("a").metadata, data={"k": "1"}))
        (found,) = await client.list(ConfigMap, namespace="default")
        assert (await client.update(found)).data == {"k": "1"}


async def test_an_update_with_a_versioned_object_that_was_never_read_is_refused() -> None:
    async with open_client() as client:
        made = await client.create(website("blog"))
        copied = Website(metadata=made.metadata, spec=WebsiteSpec(replicas=4))
        with pytest.raises(BadObject, match="patch it"):
            await client.update(copied)
        assert (await client.update(replace(made, spec=WebsiteSpec(replicas=4)))).spec.replicas == 4


async def test_spec_and_status_are_written_separately() -> None:  # K05
    async with open_client() as client:
        site = await client.create(website("blog", replicas=1).with_status(WebsiteStatus(phase="new")))
        assert site.status is None
        site = await client.update_status(site.with_status(WebsiteStatus(phase="up")).with_spec(replicas=9))
        assert (site.spec.replicas, site.status and site.status.phase) == (1, "up")
        site = await client.update(site.with_status(WebsiteStatus(phase="no")).with_spec(replicas=2))
        assert (site.spec.replicas, site.status and site.status.phase) == (2, "up")
        patch = MergePatch({"spec": {"replicas": 5}, "status": {"phase": "done"}})
        site = await client.patch(site.ref, patch, subresource="status")
        assert (site.spec.replicas, site.status and site.status.phase) == (2, "done")
        assert (await client.get(site.ref, subresource="status")).spec.replicas == 2


async def test_a_status_of_a_kind_without_one_is_not_found() -> None:  # K05
    async with open_client() as client:
        made = await client.create(ConfigMap(metadata=website("a").metadata))
        with pytest.raises(NotFound):
            await client.update_status(made)


async def test_a_status_update_of_a_stale_version_conflicts() -> None:  # K06
    async with open_client() as client:
        old = await client.create(website("blog"))
        await client.update_status(old.with_status(WebsiteStatus(phase="up")))
        with pytest.raises(Conflict):
            await client.update_status(old.with_status(WebsiteStatus(phase="down")))


async def test_merge_and_json_patches_are_applied() -> None:  # K07
    async with open_client() as client:
        site = await client.create(website("blog"))
        assert (await client.patch(site.ref, MergePatch({"spec": {"replicas": 2}}))).spec.replicas == 2
        steps = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
        assert (await client.patch(site.ref, JsonPatch(steps))).spec.replicas == 3
        changed = (await client.get(site.ref)).with_spec(replicas=4)
        assert (await client.patch(site.ref, MergePatch.between(site, changed))).spec.replicas == 4
        nothing = MergePatch({"metadata": {"resourceVersion": None}, "spec": {"replicas": 5}})
        assert (await client.patch(site.ref, nothing)).spec.replicas == 5


async def test_a_strategic_patch_merges_the_lists_of_built_in_kinds_by_key() -> None:  # K07
    async with open_client() as client:
        service: Any = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"ports": [{"name": "http", "port": 80}]},
        }
        made = await client.create(service)
        patch = StrategicPatch({"spec": {"ports": [{"name": "https", "port": 443}]}})
        found = await client.patch(made.ref, patch)
        assert sorted(port["port"] for port in found.tree["spec"]["ports"]) == [80, 443]


async def test_a_patch_with_a_lock_applies_only_to_its_version() -> None:  # K07
    async with open_client() as client:
        old = await client.create(website("blog"))
        merge = MergePatch.between(old, old.with_spec(replicas=2), lock=True)
        steps = JsonPatch.between(old, old.with_spec(replicas=2), lock=True)
        await client.patch(old.ref, LABELLED)
        with pytest.raises(Conflict):
            await client.patch(old.ref, merge)
        with pytest.raises(Invalid):
            await client.patch(old.ref, steps)


async def test_concurrent_patches_all_succeed_unless_they_name_a_version() -> None:  # K08
    async with open_client() as client:
        old = await client.create(website("blog"))
        free = [MergePatch({"metadata": {"labels": {f"l{number}": "x"}}}) for number in range(10)]
        await asyncio.gather(*(client.patch(old.ref, one) for one in free))
        now = await client.get(old.ref)
        assert len(now.metadata.labels) == 10
        locked = [MergePatch.between(now, now.with_spec(replicas=2 + number), lock=True) for number in range(5)]
        results = await asyncio.gather(*(client.patch(old.ref, one) for one in locked), return_exceptions=True)
        assert sorted(type(one).__name__ for one in results) == ["Conflict"] * 4 + ["Website"]


async def test_apply_creates_updates_and_removes_fields_no_longer_applied() -> None:  # K09
    async with open_client() as client:
        made = await client.apply(website("blog", replicas=3, labels={"a": "1"}), manager="me")
        assert (made.spec.replicas, made.metadata.labels) == (3, {"a": "1"})
        again = await client.apply(website("blog", replicas=4), manager="me")
        assert (again.spec.replicas, again.metadata.labels) == (4, {})
        tree = await client.apply({**made_tree(), "spec": {"image": "caddy"}}, manager="other")
        assert isinstance(tree, Unstructured)
        assert tree.tree["spec"] == {"image": "caddy", "replicas": 4}


def made_tree() -> dict[str, Any]:
    return {"apiVersion": "example.dev/v1", "kind": "Website", "metadata": {"name": "blog"}}


async def test_apply_conflicts_name_manager_and_field_and_force_takes_over() -> None:  # K09
    async with open_client() as client:
        await client.apply(website("blog", replicas=3), manager="me")
        with pytest.raises(ApplyConflict) as caught:
            await client.apply(website("blog", replicas=4), manager="you")
        (conflict,) = caught.value.conflicts
        assert (conflict.manager, conflict.field) == ("me", ".spec.replicas")
        assert caught.value.code == 409
        assert (await client.apply(website("blog", replicas=4), manager="you", force=True)).spec.replicas == 4


async def test_a_prepared_body_is_applied_like_its_object() -> None:
    async with open_client() as client:
        draft = request_body_of(website("blog", replicas=3))
        made = await apply_body(client, draft, draft.encode_for_apply(), manager="me")
        assert made == await client.apply(website("blog", replicas=3), manager="me")


async def test_invalid_patches_and_applies_are_refused_before_they_are_sent() -> None:
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        calls.clear()
        with pytest.raises(BadName, match="'a/b' is not a name of a ConfigMap"):
            await client.apply(ConfigMap(metadata=ObjectMeta(name="a/b", namespace="default")))
        for namespace in ("a/b", ["a"]):
            meta = ObjectMeta(name="a", namespace=namespace)  # type: ignore[arg-type]
            with pytest.raises(BadName, match="is not a namespace of a ConfigMap"):
                await client.apply(ConfigMap(metadata=meta))
        with pytest.raises(ConfigError, match="is in namespace default, not other"):
            await client.apply(website("blog"), namespace="other")
        with pytest.raises(ConfigError, match="confined to namespace one"):
            await client.in_namespace("one").patch(Ref(ConfigMap, "a", "two"), LABELLED)
        with pytest.raises(BadObject, match="cannot be written"):
            await client.patch(Ref(ConfigMap, "a"), MergePatch({"data": object()}))
        with pytest.raises(TypeError, match="unknown option dryrun"):
            await client.patch(Ref(ConfigMap, "a"), LABELLED, dryrun=True)  # type: ignore[call-overload]
        assert calls == []


async def test_apply_works_on_a_subresource_and_with_an_object_that_was_read() -> None:  # K09
    async with open_client() as client:
        site = await client.apply(website("blog", replicas=3))
        assert (await client.get(WEBSITE, "blog")).tree["metadata"]["managedFields"][0]["manager"] == "levelset"
        again = await client.apply(site.with_spec(replicas=5))
        assert again.spec.replicas == 5
        applied = await client.apply({**made_tree(), "status": {"phase": "up"}}, subresource="status")
        assert applied.tree["status"]["phase"] == "up"


async def test_a_delete_with_preconditions_deletes_only_the_matching_object() -> None:  # K10
    async with open_client() as client:
        site = await client.create(website("blog"))
        with pytest.raises(Conflict):
            await client.delete(site.ref, uid="another")
        with pytest.raises(Conflict):
            await client.delete(site.ref, resource_version="1")
        assert await client.delete(site.ref, uid=site.metadata.uid) is None
        with pytest.raises(NotFound):
            await client.delete(site.ref)
        assert await client.delete(site.ref, missing_ok=True) is None


async def test_finalizers_hold_a_deleted_object_until_the_last_is_removed() -> None:  # K10
    async with open_client() as client:
        site = await client.create(website("blog").with_metadata(finalizers=("example.dev/a",)))
        held = await client.delete(Website, "blog")
        assert held is not None
        assert held.metadata.deletion_timestamp is not None
        await client.patch(site.ref, MergePatch({"metadata": {"deletionTimestamp": None}}))
        assert (await client.get(site.ref)).metadata.deletion_timestamp == held.metadata.deletion_timestamp
        await client.patch(site.ref, MergePatch({"metadata": {"finalizers": None}}))
        assert await client.find(site.ref) is None


async def test_delete_collection_deletes_what_matches_the_selectors_in_one_namespace() -> None:  # K11
    async with open_client() as client:
        for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
            await client.create(website(name, labels={"l": label}))
        gone = await client.delete_collection(Website, namespace="default", labels="l=x")
        assert sorted(one.name for one in gone) == ["a", "b"]
        assert [one.name for one in await client.list(Website)] == ["c"]
        with pytest.raises(ConfigError, match="name the namespace"):
            await client.delete_collection(Website)


async def test_racing_deletes_of_a_collection_all_succeed() -> None:  # K11
    async with open_client() as client:
        for number in range(20):
            await client.create(website(f"w{number}"))
        racing = [client.delete_collection(Website, namespace="default") for _ in range(4)]
        await asyncio.gather(*racing, client.delete(Website, "w3", missing_ok=True))
        assert len(await client.list(Website)) == 0


async def test_a_dry_run_changes_nothing_but_checks_everything() -> None:  # K12
    async with open_client() as client:
        dry = with_settings(client, dry_run=True)
        site = await client.create(website("blog"))
        assert (await dry.create(website("other"))).metadata.uid
        assert (await dry.update(site.with_spec(replicas=2))).spec.replicas == 2
        assert (await dry.update_status(site.with_status(WebsiteStatus(phase="up")))).status
        assert (await dry.patch(site.ref, LABELLED)).metadata.labels == {"a": "b"}
        assert (await dry.apply(website("blog", replicas=8), force=True)).spec.replicas == 8
        assert (await dry.scale(site.ref, replicas=4)).spec.replicas == 4
        await dry.delete(site.ref)
        await dry.delete_collection(Website, namespace="default")
        with pytest.raises(Invalid):
            await dry.create(website("bad", replicas=-1))
        assert list(await client.list(Website)) == [site]


async def test_metadata_can_be_patched_and_deleted_but_not_created_or_updated() -> None:  # K15
    async with open_client() as client:
        site = await client.create(website("blog"))
        part = await client.patch(site.ref, LABELLED, only_metadata=True)
        assert part.metadata.labels == {"a": "b"}
        for verb in (client.create, client.update, client.apply):
            with pytest.raises(ConfigError, match="PartialObjectMetadata cannot be written"):
                await verb(part)
        await client.delete(OnlyMetadata(Website), "blog")
        assert await client.find(Website, "blog") is None


async def test_the_scale_of_an_object_is_read_and_set() -> None:  # K16
    async with open_client() as client:
        site = await client.create(website("blog", replicas=2))
        await client.update_status(site.with_status(WebsiteStatus(replicas=1)))
        scale = await client.get_scale(site.ref)
        assert (scale.name, scale.spec.replicas, scale.status and scale.status.replicas) == ("blog", 2, 1)
        assert (await client.scale(site.ref, replicas=6)).spec.replicas == 6
        assert (await client.get(site.ref)).spec.replicas == 6
        with pytest.raises(NotFound):
            await client.get_scale(Ref(CONFIG_MAP, "a", "default"))


async def test_another_subresource_is_returned_as_its_own_kind() -> None:  # K16
    async with open_client() as client:
        site = await client.create(website("blog", replicas=2))
        found: Any = await client.get(site.ref, subresource="scale")
        assert (found.kind, found.tree["spec"]) == ("Scale", {"replicas": 2})
        found.tree["spec"]["replicas"] = 3
        assert (await client.update(found, on=site.ref, subresource="scale")).tree["spec"] == {"replicas": 3}
        assert (await client.get(site.ref)).spec.replicas == 3


async def test_unknown_fields_are_refused_warned_about_or_ignored() -> None:  # K17
    warned: list[str] = []
    async with open_client(on_warning=lambda call, text: warned.append(text)) as client:
        odd = {**made_tree(), "spec": {"colour": "red"}}
        with pytest.raises(BadRequest, match="colour"):
            await client.create(odd, validation="Strict")
        await client.create(odd, validation="Warn")
        assert ["colour" in text for text in warned] == [True]
        await with_settings(client, validation="Ignore").create({**odd, "metadata": {"name": "other"}})
        assert len(warned) == 1


async def test_the_field_manager_is_the_clients_unless_the_call_names_another() -> None:  # K19
    async with open_client(manager="house") as client:
        site = await client.create(website("blog"))
        await client.patch(site.ref, LABELLED, manager="guest")
        tree = (await client.get(WEBSITE, "blog")).tree
        assert {entry["manager"] for entry in tree["metadata"]["managedFields"]} == {"house", "guest"}
        with pytest.raises(ConfigError, match="field manager"):
            await client.create(website("b"), manager="x" * 129)


async def test_nothing_is_sent_for_an_invalid_name() -> None:
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        for name in ("", ".", "..", "a/b", "a%2fb"):
            with pytest.raises(BadName):
                await client.get(Website, name)
        with pytest.raises(BadName):
            await client.update(website(""))
        with pytest.raises(ConfigError, match="is in namespace"):
            await client.create(website("a", namespace="x"), namespace="y")
        assert calls == []


async def test_a_cluster_scoped_kind_ignores_a_namespace() -> None:
    async with open_client() as client:
        found = await client.get(Namespace, "default", namespace="other")
        assert found.name == "default"
        assert len(await client.list(Namespace, namespace="other")) >= 1


async def test_a_misspelt_option_is_refused_before_anything_is_written() -> None:
    async with open_client() as client:
        slip: dict[str, Any] = {"dryrun": True}
        site = website("blog")
        with pytest.raises(TypeError, match="unknown option dryrun; the options are dry_run, manager, validation"):
            await client.create(site, **slip)
        with pytest.raises(TypeError, match="dryrun"):
            await client.apply(site, **slip)
        assert await client.find(site.ref) is None
        made = await client.create(site)
        with pytest.raises(TypeError, match="dryrun"):
            await client.update(made.with_spec(replicas=5), **slip)
        with pytest.raises(TypeError, match="dryrun"):
            await client.patch(made.ref, LABELLED, **slip)
        assert await client.get(made.ref) == made


async def test_a_patch_without_a_type_is_refused() -> None:
    async with open_client() as client:
        bare: Any = {"metadata": {"labels": {"a": "b"}}}
        with pytest.raises(ConfigError, match=r"patch Website/default/blog: .* such as MergePatch"):
            await client.patch(Ref(Website, "blog", "default"), bare)


async def test_an_object_in_place_of_its_ref_is_refused_with_the_remedy() -> None:
    async with open_client() as client:
        site: Any = await client.create(website("blog"))
        with pytest.raises(
            ConfigError, match=r"an object \(.*blog\) is not a kind: give its ref, as in client\.delete"
        ):
            await client.delete(site)
        not_a_kind: Any = ["blog"]
        with pytest.raises(ConfigError, match=r"\['blog'\] is not a kind: give a class with api="):
            await client.delete(not_a_kind)
