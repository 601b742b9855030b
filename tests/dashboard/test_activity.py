"""What the dashboard remembers: versions, writes of reconciles, and metrics of the last hour, all bounded."""

import asyncio
import json
from typing import Any

from levelset import Context, Controller, ObjectMeta, requeue
from levelset.dashboard import Dashboard, DashboardSource
from levelset.dashboard.metrics_history import ControllerSample, MetricsHistory, Sample, estimated, is_growing
from levelset.dashboard.object_versions import ObjectVersions, Version, changed_fields, unified_diff
from levelset.kinds.core_v1 import ConfigMap
from levelset.objects import GroupVersionKind
from levelset.runtime.controller.reconcile_history import collapse_repeats
from levelset.runtime.manager import Manager
from levelset.testing.virtual_time import virtual
from tests.dashboard.fixtures import TOKEN, get, open_client, send, tree

MAPS = GroupVersionKind("", "v1", "ConfigMap")


def version(number: int, **more: Any) -> Version:
    object_ = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": str(number)}}
    return Version(str(number), float(number), json.dumps({**object_, **more}).encode())


def test_versions_are_bounded_for_each_object_and_in_all() -> None:
    size = len(version(1).raw)
    versions = ObjectVersions(most_bytes=5 * size, most_per_object=3)
    for number in range(1, 5):
        versions.add((MAPS, "default", "a"), version(number))
        versions.add((MAPS, "default", "a"), version(number))  # the same again
    assert [one.resource_version for one in versions.of((MAPS, "default", "a"))] == ["2", "3", "4"]
    for number in range(5, 8):
        versions.add((MAPS, "default", "b"), version(number))
    assert versions.of((MAPS, "default", "a")) == ()
    assert (len(versions), versions.size) == (1, 3 * size)
    before = versions.before((MAPS, "default", "b"), "6")
    assert before is not None
    assert before.resource_version == "5"
    assert versions.before((MAPS, "default", "b"), "5") is None


def test_two_versions_differ_in_fields_and_lines_without_secrets() -> None:
    one, two = version(1, data={"a": "x", "b": "y"}), version(2, data={"a": "z", "b": "y"})
    assert changed_fields(one, two) == [{"field": "data.a", "before": "x", "after": "z"}]
    assert changed_fields(None, two) == [{"field": "data", "before": "", "after": '{"a":"z","b":"y"}'}]
    assert "-  a: x" in unified_diff(one, two)
    old, new = (version(n, kind="Secret", data={"key": value}) for n, value in ((1, "aHVudGVyMg=="), (2, "eA==")))
    assert "aHVudGVyMg" not in str([*unified_diff(old, new), changed_fields(old, new), changed_fields(None, old)])


def test_conditions_and_containers_are_compared_by_their_types_and_names() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "NoImage"}
    other = {"type": "Other", "status": "True"}
    old = version(
        1, status={"conditions": [ready, other]}, spec={"args": ["a"], "containers": [{"name": "c", "image": "1"}]}
    )
    new = version(
        2,
        status={"conditions": [{**ready, "status": "True"}, {"type": "New", "status": "True"}]},
        spec={"args": ["b"], "containers": [{"name": "c", "image": "2"}]},
    )
    found = {one["field"]: (one["before"], one["after"]) for one in changed_fields(old, new)}
    assert found == {
        "status.conditions[Ready].status": ("False", "True"),
        "status.conditions[Other]": ('{"type":"Other","status":"True"}', ""),
        "status.conditions[New]": ("", '{"type":"New","status":"True"}'),
        "spec.args": ('["a"]', '["b"]'),
        "spec.containers[c].image": ("1", "2"),
    }


def test_a_queue_grows_if_it_does_so_for_a_minute() -> None:
    assert is_growing([10, 12, 15, 20, 30])
    assert not is_growing([10, 12, 5, 20, 3])
    assert not is_growing([1, 2, 3, 4, 5])
    history = MetricsHistory()
    for number in range(13):
        history.add(Sample(number * 5.0, {"maps": ControllerSample(10 + 5 * number, 1, number)}))
    assert history.growing() == {"maps": (10, 70)}


def test_failures_that_the_history_no_longer_has_are_estimated_from_those_that_it_has() -> None:
    assert estimated(3, among=10, total=10) == 3
    assert estimated(500, among=1_000, total=4_000) == 2_000
    assert estimated(0, among=0, total=0) == 0


def test_samples_are_bounded_and_become_rates() -> None:
    history = MetricsHistory(most=3)
    for number, total in enumerate((0, 10, 30, 5)):
        sample = ControllerSample(number, 0, total, errors=number, median=0.1)
        history.add(Sample(number * 5.0, {"maps": sample}, requests=total))
    found = history.series()
    assert found["times"] == [5.0, 10.0, 15.0]
    assert found["controllers"]["maps"]["reconciles"] == [0.0, 4.0, 0.0]  # a total that was reset is no rate
    assert found["controllers"]["maps"]["errors"] == [0.2, 0.4, 0.6]
    assert found["requests"] == [0.0, 4.0, 0.0]
    assert MetricsHistory().series()["times"] == []


def test_polls_of_one_controller_are_collapsed() -> None:
    def entry(at: str, *, is_poll: bool = True, controller: str = "maps") -> dict[str, Any]:
        return {"at": at, "first": at, "times": 1, "is_poll": is_poll, "controller": controller}

    found = collapse_repeats([entry("1"), entry("2"), entry("3"), entry("4", is_poll=False), entry("5")])
    assert [(one["first"], one["at"], one["times"]) for one in found] == [("1", "3", 3), ("4", "4", 1), ("5", "5", 1)]


def test_failures_with_the_same_error_are_collapsed_unless_they_have_written_something() -> None:
    def entry(at: str, error: str = "ValueError: no tea", **more: Any) -> dict[str, Any]:
        reasons = ["the last reconcile failed"]
        return {"at": at, "is_poll": False, "result": "failed", "error": error, "reasons": reasons, **more}

    entries = [entry("1"), entry("2"), entry("3", "ValueError: no milk"), entry("4"), entry("5", writes=["a"])]
    entries += [entry("6"), entry("7", reasons=["it has changed"]), entry("8", object="b"), entry("9", object="b")]
    found = collapse_repeats(entries)
    assert [(one["at"], one["times"]) for one in found] == [
        *(("2", 2), ("3", 1), ("4", 1), ("5", 1), ("6", 1), ("7", 1), ("9", 2)),
    ]


def test_a_poll_and_what_it_triggers_are_collapsed_together() -> None:
    def poll(at: str, **more: Any) -> dict[str, Any]:
        return {"at": at, "is_poll": True, "result": "done", "reasons": ["requeued"], "next": "await", **more}

    def triggered(at: str, **more: Any) -> dict[str, Any]:
        return {"at": at, "is_poll": False, "result": "requeued", "reasons": ["state map"], "next": "5 s", **more}

    entries = [triggered("0"), poll("1"), triggered("2"), poll("3"), triggered("4"), poll("5")]
    found = collapse_repeats(entries)
    assert [(one["first"], one["at"], one["times"]) for one in found] == [("0", "4", 3), ("1", "5", 3)]
    others = [poll("1"), triggered("2", next="10 s"), poll("3"), triggered("4", next="20 s")]
    others += [poll("5"), triggered("6", writes=["status"]), poll("7"), triggered("8", writes=["status"])]
    assert [one["times"] for one in collapse_repeats(others)] == [1] * 8


@virtual
async def test_the_timeline_has_the_writes_of_each_reconcile_and_collapses_polls() -> None:
    async def reconcile(one: ConfigMap, ctx: Context) -> Any:
        if one.name == "child":
            return None
        await ctx.apply(ConfigMap(metadata=ObjectMeta(name="child"), data={"n": (one.data or {})["n"]}))
        return requeue(10)

    async with open_client() as client, Manager(client) as manager:
        page = Dashboard(DashboardSource.of(manager), token=TOKEN)
        assert page.activity is not None
        manager.on_start(page.activity.start)
        manager.add(Controller(ConfigMap, reconcile, name="maps", namespace="default"))
        await manager.wait_elected()
        await asyncio.sleep(6)  # the informers are followed
        await client.create(tree("v1", "ConfigMap", "parent", data={"n": "1"}))
        await asyncio.sleep(1)
        await client.apply({**tree("v1", "ConfigMap", "parent", data={"n": "2"}).tree}, force=True)
        await asyncio.sleep(35)  # three polls
        found = await get(page, "/api/object?kind=v1/ConfigMap&name=parent&namespace=default")
        metrics = await get(page, "/api/metrics")
        before, after = (one["version"] for one in found["versions"][1::-1])
        diff = await get(
            page, f"/api/diff?kind=v1/ConfigMap&name=parent&namespace=default&before={before}&after={after}"
        )
        gone = await send(page, "/api/diff?kind=v1/ConfigMap&name=parent&namespace=default&before=1&after=0")
        await page.close()
    polls, second, first = found["reconciles"]
    assert (polls["times"], polls["is_poll"], polls["writes"]) == (3, True, [])
    assert second["writes"][0]["changes"] == [{"field": "data.n", "before": "1", "after": "2"}]
    assert (first["writes"][0]["name"], first["reasons"]) == ("child", ["it has changed"])
    created = [{"field": "data", "before": "", "after": '{"n":"1"}'}]
    assert (first["writes"][0]["isNew"], first["writes"][0]["changes"]) == (True, created)
    assert not second["writes"][0]["isNew"]
    assert polls["at"] > polls["first"] > second["at"] > first["at"]
    assert "-  'n': '1'" in diff["lines"]  # without quotes, n would be false
    assert gone.status == 404
    assert len(metrics["times"]) >= 8
    assert sum(metrics["controllers"]["maps"]["reconciles"]) > 0


@virtual
async def test_requests_of_the_page_are_not_those_of_the_program() -> None:
    async with open_client() as client, Manager(client.in_process_server) as manager:
        page = Dashboard(DashboardSource.of(manager), token=TOKEN)
        assert page.activity is not None
        manager.on_start(page.activity.start)
        manager.add(Controller(ConfigMap, _nothing, name="maps", namespace="default"))
        await manager.wait_elected()
        await asyncio.sleep(11)
        before = (await get(page, "/api/metrics?last=1"))["requests"]
        for _ in range(5):
            await get(page, "/api/kinds")
        await DashboardSource.of(manager).client().create(tree("v1", "ConfigMap", "one"))
        await asyncio.sleep(5)
        after = await get(page, "/api/metrics?last=2")
        assert page.activity.requests.own > 50
        await page.close()
    assert (before, len(after["times"])) == ([0.0], 2)
    assert after["requests"][-1] == after["controllers"]["maps"]["reconciles"][-1] > 0  # one of each


async def _nothing(one: ConfigMap, ctx: Context) -> None:
    """Reconciles nothing."""
