"""Hot loops: a controller that is woken by its own writes, and writers that fight, are reported once with the field."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from levelset.aio import timing
from levelset.client import Call, MergePatch, OnlyMetadata
from levelset.client.internals import with_settings
from levelset.errors import ApplyConflict
from levelset.objects import GroupVersionKind, Ref
from levelset.runtime.controller import Context, Controller
from levelset.runtime.controller.hot_loops import HotLoop, HotLoopDetector, differences, managers_of
from levelset.runtime.controller.request import Reason
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.context_environment import (
    ConfigMap,
    ContextEnvironment,
    Site,
    SiteStatus,
    config,
    open_environment,
    site,
)
from tests.runtime.controller.controller_loop import Web, WebStatus, open_loop, web, web_ref

BLOG = Ref(Site, "blog", "default")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def tree(replicas: int, *, manager: str = "people", **metadata: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"manager": manager, "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    return {"metadata": {"name": "blog", "managedFields": [entry], **metadata}, "spec": {"replicas": replicas}}


def fight(loops: HotLoopDetector, times: int, *, every: float = 1.0) -> list[HotLoop]:
    """A user sets the replicas to 1, and the controller sets them to 3."""
    found: list[HotLoop] = []
    for number in range(times):
        now = number * every
        if loops.record_write(BLOG, is_own=True, now=now):
            one = loops.compare(BLOG, tree(1), tree(3, manager="sites"), manager="sites", now=now)
            found += [one] if one else []
    return found


def test_two_writers_that_fight_are_reported_with_the_field() -> None:
    (found,) = fight(HotLoopDetector(), 10)
    assert (found.field, found.managers, found.is_fight) == ("spec.replicas", ("sites", "people"), True)
    assert str(found).startswith("Website/default/blog: spec.replicas was written 4 times")
    assert "reverted each time by people" in str(found)


def test_a_fight_is_reported_once() -> None:
    assert len(fight(HotLoopDetector(), 100)) == 1


def test_an_object_that_was_forgotten_may_be_reported_again() -> None:
    loops = HotLoopDetector()
    fight(loops, 10)
    loops.forget(BLOG)
    assert len(fight(loops, 10)) == 1


def test_correcting_a_field_now_and_then_is_not_a_fight() -> None:
    assert fight(HotLoopDetector(within=60.0), 100, every=30.0) == []


def follow(loops: HotLoopDetector, times: int, *, is_own: bool = True, every: float = 1.0) -> list[HotLoop]:
    """The controller counts up, and each count wakes it."""
    found: list[HotLoop] = []
    for number in range(times):
        now = number * every
        if loops.record_write(BLOG, is_own=is_own, now=now):
            one = loops.compare(BLOG, tree(number), tree(number + 1), manager="people", now=now)
            found += [one] if one else []
    return found


def test_a_controller_that_is_woken_by_its_own_writes_is_reported_with_the_field() -> None:
    (found,) = follow(HotLoopDetector(), 30)
    assert (found.field, found.managers, found.is_fight) == ("spec.replicas", ("people",), False)
    assert "is woken by its own writes" in str(found)


def test_writes_with_another_cause_are_not_a_loop() -> None:
    assert follow(HotLoopDetector(), 100, is_own=False) == []


def test_writes_in_response_to_another_writer_are_not_a_loop() -> None:
    """The spec is changed over and over, and each time the controller writes the status."""
    loops = HotLoopDetector()
    for number in range(100):
        if loops.record_write(BLOG, is_own=True, now=number * 0.1):
            before = tree(number, resourceVersion=str(10 * number + 5))  # another writer wrote since
            after = tree(number + 1, manager="sites", resourceVersion=str(10 * number + 9))
            assert loops.compare(BLOG, before, after, manager="sites", now=number * 0.1) is None


def test_a_loop_that_another_writer_started_is_a_loop_once_it_continues_by_itself() -> None:
    loops, found = HotLoopDetector(), []
    for number in range(30):
        if loops.record_write(BLOG, is_own=True, now=number * 0.1):
            before = tree(number, resourceVersion=str(number + (1000 if number < 5 else 0)))
            after = tree(number + 1, manager="sites", resourceVersion=str(number + 1))
            found += [one] if (one := loops.compare(BLOG, before, after, manager="sites", now=number * 0.1)) else []
    assert [one.is_fight for one in found] == [False]


def test_a_few_own_writes_are_not_a_loop() -> None:
    assert follow(HotLoopDetector(), 9) == []
    assert follow(HotLoopDetector(), 100, every=10.0) == []


def test_nothing_is_compared_before_an_object_is_written_often() -> None:
    loops = HotLoopDetector()
    assert [loops.record_write(BLOG, is_own=True, now=float(now)) for now in range(4)] == [False, False, True, True]
    assert loops.compare(Ref(Site, "other", "default"), tree(1), tree(2), manager="sites", now=0.0) is None


def compare_all(loops: HotLoopDetector, *pairs: tuple[dict[str, Any] | None, dict[str, Any]]) -> list[HotLoop]:
    """The hot loops in writes of `sites` from one object to another, one each second, after two that do not count."""
    found: list[HotLoop] = []
    for now, (before, after) in enumerate(((None, {}), (None, {}), *pairs)):
        if loops.record_write(BLOG, is_own=False, now=float(now)):
            one = loops.compare(BLOG, before, after, manager="sites", now=float(now))
            found += [one] if one else []
    return found


def flip(number: int, *, last: str = "sites") -> tuple[dict[str, Any], dict[str, Any]]:
    """A write that sets the replicas from 1 to 3 after another writer did the opposite; `last` manages them then."""
    before, after = str(20 + 2 * number), str(21 + 2 * number)
    return tree(1, resourceVersion=before), tree(3, manager=last, resourceVersion=after)


def test_a_fight_is_a_field_that_changes_four_times_in_the_same_way() -> None:
    assert compare_all(HotLoopDetector(), *map(flip, range(3))) == []
    (found,) = compare_all(HotLoopDetector(), *map(flip, range(4)))
    assert (found.times, found.seconds) == (4, 3.0)


def test_a_field_that_another_writer_changed_since_the_cache_is_not_counted() -> None:
    assert compare_all(HotLoopDetector(), *(flip(number, last="people") for number in range(20))) == []


@pytest.mark.parametrize("spec", [{}, {"replicas": 3}], ids=["removed", "without managed fields"])
def test_a_field_without_owners_in_the_response_is_counted(spec: dict[str, int]) -> None:
    pairs = [(before, {"metadata": {"name": "blog"}, "spec": spec}) for before, _ in map(flip, range(4))]
    assert [one.field for one in compare_all(HotLoopDetector(), *pairs)] == ["spec.replicas"]


@pytest.mark.parametrize("before", [None, tree(1, resourceVersion="24")])
def test_a_write_that_cannot_be_compared_interrupts_a_fight(before: dict[str, Any] | None) -> None:
    """Unknown before the write, or older than the write before it: that write may have changed the field itself."""
    hidden = before, tree(1, manager="sites", resourceVersion="26")
    assert compare_all(HotLoopDetector(), *map(flip, range(3)), hidden, *map(flip, range(3, 6))) == []
    assert len(compare_all(HotLoopDetector(), *map(flip, range(3)), hidden, *map(flip, range(3, 7)))) == 1


def test_a_write_that_cannot_be_compared_is_no_write_of_another_writer() -> None:
    """Every reconcile writes twice, and the cache does not show the first write before the second is sent."""
    loops, found = HotLoopDetector(), []
    for number in range(30):
        version = number - number % 2  # the cache shows the second write of the last reconcile
        if loops.record_write(BLOG, is_own=True, now=number * 0.1):
            before = tree(number, resourceVersion=str(100 + version))
            after = tree(number + 1, manager="sites", resourceVersion=str(101 + number))
            found += [one] if (one := loops.compare(BLOG, before, after, manager="sites", now=number * 0.1)) else []
    assert [(one.field, one.is_fight) for one in found] == [("spec.replicas", False)]


def test_the_other_managers_of_a_fight_are_missing_just_before_it_is_reported() -> None:
    loops, lacking = HotLoopDetector(), list[bool]()
    assert not loops.lacks_managers(BLOG)
    for number in range(6):
        before, after = flip(number)
        before["metadata"].pop("managedFields")
        loops.record_write(BLOG, is_own=False, now=float(number))
        lacking.append(loops.lacks_managers(BLOG))
        if lacking[-1]:
            loops.name_managers(BLOG, ["people", "robots", "people"])
        found = loops.compare(BLOG, before, after, manager="sites", now=float(number))
        assert found is None or found.managers == ("sites", "people", "robots")
    assert lacking == [False, False, False, True, False, False]


def test_the_other_managers_of_a_fight_are_not_missing_if_the_managed_fields_name_them() -> None:
    loops = HotLoopDetector()
    compare_all(loops, *map(flip, range(3)))
    assert not loops.lacks_managers(BLOG)


def test_the_other_managers_of_a_fight_are_no_longer_missing_once_it_is_reported() -> None:
    loops = HotLoopDetector()
    pairs = [({"spec": before["spec"]}, {"spec": after["spec"]}) for before, after in map(flip, range(4))]
    (found,) = compare_all(loops, *pairs)
    assert found.managers == ("sites",)
    assert "reverted each time by an unnamed writer" in str(found)
    assert not loops.lacks_managers(BLOG)


def test_a_controller_that_shares_a_field_is_named_once() -> None:
    pairs = [(tree(1, manager="sites"), after) for _, after in map(flip, range(4))]
    assert [one.managers for one in compare_all(HotLoopDetector(), *pairs)] == [("sites",)]


def test_own_writes_that_each_change_another_field_are_not_a_loop() -> None:
    loops = HotLoopDetector()
    for number in range(20):
        if loops.record_write(BLOG, is_own=True, now=number * 0.1):
            assert loops.compare(BLOG, {}, {f"f{number}": 1}, manager="sites", now=number * 0.1) is None


def test_only_the_latest_objects_are_tracked() -> None:
    loops = HotLoopDetector(most=2)
    for name in "abcabc":
        assert not loops.record_write(Ref(Site, name, "default"), is_own=True, now=0.0)
    assert len(loops) == 2


def test_objects_that_are_no_longer_written_are_forgotten() -> None:
    loops = HotLoopDetector(within=60.0)
    for number in range(1_000):
        loops.record_write(Ref(Site, f"s{number}", "default"), is_own=True, now=float(number))
    assert len(loops) == 61
    for number in range(61):
        loops.record_write(Ref(Site, f"t{number}", "default"), is_own=True, now=5_000.0)
    assert len(loops) == 61
    assert Ref(Site, "t0", "default") in loops


def test_invalid_limits_raise_a_value_error() -> None:
    wrongs: tuple[dict[str, Any], ...] = ({"fights": 1}, {"writes": 2}, {"within": 0.0}, {"most": 0})
    for wrong in wrongs:
        with pytest.raises(ValueError, match="must be"):
            HotLoopDetector(**wrong)


def test_differences_are_fields_and_what_only_the_server_sets_is_ignored() -> None:
    before = tree(1, resourceVersion="1", labels={"a": "1"}) | {"status": {"list": [1]}, "kind": "Site"}
    after = tree(2, resourceVersion="2", labels={"b": "1"}) | {"status": {"list": [1, 2]}}
    assert list(differences(before, after)) == [
        (("metadata", "labels", "a"), "1", None),
        (("metadata", "labels", "b"), None, "1"),
        (("spec", "replicas"), 1, 2),
        (("status", "list"), [1], [1, 2]),
    ]


def test_the_number_of_compared_differences_is_bounded() -> None:
    assert len(list(differences({}, {str(number): number for number in range(1000)}))) == 50


@pytest.mark.parametrize(
    ("fields", "owns"),
    [
        ({"f:spec": {"f:replicas": {}}}, True),
        ({"f:spec": {"f:image": {}}}, False),
        ({"f:spec": {}}, False),
        ({}, False),
        (None, False),
        ("odd", False),
        ({"f:spec": {"f:replicas": {"f:inside": {}}}}, True),
    ],
)
def test_the_owners_of_a_field_are_read_from_the_managed_fields(fields: Any, owns: bool) -> None:
    obj: Any = {"metadata": {"managedFields": [{"manager": "people", "fieldsV1": fields}, "odd", {"fieldsV1": fields}]}}
    assert managers_of(obj, ("spec", "replicas")) == (["people"] if owns else [])


@pytest.mark.parametrize("odd", [None, [], {}, {"metadata": None}, {"metadata": {"managedFields": {}}}])
def test_an_object_without_managed_fields_has_no_owners(odd: Any) -> None:
    assert managers_of(odd, ("spec",)) == []


@virtual
async def test_a_context_reports_a_fight_over_a_child_with_the_other_managers_name() -> None:
    found: list[HotLoop] = []
    async with open_environment(on_hot_loop=found.append) as env:
        blog = await env.start(site())
        child = await env.context(blog).apply(config(a="ours"), owner=blog)
        meddler = with_settings(env.other, manager="meddler")
        for _ in range(8):
            await meddler.patch(child.ref, MergePatch({"data": {"a": "theirs"}}))
            await until_cached(env, child.ref)
            made = await env.context(blog, Reason("related", child.ref)).apply(config(a="ours"), owner=blog)
            assert made.data == {"a": "ours"}
    assert [(one.ref, one.field, one.managers) for one in found] == [(child.ref, "data.a", ("sites", "meddler"))]
    # One of them conflicts, which names the other manager.
    assert ["force=true" in call.query for call in env.writes] == [True] * 5 + [False] + [True] * 4
    assert gets(env.calls) == []


async def until_cached(env: ContextEnvironment, ref: Ref[Any]) -> None:
    """Returns when the cache has what the API server has."""
    newest = await env.other.get(ref)
    while (cached := env.dependencies.cache_lookup.cached(ref)) is None or (
        cached.resource_version != newest.metadata.resource_version
    ):
        await timing.sleep(0.001)


def gets(calls: Iterable[Call]) -> list[str]:
    return [call.words for call in calls if call.words.startswith("get ")]


@pytest.mark.parametrize(("managed_fields", "managers"), [(False, ("sites",)), (True, ("sites", "meddler"))])
@virtual
async def test_a_fight_over_a_patched_field_names_the_other_manager_if_the_cache_has_managed_fields(
    managed_fields: bool, managers: tuple[str, ...]
) -> None:
    found: list[HotLoop] = []
    async with open_environment(OnlyMetadata(ConfigMap), on_hot_loop=found.append) as env:
        env.cluster.declare(ConfigMap, managed_fields=managed_fields)
        blog = await env.start(site())
        child = await env.other.create(config(namespace="default", a="first"))
        meddler = with_settings(env.other, manager="meddler")
        for _ in range(8):
            await meddler.patch(child.ref, MergePatch({"data": {"a": "theirs"}}))
            await until_cached(env, child.ref)
            await env.context(blog, Reason("related", child.ref)).patch(child.ref, MergePatch({"data": {"a": "ours"}}))
    assert [(one.ref, one.field, one.managers) for one in found] == [(child.ref, "data.a", managers)]
    assert gets(env.calls) == []


@virtual
async def test_the_status_written_after_each_change_by_another_client_takes_no_read_and_is_no_loop() -> None:
    found: list[HotLoop] = []

    async def reconcile(site: Web, ctx: Context) -> None:
        await ctx.set_status(site, WebStatus(seen=int(site.spec.image)))

    async with open_loop() as loop:
        await loop.other.create(web(image="0"))
        async with loop.run(Controller(Web, reconcile), on_hot_loop=found.append) as started:
            loop.calls.clear()
            for number in range(1, 32):
                await loop.other.patch(web_ref(), MergePatch({"spec": {"image": str(number)}}))
                await loop.settle(started)
                assert (await loop.other.get(web_ref())).status == WebStatus(seen=number)
        assert [call.verb for call in loop.calls if call.verb != "watch"] == ["patch"] * 31
    assert found == []


@virtual
async def test_a_status_that_two_patches_set_and_reset_after_each_change_is_no_fight() -> None:
    found: list[HotLoop] = []
    async with open_environment(on_hot_loop=found.append) as env:
        blog = await env.start(site())
        for number in range(10):
            await env.other.patch(blog.ref, MergePatch({"spec": {"replicas": number + 10}}))
            await until_cached(env, blog.ref)
            ctx = env.context(blog, Reason("changed"))
            for phase in ("Working", "Ready"):
                await ctx.patch(blog.ref, MergePatch({"status": {"phase": phase}}), subresource="status")
            await until_cached(env, blog.ref)
    assert found == []


@virtual
async def test_the_scale_of_an_object_is_not_compared_with_the_object() -> None:
    found: list[HotLoop] = []
    async with open_environment(on_hot_loop=found.append) as env:
        blog = await env.start(site())
        for number in range(10):
            ctx = env.context(blog, Reason("changed"))
            await ctx.patch(blog.ref, MergePatch({"spec": {"replicas": number + 10}}), subresource="scale")
            await until_cached(env, blog.ref)
    assert found == []


@virtual
async def test_an_apply_without_force_stays_without_it_in_a_fight() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        child = await env.context(blog).apply(config(a="ours"), owner=blog)
        meddler = with_settings(env.other, manager="meddler")
        for force in (True, True, True, True, False):
            await meddler.patch(child.ref, MergePatch({"data": {"a": "theirs"}}))
            await until_cached(env, child.ref)
            if force:
                await env.context(blog).apply(config(a="ours"), owner=blog)
        assert env.dependencies.hot_loops.lacks_managers(child.ref)
        with pytest.raises(ApplyConflict):
            await env.context(blog).apply(config(a="ours"), owner=blog, force=False)
        assert (await env.other.get(child.ref)).data == {"a": "theirs"}


@virtual
async def test_a_deletion_is_not_counted() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        for _ in range(5):
            await env.context(blog, Reason("changed")).delete(blog.ref)
        assert blog.ref not in env.dependencies.hot_loops


@virtual
async def test_the_second_of_two_versioned_writes_is_compared_with_the_result_of_the_first() -> None:
    found: list[HotLoop] = []
    statuses = [SiteStatus(phase="a"), SiteStatus(replicas=1), SiteStatus(checked=NOON), SiteStatus()]
    async with open_environment(on_hot_loop=found.append) as env:
        blog = await env.start(site())
        for number in range(10):
            ctx = env.context(blog, Reason("changed"))
            await ctx.set_status(blog, statuses[number % 4])
            blog = await ctx.save(blog.with_spec(replicas=number + 2))
    assert [(one.field, one.is_fight) for one in found] == [("spec.replicas", False)]


@virtual
async def test_an_untyped_object_that_is_written_over_and_over_is_compared_with_the_cache() -> None:
    found: list[HotLoop] = []
    async with open_environment(on_hot_loop=found.append) as env:
        blog = await env.start(site())
        for number in range(1, 20):
            untyped = await env.cluster.get(GroupVersionKind("example.dev", "v1", "Website"), "blog")
            await env.context(blog, Reason("changed")).set_status(untyped, {"replicas": number})
    assert [(one.field, one.managers, one.is_fight) for one in found] == [("status.replicas", ("sites",), False)]
    assert gets(env.calls) == []


@virtual
async def test_an_object_that_is_updated_over_and_over_is_reported() -> None:
    found: list[HotLoop] = []
    async with open_environment(on_hot_loop=found.append) as env:
        blog = await env.start(site())
        for number in range(2, 20):
            blog = await env.context(blog, Reason("changed")).update(blog.with_spec(replicas=number))
    assert [(one.field, one.is_fight) for one in found] == [("spec.replicas", False)]


@virtual
async def test_a_context_reports_a_status_that_wakes_its_own_controller() -> None:
    found: list[HotLoop] = []
    async with open_environment(on_hot_loop=found.append) as env:
        blog = await env.start(site())
        for number in range(1, 20):
            ctx = env.context(blog, Reason("changed"))
            blog = await ctx.set_status(blog, SiteStatus(replicas=number))
    assert [(one.field, one.managers, one.is_fight) for one in found] == [("status.replicas", ("sites",), False)]


@virtual
async def test_writes_in_response_to_changes_of_other_objects_are_not_a_loop() -> None:
    found: list[HotLoop] = []
    async with open_environment(on_hot_loop=found.append) as env:
        blog = await env.start(site())
        pod = Reason("related", Ref(Site, "another", "default"))
        for number in range(1, 20):  # its own last change arrived together with that of the other writer
            ctx = env.context(blog, Reason("changed"), pod)
            blog = await ctx.set_status(blog, SiteStatus(replicas=number))
    assert found == []


@virtual
async def test_a_failing_hot_loop_handler_does_not_fail_the_reconcile(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: HotLoop) -> None:
        raise ValueError("too much")

    async with open_environment(on_hot_loop=fail) as env:
        blog = await env.start(site())
        for number in range(1, 20):
            blog = await env.context(blog, Reason("changed")).set_status(blog, SiteStatus(replicas=number))
        assert blog.status == SiteStatus(replicas=19)
    assert "the hot loop handler failed" in caplog.text


@virtual
async def test_objects_of_a_kind_that_is_not_cached_are_not_read_for_comparison() -> None:
    found: list[HotLoop] = []
    async with open_environment(OnlyMetadata(ConfigMap), on_hot_loop=found.append) as env:
        blog = await env.start(site())
        for number in range(14):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": str(number)}}
            await env.context(blog).apply(secret, owner=blog)
        assert [call.verb for call in env.calls if "secrets" in call.path] == ["patch"] * 14
    assert found == []
