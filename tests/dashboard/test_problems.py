"""The landing page: what is broken now, the worst first."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from levelset.client import MergePatch
from levelset.dashboard import Dashboard, DashboardSource, Queries, problems
from levelset.dashboard.object_health import scan
from levelset.objects import GroupVersionKind, Ref, Unstructured
from levelset.objects.cached_object import CachedObject, decode_cached
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller import Controller
from levelset.runtime.controller.actions import Action, Outcome
from levelset.runtime.controller.hot_loops import HotLoop
from levelset.runtime.controller.request import CHANGED
from levelset.runtime.manager import Manager, MemberReport
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import Website, website
from tests.dashboard.fixtures import TOKEN, get, open_client, open_dashboard, tree
from tests.dashboard.test_owner_graph import remote

WALL = datetime(2026, 1, 1, 12, tzinfo=UTC)
SITE: Ref[Any] = Ref(GroupVersionKind("example.dev", "v1", "Website"), "blog", "default")


def outcome(result: Any = "failed", *, at: float, after: float | None = 8.0, **more: Any) -> Outcome[Any]:
    error = RuntimeError("no image") if result in {"failed", "timed_out", "gave_up"} else None
    return Outcome(SITE, result, Action(after), error, 0.1, (CHANGED,), at=at, **more)


def event(type_: str = "Warning", *, at: datetime = WALL, reason: str = "Failed", count: int = 1) -> dict[str, Any]:
    about = {"kind": "v1/Pod", "name": "web", "namespace": "default"}
    return {"type": type_, "reason": reason, "message": "m", "count": count, "at": at.isoformat(), "about": about}


def stats(**more: Any) -> Stats:
    given = dict.fromkeys(("objects", "bytes", "events", "relists", "reconnects", "bookmarks", "errors", "readers"), 0)
    whole = {"name": "v1 Pod", "is_ready": True, "resource_version": "1", "lag": 1.0, "waiting": 0, "error": None}
    return Stats(**{**given, **whole, **more})


def test_a_failing_reconcile_has_its_error_its_beginning_and_its_next_retry() -> None:
    history = [outcome("done", at=10.0), outcome(at=20.0), outcome(at=30.0, attempt=1)]
    (found,) = problems.failing_reconciles("sites", history, 1, 32.0, WALL)
    assert (found["title"], found["message"]) == ("sites failed, attempt 2", "RuntimeError: no image")
    assert found["since"] == "2026-01-01T11:59:48.000Z"
    assert found["retryAt"] == "2026-01-01T12:00:06.000Z"
    assert found["object"] == {"kind": "example.dev/v1/Website", "name": "blog", "namespace": "default"}


def test_a_reconcile_that_has_succeeded_since_is_no_problem() -> None:
    assert problems.failing_reconciles("sites", [outcome(at=1.0), outcome("done", at=2.0)], 0, 3.0, WALL) == []


def test_one_that_gave_up_has_no_next_retry() -> None:
    (found,) = problems.failing_reconciles("sites", [outcome("gave_up", at=1.0, after=None)], 0, 2.0, WALL)
    assert (found["title"], found["retryAt"]) == ("sites gave up", None)


def test_failures_that_left_the_history_are_counted() -> None:
    found = problems.failing_reconciles("sites", [outcome(at=1.0)], 5, 2.0, WALL)
    assert [one["title"] for one in found] == ["sites failed", "sites: 4 more objects fail"]


def test_warnings_of_the_last_minutes_are_one_problem_for_each_object_and_reason() -> None:
    old = WALL - problems.EVENT_AGE - timedelta(seconds=1)
    events = [event(count=2), event(count=3), event(reason="Other"), event("Normal"), event(at=old, reason="Old")]
    found = problems.warning_events(events, WALL)
    assert [(one["title"], one["times"]) for one in found] == [("Failed", 5), ("Other", 1)]


def test_a_warning_is_over_when_its_object_has_become_well_since() -> None:
    pod = ("v1/Pod", "default", "web")
    assert problems.warned_objects([event(), event("Normal")]) == {pod}
    assert len(problems.warning_events([event()], WALL)) == 1
    assert len(problems.warning_events([event()], WALL, {pod: WALL - timedelta(seconds=1)})) == 1
    assert problems.warning_events([event()], WALL, {pod: WALL + timedelta(seconds=1)}) == []


def test_a_hot_loop_is_a_problem_for_as_long_as_it_goes_on() -> None:
    loop = HotLoop(SITE, "status.n", ("sites",), 12, 3.0, is_fight=False)
    early = WALL - timedelta(hours=1)
    often = [outcome("done", at=float(number)) for number in range(50, 50 + problems.HOT_LOOP_TIMES)]
    busy = problems.busy_objects("sites", often, 100.0)
    assert busy == {("sites", SITE.key)}
    assert len(problems.hot_loops([(early, "sites", loop)], WALL, busy)) == 1
    assert problems.busy_objects("sites", often[1:], 100.0) == set()
    assert problems.busy_objects("sites", often, 114.0) == set()
    assert problems.hot_loops([(early, "sites", loop)], WALL) == []


def test_every_problem_leads_to_an_object_a_controller_a_kind_or_a_manager() -> None:
    waits = MemberReport("b", "pod-b", 4, is_me=False, is_acknowledged=False)
    found = [
        *problems.failing_reconciles("sites", [outcome(at=1.0)], 5, 2.0, WALL),
        *problems.slow_reconciles("sites", [61.0]),
        *problems.lagging_watches([stats(error="forbidden"), stats(lag=151.0), stats(waiting=10_001)]),
        *problems.growing_queues({"sites": (10, 50)}),
        *problems.shards_without_owner((), {"sites": (0, 0, 0)}),
        *problems.shards_without_owner([waits], {}),
        problems.manager_problem("shop-1", "refused", None),
    ]
    assert [one for one in found if not any(one[name] for name in ("object", "controller", "kind", "manager"))] == []
    assert {one["kind"] for one in found if one["category"] == "watch"} == {"v1/Pod"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"error": "forbidden"}, "forbidden"),
        ({"lag": 151.0}, "sent nothing for 151 s"),
        ({"waiting": 10_001}, "10001 changes wait"),
    ],
)
def test_a_watch_that_fails_or_lags_is_a_problem(more: dict[str, Any], message: str) -> None:
    (found,) = problems.lagging_watches([stats(), stats(**more)])
    assert message in found["message"]


def test_hot_loops_growing_queues_slow_reconciles_and_shards_are_problems() -> None:
    loop = HotLoop(SITE, "status.n", ("sites",), 12, 3.0, is_fight=False)
    early = WALL - timedelta(seconds=problems.HOT_LOOP_SECONDS + 1)
    (hot,) = problems.hot_loops([(early, "sites", loop), (WALL, "sites", loop)], WALL)
    (grows,) = problems.growing_queues({"sites": (10, 50)})
    assert problems.slow_reconciles("sites", [1.0]) == []
    (slow,) = problems.slow_reconciles("sites", [1.0, 61.0])
    assert "status.n" in hot["message"]
    assert "from 10 to 50" in grows["message"]
    assert "runs for 61 s" in slow["title"]
    waits = MemberReport("b", "pod-b", 4, is_me=False, is_acknowledged=False)
    fine = MemberReport("a", "pod-a", 4, is_me=True, is_acknowledged=True)
    assert problems.shards_without_owner((), {}) == []
    assert problems.shards_without_owner((), {"sites": (0, 0, 0)})[0]["title"] == "no replica owns the objects"
    assert [one["title"] for one in problems.shards_without_owner([fine, waits], {})] == ["member b takes over"]


def test_objects_of_a_member_that_has_stopped_have_no_owner() -> None:
    stopped = MemberReport("b", "pod-b", 4, is_me=False, is_acknowledged=True, silent=11.2, is_stopped=True)
    (found,) = problems.shards_without_owner([stopped], {"sites": (0, 0, 0)})
    assert (found["title"], found["tone"]) == ("no replica reconciles the objects of member b", "bad")
    assert "it had 4 when it last renewed its Lease, 11 s ago" in found["message"]
    assert problems.shards_without_owner([replace(stopped, is_stopped=False)], {}) == []


def ill(kind: str, name: str, owner: str = "", **status: Any) -> CachedObject:
    owners = [{"kind": "Any", "name": owner, "uid": owner, "controller": True}] if owner else []
    meta = {"name": name, "namespace": "a", "uid": name, "ownerReferences": owners}
    meta["creationTimestamp"] = (WALL - timedelta(hours=1)).isoformat()
    return decode_cached(
        json.dumps({"kind": kind, "metadata": meta, "spec": {"replicas": 3}, "status": status}).encode()
    )


async def test_a_family_that_has_not_become_ready_is_one_problem_with_what_its_own_controller_says() -> None:
    unready = {"type": "Ready", "status": "False", "message": "containers with unready status: [agent]"}
    missing = {"type": "Ready", "status": "False", "message": "no session store answers"}
    kinds = {
        SITE.gvk: [ill("Website", "blog", phase="Pending", conditions=[missing])],
        GroupVersionKind("apps", "v1", "Deployment"): [ill("Deployment", "web", "blog", replicas=3, readyReplicas=0)],
        GroupVersionKind("apps", "v1", "ReplicaSet"): [ill("ReplicaSet", "set", "web", replicas=3, readyReplicas=0)],
        GroupVersionKind("", "v1", "Pod"): [ill("Pod", "web-0", "set", phase="Running", conditions=[unready])],
    }
    (found,) = problems.ill_objects(await scan(kinds, WALL))
    assert (found["object"]["name"], found["tone"]) == ("web-0", "busy")
    assert [one["name"] for one in found["above"]] == ["set", "web", "blog"]
    assert found["message"] == "containers with unready status: [agent]; Website blog: no session store answers"


async def test_objects_that_are_ill_for_one_cause_are_one_problem() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    pods = [ill("Pod", f"web-{n}", "set", containerStatuses=[waiting]) for n in range(3)]
    sets = [ill("ReplicaSet", "set", "web", replicas=3, readyReplicas=0), ill("ReplicaSet", "other", replicas=3)]
    kinds = {
        GroupVersionKind("apps", "v1", "Deployment"): [ill("Deployment", "web", replicas=3, readyReplicas=0)],
        GroupVersionKind("apps", "v1", "ReplicaSet"): sets,
        GroupVersionKind("", "v1", "Pod"): pods,
    }
    found = problems.ill_objects(await scan(kinds, WALL))
    assert [(one["object"]["name"], one["title"]) for one in found] == [
        ("other", "stuck: 0/3 ready"),
        ("web-0", "ErrImagePull"),
    ]
    assert [one["name"] for one in found[1]["others"]] == ["web-1", "web-2"]
    assert [one["name"] for one in found[1]["above"]] == ["set", "web"]
    about = {"kind": "apps/v1/Deployment", "namespace": "a", "name": "web"}
    events = problems.warning_events([{**event(), "about": about}], WALL)
    assert len(events) == 1
    assert problems.one_list([*events, *found])["total"] == 2


def test_the_worst_comes_first_and_an_event_does_not_repeat_it() -> None:
    about = {"kind": "v1/Pod", "name": "web", "namespace": "default"}
    queue = problems.growing_queues({"sites": (10, 50)})
    fails = [{**problems.failing_reconciles("pods", [outcome(at=1.0)], 1, 1.0, WALL)[0], "object": about}]
    events = problems.warning_events([event()], WALL)
    found = problems.one_list([*events, *queue, *fails])
    assert [one["category"] for one in found["problems"]] == ["reconcile", "queue"]
    assert problems.one_list(events)["total"] == 1


@virtual
async def test_a_healthy_system_has_no_problems() -> None:
    async with open_dashboard() as (page, client):
        await client.create(website("blog"))
        found = await get(page, "/api/problems")
    assert (found["problems"], found["total"]) == ([], 0)
    assert found["objects"] > 0


@virtual
async def test_the_problems_of_a_running_manager_are_served() -> None:
    async def reconcile(site: Website, _: object) -> None:
        raise ValueError(f"no image for {site.name}")

    async with open_client() as client, Manager(client) as manager:
        manager.add(Controller(Website, reconcile, name="sites"))
        await manager.wait_elected()
        await client.create(website("blog"))
        await client.create(tree("v1", "Pod", "web", spec={"containers": [{"name": "a", "image": "b"}]}))
        pod: Ref[Any] = Ref(GroupVersionKind("", "v1", "Pod"), "web", "default")
        await client.patch(pod, MergePatch({"status": {"phase": "Failed"}}), subresource="status")
        await asyncio.sleep(1.0)
        page = Dashboard(DashboardSource.of(manager), token=TOKEN)
        found = (await get(page, "/api/problems"))["problems"]
        await page.close()
    assert [(one["category"], one["object"]["name"]) for one in found] == [("reconcile", "blog"), ("object", "web")]
    assert found[0]["message"] == "ValueError: no image for blog"
    assert found[0]["retryAt"] is not None


async def test_beside_a_cluster_its_own_kinds_are_judged_too() -> None:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": spec}
    async with remote() as client:
        made = await client.create(Unstructured(volume))
        failed = {"phase": "Failed", "message": "the disk is gone"}
        await client.patch(made.ref, MergePatch({"status": failed}), subresource="status")
        found = await Queries(DashboardSource.of_client(client)).problems()
    assert [(one["object"]["name"], one["title"], one["message"]) for one in found["problems"]] == [
        ("disk", "Failed", "the disk is gone")
    ]
