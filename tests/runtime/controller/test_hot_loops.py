"""Hot loops: a controller that is woken by its own writes, and writers that fight, are reported once with the field."""

from typing import Any

import pytest

from levelset.client import MergePatch, OnlyMetadata
from levelset.client.internals import with_settings
from levelset.objects import Ref
from levelset.runtime.controller.hot_loops import HotLoop, HotLoopDetector, differences, managers_of
from levelset.runtime.controller.request import Reason
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.context_environment import ConfigMap, Site, SiteStatus, config, open_environment, site

BLOG = Ref(Site, "blog", "default")


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
            after = tree(number + 1, resourceVersion=str(10 * number + 9))
            assert loops.compare(BLOG, before, after, manager="sites", now=number * 0.1) is None


def test_a_loop_that_another_writer_started_is_a_loop_once_it_continues_by_itself() -> None:
    loops, found = HotLoopDetector(), []
    for number in range(30):
        if loops.record_write(BLOG, is_own=True, now=number * 0.1):
            before = tree(number, resourceVersion=str(number + (1000 if number < 5 else 0)))
            after = tree(number + 1, resourceVersion=str(number + 1))
            found += [one] if (one := loops.compare(BLOG, before, after, manager="sites", now=number * 0.1)) else []
    assert [one.is_fight for one in found] == [False]


def test_a_few_own_writes_are_not_a_loop() -> None:
    assert follow(HotLoopDetector(), 9) == []
    assert follow(HotLoopDetector(), 100, every=10.0) == []


def test_nothing_is_compared_before_an_object_is_written_often() -> None:
    loops = HotLoopDetector()
    assert [loops.record_write(BLOG, is_own=True, now=float(now)) for now in range(4)] == [False, False, True, True]
    assert loops.compare(Ref(Site, "other", "default"), tree(1), tree(2), manager="sites", now=0.0) is None


def test_only_the_latest_objects_are_tracked() -> None:
    loops = HotLoopDetector(most=2)
    for name in "abcabc":
        assert not loops.record_write(Ref(Site, name, "default"), is_own=True, now=0.0)
    assert len(loops) == 2


def test_invalid_limits_raise_a_value_error() -> None:
    wrongs: tuple[dict[str, Any], ...] = ({"fights": 1}, {"writes": 2}, {"within": 0.0}, {"most": 0})
    for wrong in wrongs:
        with pytest.raises(ValueError, match="must be"):
            HotLoopDetector(**wrong)


def test_differences_are_fields_and_server_set_metadata_is_ignored() -> None:
    before = tree(1, resourceVersion="1", labels={"a": "1"}) | {"status": {"list": [1]}}
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
            await env.cluster.get(child.ref, read="consistent")
            await env.context(blog, Reason("related", child.ref)).apply(config(a="ours"), owner=blog)
    assert [(one.ref, one.field, one.managers) for one in found] == [(child.ref, "data.a", ("sites", "meddler"))]


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
async def test_applies_that_change_nothing_are_compared_only_now_and_then() -> None:
    async with open_environment(OnlyMetadata(ConfigMap)) as env:
        blog = await env.start(site())
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        for _ in range(14):
            await env.context(blog).apply(secret, owner=blog)
        assert sum(call.words.startswith("get Secret") for call in env.calls) == 2


@virtual
async def test_objects_that_converge_are_never_read_for_comparison() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        for number in (1, 2):
            blog = await env.context(blog).set_status(blog, SiteStatus(replicas=number))
        assert [call.verb for call in env.calls] == ["patch", "patch"]
