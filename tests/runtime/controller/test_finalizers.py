"""The finalizer protocol: behaviours F1 to F8 of kube-rs, and further guarantees."""

from typing import Any

import pytest

from levelset.client import JsonPatch
from levelset.errors import ConfigError, Conflict, Forbidden
from levelset.objects import Object, definition_of, parse_time
from levelset.objects.names import is_qualified_name
from levelset.runtime.controller import finalizers as finalizing
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import fake_response
from tests.runtime.controller.context_environment import ConfigMap, ContextEnvironment, Site, open_environment, site

OURS = "websites.example.dev/levelset-sites"
THEIRS = "example.org/theirs"


def seen(*finalizers: str, deleting: bool = False) -> Site:
    when = parse_time("2026-01-31T12:00:00Z") if deleting else None
    return site().with_metadata(finalizers=finalizers, deletion_timestamp=when)


@pytest.mark.parametrize(
    ("obj", "step"),
    [
        (seen(), "add"),
        (seen(THEIRS), "add"),
        (seen(OURS), "reconcile"),
        (seen(THEIRS, OURS), "reconcile"),
        (seen(OURS, deleting=True), "cleanup"),
        (seen(deleting=True), "ignore"),
        (seen(THEIRS, deleting=True), "ignore"),
    ],
)
def test_the_step_depends_on_our_finalizer_and_on_the_deletion_alone(obj: Site, step: str) -> None:
    assert finalizing.step(obj, OURS) == step


def test_the_first_finalizer_is_added_only_where_there_is_none() -> None:
    assert finalizing.add_patch((), OURS) == JsonPatch(
        [
            {"op": "test", "path": "/metadata/finalizers", "value": None},
            {"op": "add", "path": "/metadata/finalizers", "value": [OURS]},
        ]
    )


def test_a_further_finalizer_is_added_only_to_those_that_were_seen() -> None:
    assert finalizing.add_patch((THEIRS,), OURS) == JsonPatch(
        [
            {"op": "test", "path": "/metadata/finalizers", "value": [THEIRS]},
            {"op": "add", "path": "/metadata/finalizers/-", "value": OURS},
        ]
    )


def test_our_finalizer_is_removed_only_at_the_index_where_it_was_seen() -> None:
    assert finalizing.remove_patch((THEIRS, OURS), OURS) == JsonPatch(
        [
            {"op": "test", "path": "/metadata/finalizers/1", "value": OURS},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]
    )


def test_a_finalizer_that_is_listed_twice_is_removed_twice_from_the_end() -> None:
    places = [
        one["path"] for one in finalizing.remove_patch((OURS, THEIRS, OURS), OURS).operations if one["op"] == "remove"
    ]
    assert places == ["/metadata/finalizers/2", "/metadata/finalizers/0"]


def test_nothing_is_removed_if_our_finalizer_is_absent() -> None:
    assert finalizing.remove_patch((THEIRS,), OURS).is_empty


@pytest.mark.parametrize("name", ["sites", "a b/c", "ü", "x" * 200, "sites-"])
def test_the_finalizer_of_any_controller_is_a_qualified_name(name: str) -> None:
    assert is_qualified_name(finalizing.finalizer_name(definition_of(Site), name))


def test_the_finalizer_names_the_kind_and_the_controller() -> None:
    assert finalizing.finalizer_name(definition_of(Site), "sites") == OURS
    assert finalizing.finalizer_name(definition_of(ConfigMap), "configs") == "configmaps.levelset/levelset-configs"


@pytest.mark.parametrize("name", ["", "cleanup", "a/b/c", "/x", "example.dev/", "example.dev/" + "x" * 64])
def test_a_finalizer_that_a_server_would_reject_raises_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError, match="finalizer"):
        finalizing.check_finalizer(name)


async def finalizers(env: ContextEnvironment, obj: Object) -> tuple[str, ...]:
    found: Any = await env.other.find(obj.ref)
    return found.metadata.finalizers if found else ()


@virtual
async def test_a_finalizer_is_added_to_an_object_that_has_none() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await finalizing.add(env.client, blog, OURS)
        assert await finalizers(env, blog) == (OURS,)


@virtual
async def test_a_finalizer_is_added_beside_those_of_others() -> None:
    async with open_environment() as env:
        blog = await env.start(seen(THEIRS))
        await finalizing.add(env.client, blog, OURS)
        assert await finalizers(env, blog) == (THEIRS, OURS)


@virtual
async def test_a_finalizer_that_another_writer_added_meanwhile_is_a_conflict_and_is_not_lost() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.patch(blog.ref, finalizing.add_patch((), THEIRS))
        with pytest.raises(Conflict, match="another writer changed the finalizers"):
            await finalizing.add(env.client, blog, OURS)
        assert await finalizers(env, blog) == (THEIRS,)


@virtual
async def test_no_finalizer_is_added_to_an_object_that_is_being_deleted() -> None:
    async with open_environment() as env:
        blog = await env.start(seen(THEIRS))
        await env.other.delete(blog.ref)
        with pytest.raises(Conflict):
            await finalizing.add(env.client, blog, OURS)
        assert await finalizers(env, blog) == (THEIRS,)


@virtual
async def test_no_finalizer_is_added_to_an_object_that_was_recreated_since() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.delete(blog.ref)
        await env.other.create(site())
        with pytest.raises(Conflict):
            await finalizing.add(env.client, blog, OURS)
        assert await finalizers(env, blog) == ()


@virtual
async def test_adding_to_an_object_that_is_gone_is_not_an_error() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.delete(blog.ref)
        await finalizing.add(env.client, blog, OURS)


@virtual
async def test_an_object_is_removed_with_its_last_finalizer() -> None:
    async with open_environment() as env:
        blog = await env.start(seen(OURS))
        await env.other.delete(blog.ref)
        await finalizing.remove(env.client, await env.other.get(blog.ref), OURS)
        assert await env.other.find(blog.ref) is None


@virtual
async def test_the_finalizers_of_others_stay_when_ours_is_removed() -> None:
    async with open_environment() as env:
        blog = await env.start(seen(THEIRS, OURS))
        await finalizing.remove(env.client, blog, OURS)
        assert await finalizers(env, blog) == (THEIRS,)


@virtual
async def test_removing_is_a_conflict_if_the_finalizers_have_moved() -> None:
    async with open_environment() as env:
        blog = await env.start(seen(THEIRS, OURS))
        await env.other.patch(blog.ref, finalizing.remove_patch((THEIRS, OURS), THEIRS))
        with pytest.raises(Conflict):
            await finalizing.remove(env.client, blog, OURS)
        assert await finalizers(env, blog) == (OURS,)


@virtual
async def test_removing_from_an_object_that_is_gone_is_not_an_error() -> None:
    async with open_environment() as env:
        blog = await env.start(seen(OURS))
        await env.other.delete(blog.ref)
        await finalizing.remove(env.other, blog, OURS)
        await finalizing.remove(env.client, blog, OURS)


@virtual
async def test_two_controllers_remove_their_finalizers_concurrently_and_none_is_lost() -> None:
    async with open_environment() as env:
        blog = await env.start(seen(THEIRS, OURS))
        await env.other.delete(blog.ref)
        marked = await env.other.get(blog.ref)
        await finalizing.remove(env.other, marked, THEIRS)
        with pytest.raises(Conflict):
            await finalizing.remove(env.client, marked, OURS)
        assert await finalizers(env, blog) == (OURS,)
        await finalizing.remove(env.client, await env.other.get(blog.ref), OURS)
        assert await env.other.find(blog.ref) is None


@virtual
async def test_a_rejection_that_is_not_a_failed_test_is_raised_unchanged() -> None:
    async with open_environment() as env:
        blog = await env.start(site())

        async def forbid(*_: object) -> object:
            return fake_response(403, b"{}")

        env.faults.append(forbid)
        with pytest.raises(Forbidden):
            await finalizing.add(env.client, blog, OURS)
