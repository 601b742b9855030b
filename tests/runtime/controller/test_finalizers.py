"""The finalizer's protocol: F1 to F8 of kube-rs, and what holds beyond it."""

from typing import Any

import pytest

from levelset.client import JsonPatch
from levelset.errors import ConfigError, Conflict, Forbidden
from levelset.objects import Object, definition_of, parse_time
from levelset.objects.names import is_qualified_name
from levelset.runtime.controller import finalizers as finalizing
from tests.apiserver.clock import virtual
from tests.client.world import answering
from tests.runtime.controller.desk import ConfigMap, Desk, Site, open_desk, site

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
    assert finalizing.adding((), OURS) == JsonPatch(
        [
            {"op": "test", "path": "/metadata/finalizers", "value": None},
            {"op": "add", "path": "/metadata/finalizers", "value": [OURS]},
        ]
    )


def test_a_further_finalizer_is_added_only_to_those_that_were_seen() -> None:
    assert finalizing.adding((THEIRS,), OURS) == JsonPatch(
        [
            {"op": "test", "path": "/metadata/finalizers", "value": [THEIRS]},
            {"op": "add", "path": "/metadata/finalizers/-", "value": OURS},
        ]
    )


def test_our_finalizer_is_taken_off_only_from_where_it_was_seen() -> None:
    assert finalizing.removing((THEIRS, OURS), OURS) == JsonPatch(
        [
            {"op": "test", "path": "/metadata/finalizers/1", "value": OURS},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]
    )


def test_a_finalizer_that_is_there_twice_is_taken_off_twice_from_the_back() -> None:
    places = [
        one["path"] for one in finalizing.removing((OURS, THEIRS, OURS), OURS).operations if one["op"] == "remove"
    ]
    assert places == ["/metadata/finalizers/2", "/metadata/finalizers/0"]


def test_there_is_nothing_to_take_off_where_our_finalizer_is_not() -> None:
    assert finalizing.removing((THEIRS,), OURS).is_empty


@pytest.mark.parametrize("name", ["sites", "a b/c", "ü", "x" * 200, "sites-"])
def test_the_finalizer_of_any_controller_is_a_qualified_name(name: str) -> None:
    assert is_qualified_name(finalizing.finalizer_name(definition_of(Site), name))


def test_the_finalizer_names_the_kind_and_the_controller() -> None:
    assert finalizing.finalizer_name(definition_of(Site), "sites") == OURS
    assert finalizing.finalizer_name(definition_of(ConfigMap), "configs") == "configmaps.levelset/levelset-configs"


@pytest.mark.parametrize("name", ["", "cleanup", "a/b/c", "/x", "example.dev/", "example.dev/" + "x" * 64])
def test_a_finalizer_that_a_server_would_refuse_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigError, match="finalizer"):
        finalizing.check_finalizer(name)


async def finalizers(desk: Desk, obj: Object) -> tuple[str, ...]:
    found: Any = await desk.other.find(obj.ref)
    return found.metadata.finalizers if found else ()


@virtual
async def test_a_server_takes_a_finalizer_for_an_object_that_has_none() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await finalizing.add(desk.client, blog, OURS)
        assert await finalizers(desk, blog) == (OURS,)


@virtual
async def test_a_server_takes_a_finalizer_beside_those_of_others() -> None:
    async with open_desk() as desk:
        blog = await desk.start(seen(THEIRS))
        await finalizing.add(desk.client, blog, OURS)
        assert await finalizers(desk, blog) == (THEIRS, OURS)


@virtual
async def test_a_finalizer_that_somebody_added_meanwhile_is_a_conflict_and_is_not_lost() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await desk.other.patch(blog.ref, finalizing.adding((), THEIRS))
        with pytest.raises(Conflict, match="somebody else"):
            await finalizing.add(desk.client, blog, OURS)
        assert await finalizers(desk, blog) == (THEIRS,)


@virtual
async def test_no_finalizer_is_added_to_an_object_that_is_being_deleted() -> None:
    async with open_desk() as desk:
        blog = await desk.start(seen(THEIRS))
        await desk.other.delete(blog.ref)
        with pytest.raises(Conflict):
            await finalizing.add(desk.client, blog, OURS)
        assert await finalizers(desk, blog) == (THEIRS,)


@virtual
async def test_no_finalizer_is_added_to_a_namesake_that_was_made_since() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await desk.other.delete(blog.ref)
        await desk.other.create(site())
        with pytest.raises(Conflict):
            await finalizing.add(desk.client, blog, OURS)
        assert await finalizers(desk, blog) == ()


@virtual
async def test_adding_to_an_object_that_is_gone_is_no_error() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await desk.other.delete(blog.ref)
        await finalizing.add(desk.client, blog, OURS)


@virtual
async def test_an_object_goes_when_its_last_finalizer_is_taken_off() -> None:
    async with open_desk() as desk:
        blog = await desk.start(seen(OURS))
        await desk.other.delete(blog.ref)
        await finalizing.remove(desk.client, await desk.other.get(blog.ref), OURS)
        assert await desk.other.find(blog.ref) is None


@virtual
async def test_the_finalizers_of_others_stay_when_ours_is_taken_off() -> None:
    async with open_desk() as desk:
        blog = await desk.start(seen(THEIRS, OURS))
        await finalizing.remove(desk.client, blog, OURS)
        assert await finalizers(desk, blog) == (THEIRS,)


@virtual
async def test_taking_off_is_a_conflict_when_the_finalizers_have_moved() -> None:
    async with open_desk() as desk:
        blog = await desk.start(seen(THEIRS, OURS))
        await desk.other.patch(blog.ref, finalizing.removing((THEIRS, OURS), THEIRS))
        with pytest.raises(Conflict):
            await finalizing.remove(desk.client, blog, OURS)
        assert await finalizers(desk, blog) == (OURS,)


@virtual
async def test_taking_off_from_an_object_that_is_gone_is_no_error() -> None:
    async with open_desk() as desk:
        blog = await desk.start(seen(OURS))
        await desk.other.delete(blog.ref)
        await finalizing.remove(desk.other, blog, OURS)
        await finalizing.remove(desk.client, blog, OURS)


@virtual
async def test_two_controllers_take_their_finalizers_off_at_the_same_time_and_none_is_lost() -> None:
    async with open_desk() as desk:
        blog = await desk.start(seen(THEIRS, OURS))
        await desk.other.delete(blog.ref)
        marked = await desk.other.get(blog.ref)
        await finalizing.remove(desk.other, marked, THEIRS)
        with pytest.raises(Conflict):
            await finalizing.remove(desk.client, marked, OURS)
        assert await finalizers(desk, blog) == (OURS,)
        await finalizing.remove(desk.client, await desk.other.get(blog.ref), OURS)
        assert await desk.other.find(blog.ref) is None


@virtual
async def test_a_refusal_that_is_no_failed_test_is_told_as_it_is() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())

        async def forbid(*_: object) -> object:
            return answering(403, b"{}")

        desk.faults.append(forbid)
        with pytest.raises(Forbidden):
            await finalizing.add(desk.client, blog, OURS)
