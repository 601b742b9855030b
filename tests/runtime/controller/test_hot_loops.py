"""Hot loops: whoever follows his own writes, and whoever fights, is named once with the field."""

from typing import Any

import pytest

from levelset.client import MergePatch, OnlyMetadata
from levelset.objects import Ref
from levelset.runtime.controller.hot_loops import HotLoop, HotLoops, differences, managers_of
from levelset.runtime.controller.request import Reason
from tests.apiserver.clock import virtual
from tests.runtime.controller.desk import ConfigMap, Site, SiteStatus, config, open_desk, site

BLOG = Ref(Site, "blog", "default")


def tree(replicas: int, *, manager: str = "people", **metadata: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"manager": manager, "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    return {"metadata": {"name": "blog", "managedFields": [entry], **metadata}, "spec": {"replicas": replicas}}


def fight(loops: HotLoops, times: int, *, every: float = 1.0) -> list[HotLoop]:
    """Somebody sets the replicas to 1, and the controller sets them to 3."""
    found: list[HotLoop] = []
    for number in range(times):
        now = number * every
        if loops.note(BLOG, is_own=True, now=now):
            one = loops.compare(BLOG, tree(1), tree(3, manager="sites"), manager="sites", now=now)
            found += [one] if one else []
    return found


def test_two_who_undo_each_others_work_are_named_with_the_field() -> None:
    (found,) = fight(HotLoops(), 10)
    assert (found.field, found.managers, found.is_fight) == ("spec.replicas", ("sites", "people"), True)
    assert str(found).startswith("Website/default/blog: spec.replicas was written 4 times")
    assert "put back by people" in str(found)


def test_a_fight_is_reported_once() -> None:
    assert len(fight(HotLoops(), 100)) == 1


def test_an_object_that_was_forgotten_may_be_reported_again() -> None:
    loops = HotLoops()
    fight(loops, 10)
    loops.forget(BLOG)
    assert len(fight(loops, 10)) == 1


def test_who_corrects_a_field_now_and_then_does_not_fight() -> None:
    assert fight(HotLoops(within=60.0), 100, every=30.0) == []


def follow(loops: HotLoops, times: int, *, is_own: bool = True, every: float = 1.0) -> list[HotLoop]:
    """The controller counts up, and each count wakes it."""
    found: list[HotLoop] = []
    for number in range(times):
        now = number * every
        if loops.note(BLOG, is_own=is_own, now=now):
            one = loops.compare(BLOG, tree(number), tree(number + 1), manager="people", now=now)
            found += [one] if one else []
    return found


def test_a_controller_that_its_own_writes_wake_is_named_with_the_field() -> None:
    (found,) = follow(HotLoops(), 30)
    assert (found.field, found.managers, found.is_fight) == ("spec.replicas", ("people",), False)
    assert "its own writes wake" in str(found)


def test_writes_that_something_else_causes_are_no_loop() -> None:
    assert follow(HotLoops(), 100, is_own=False) == []


def test_writes_that_answer_those_of_somebody_else_are_no_loop() -> None:
    """Its size is changed again and again, and each time the controller tells how far it is."""
    loops = HotLoops()
    for number in range(100):
        if loops.note(BLOG, is_own=True, now=number * 0.1):
            before = tree(number, resourceVersion=str(10 * number + 5))  # somebody wrote since
            after = tree(number + 1, resourceVersion=str(10 * number + 9))
            assert loops.compare(BLOG, before, after, manager="sites", now=number * 0.1) is None


def test_a_loop_that_somebody_else_began_is_a_loop_when_it_goes_on_by_itself() -> None:
    loops, found = HotLoops(), []
    for number in range(30):
        if loops.note(BLOG, is_own=True, now=number * 0.1):
            before = tree(number, resourceVersion=str(number + (1000 if number < 5 else 0)))
            after = tree(number + 1, resourceVersion=str(number + 1))
            found += [one] if (one := loops.compare(BLOG, before, after, manager="sites", now=number * 0.1)) else []
    assert [one.is_fight for one in found] == [False]


def test_a_few_own_writes_are_no_loop() -> None:
    assert follow(HotLoops(), 9) == []
    assert follow(HotLoops(), 100, every=10.0) == []


def test_nothing_is_compared_before_an_object_is_written_often() -> None:
    loops = HotLoops()
    assert [loops.note(BLOG, is_own=True, now=float(now)) for now in range(4)] == [False, False, True, True]
    assert loops.compare(Ref(Site, "other", "default"), tree(1), tree(2), manager="sites", now=0.0) is None


def test_of_many_objects_only_the_latest_are_remembered() -> None:
    loops = HotLoops(most=2)
    for name in "abcabc":
        assert not loops.note(Ref(Site, name, "default"), is_own=True, now=0.0)
    assert len(loops) == 2


def test_limits_that_make_no_sense_are_refused() -> None:
    wrongs: tuple[dict[str, Any], ...] = ({"fights": 1}, {"writes": 2}, {"within": 0.0}, {"most": 0})
    for wrong in wrongs:
        with pytest.raises(ValueError, match="must be"):
            HotLoops(**wrong)


def test_the_differences_of_two_objects_are_fields_and_what_the_server_writes_is_none() -> None:
    before = tree(1, resourceVersion="1", labels={"a": "1"}) | {"status": {"list": [1]}}
    after = tree(2, resourceVersion="2", labels={"b": "1"}) | {"status": {"list": [1, 2]}}
    assert list(differences(before, after)) == [
        (("metadata", "labels", "a"), "1", None),
        (("metadata", "labels", "b"), None, "1"),
        (("spec", "replicas"), 1, 2),
        (("status", "list"), [1], [1, 2]),
    ]


def test_only_so_many_differences_are_looked_at() -> None:
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
def test_who_owns_a_field_is_read_from_the_managed_fields(fields: Any, owns: bool) -> None:
    obj: Any = {"metadata": {"managedFields": [{"manager": "people", "fieldsV1": fields}, "odd", {"fieldsV1": fields}]}}
    assert managers_of(obj, ("spec", "replicas")) == (["people"] if owns else [])


@pytest.mark.parametrize("odd", [None, [], {}, {"metadata": None}, {"metadata": {"managedFields": {}}}])
def test_an_object_without_managed_fields_has_no_owners(odd: Any) -> None:
    assert managers_of(odd, ("spec",)) == []


@virtual
async def test_a_context_reports_a_fight_over_a_child_with_the_other_managers_name() -> None:
    found: list[HotLoop] = []
    async with open_desk(on_hot_loop=found.append) as desk:
        blog = await desk.start(site())
        child = await desk.context(blog).apply(config(a="ours"), owner=blog)
        meddler = desk.other.using(manager="meddler")
        for _ in range(8):
            await meddler.patch(child.ref, MergePatch({"data": {"a": "theirs"}}))
            await desk.cluster.get(child.ref, read="consistent")
            await desk.context(blog, Reason("related", child.ref)).apply(config(a="ours"), owner=blog)
    assert [(one.ref, one.field, one.managers) for one in found] == [(child.ref, "data.a", ("sites", "meddler"))]


@virtual
async def test_a_context_reports_a_status_that_wakes_its_own_controller() -> None:
    found: list[HotLoop] = []
    async with open_desk(on_hot_loop=found.append) as desk:
        blog = await desk.start(site())
        for number in range(1, 20):
            ctx = desk.context(blog, Reason("changed"))
            blog = await ctx.set_status(blog, SiteStatus(replicas=number))
    assert [(one.field, one.managers, one.is_fight) for one in found] == [("status.replicas", ("sites",), False)]


@virtual
async def test_writes_that_answer_changes_of_what_others_write_are_no_loop() -> None:
    found: list[HotLoop] = []
    async with open_desk(on_hot_loop=found.append) as desk:
        blog = await desk.start(site())
        pod = Reason("related", Ref(Site, "another", "default"))
        for number in range(1, 20):  # its own last change has come with that of the other
            ctx = desk.context(blog, Reason("changed"), pod)
            blog = await ctx.set_status(blog, SiteStatus(replicas=number))
    assert found == []


@virtual
async def test_who_is_told_of_a_loop_and_fails_does_not_harm_the_look(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: HotLoop) -> None:
        raise ValueError("too much")

    async with open_desk(on_hot_loop=fail) as desk:
        blog = await desk.start(site())
        for number in range(1, 20):
            blog = await desk.context(blog, Reason("changed")).set_status(blog, SiteStatus(replicas=number))
        assert blog.status == SiteStatus(replicas=19)
    assert "has failed" in caplog.text


@virtual
async def test_an_apply_that_changes_nothing_is_looked_at_now_and_then_only() -> None:
    async with open_desk(OnlyMetadata(ConfigMap)) as desk:
        blog = await desk.start(site())
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        for _ in range(14):
            await desk.context(blog).apply(secret, owner=blog)
        assert sum(call.words.startswith("get Secret") for call in desk.calls) == 2


@virtual
async def test_objects_that_come_to_rest_are_never_read_for_comparison() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        for number in (1, 2):
            blog = await desk.context(blog).set_status(blog, SiteStatus(replicas=number))
        assert [call.verb for call in desk.calls] == ["patch", "patch"]
