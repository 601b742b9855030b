"""Evictions of pods: what `kubectl drain` asks for, and what budgets do not allow."""

from typing import Any

import pytest

from tests.apiserver.box import Box, open_box
from tests.apiserver.roles import open_town, rule
from tests.apiserver.ruling import rule as covers
from tests.apiserver.ruling import rule_by, validating

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
LABELS = {"app": "x"}


async def pod(box: Box, name: str, status: Any = READY, **labels: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await box.make(PODS, {"metadata": {"name": name, "labels": labels or LABELS}, "spec": spec})
    assert (await box.ask("PATCH", f"{PODS}/{name}/status", {"status": status}, kind=MERGE))[0] == 200


def eviction(name: str, version: str = "policy/v1", **more: Any) -> Any:
    return {"apiVersion": version, "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}, **more}


async def evict(box: Box, name: str, **more: Any) -> tuple[int, Any]:
    return await box.ask("POST", f"{PODS}/{name}/eviction", eviction(name, **more))


async def budget(box: Box, name: str = "b", **spec: Any) -> None:
    await box.make(BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}})


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
async def test_an_eviction_deletes_the_pod(version: str) -> None:
    async with open_box() as box:
        await pod(box, "a")
        status, told = await evict(box, "a", version=version)
        assert (status, told["status"], told["code"]) == (201, "Success", 201)
        assert (await box.ask("GET", f"{PODS}/a"))[0] == 404
        assert (await evict(box, "a"))[0] == 404


async def test_discovery_tells_that_there_are_evictions() -> None:
    async with open_box() as box:
        rows = (await box.ask("GET", "/api/v1"))[1]["resources"]
    (row,) = [one for one in rows if one["name"] == "pods/eviction"]
    assert (row["group"], row["version"], row["kind"], row["verbs"]) == ("policy", "v1", "Eviction", ["create"])


async def test_a_budget_keeps_the_pods_that_it_needs() -> None:
    async with open_box() as box:
        for name in ("a", "b", "c"):
            await pod(box, name)
        await pod(box, "other", app="y")
        await budget(box, minAvailable=2)
        assert (await evict(box, "a"))[0] == 201
        status, told = await evict(box, "b")
        assert (status, told["reason"]) == (429, "TooManyRequests")
        assert told["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
        cause = "The disruption budget b needs 2 healthy pods and has 2 currently"
        assert told["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
        assert (await evict(box, "other"))[0] == 201


@pytest.mark.parametrize(
    ("spec", "evicted"),
    [
        ({"minAvailable": "50%"}, 2),
        ({"minAvailable": "100%"}, 0),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "25%"}, 1),
        ({"maxUnavailable": 0}, 0),
    ],
)
async def test_a_budget_may_be_a_part_or_what_may_be_missing(spec: Any, evicted: int) -> None:
    async with open_box() as box:
        for name in "abcd":
            await pod(box, name)
        await budget(box, **spec)
        # What is deleted is gone at once here, so that each eviction is counted on its own.
        statuses = [(await box.ask("POST", f"{PODS}/{name}/eviction", eviction(name)))[0] for name in "ab"]
    wanted = {0: [429, 429], 1: [201, 201], 2: [201, 201]}[evicted]
    assert statuses == wanted


async def test_pods_that_have_not_begun_or_have_ended_count_for_nobody() -> None:
    async with open_box() as box:
        for name, phase in (("a", "Pending"), ("b", "Succeeded"), ("c", "Failed")):
            await pod(box, name, {"phase": phase})
        await budget(box, minAvailable=3)
        for name in "abc":
            assert (await evict(box, name))[0] == 201


async def test_pods_that_are_not_ready_may_go_if_enough_others_are() -> None:
    running = {"phase": "Running"}
    async with open_box() as box:
        await pod(box, "a")
        await pod(box, "b", running)
        await pod(box, "c", running)
        await budget(box, minAvailable=1)
        assert (await evict(box, "b"))[0] == 201
        await box.ask("PATCH", f"{BUDGETS}/b", {"spec": {"minAvailable": 2}}, kind=MERGE)
        assert (await evict(box, "c"))[0] == 429
        spec = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
        await box.ask("PATCH", f"{BUDGETS}/b", spec, kind=MERGE)
        assert (await evict(box, "c"))[0] == 201


async def test_a_status_that_somebody_keeps_is_believed_and_charged() -> None:
    async with open_box() as box:
        await pod(box, "a")
        await pod(box, "b")
        await budget(box, minAvailable=2)
        status = {"observedGeneration": 1, "disruptionsAllowed": 1, "desiredHealthy": 2, "currentHealthy": 3}
        await box.ask("PATCH", f"{BUDGETS}/b/status", {"status": status}, kind=MERGE)
        assert (await evict(box, "a", deleteOptions={"dryRun": ["All"]}))[0] == 201
        assert (await evict(box, "a"))[0] == 201
        found = (await box.ask("GET", f"{BUDGETS}/b"))[1]["status"]
        assert (found["disruptionsAllowed"], list(found["disruptedPods"])) == (0, ["a"])
        assert (await evict(box, "b"))[0] == 429
        await box.ask("PATCH", f"{BUDGETS}/b", {"spec": {"minAvailable": 1}}, kind=MERGE)
        code, told = await evict(box, "b")
        assert (code, "still being processed" in told["details"]["causes"][0]["message"]) == (429, True)


async def test_more_than_one_budget_for_a_pod_is_too_many() -> None:
    async with open_box() as box:
        await pod(box, "a")
        await budget(box, "b", minAvailable=0)
        await budget(box, "c", minAvailable=0)
        status, told = await evict(box, "a")
    assert (status, "more than one PodDisruptionBudget" in told["message"]) == (500, True)


async def test_an_eviction_may_be_tried_and_has_conditions() -> None:
    async with open_box() as box:
        await pod(box, "a")
        assert (await evict(box, "a", deleteOptions={"dryRun": ["All"]}))[0] == 201
        status, _ = await box.ask("POST", f"{PODS}/a/eviction", eviction("a"), dryRun="All")
        assert (status, (await box.ask("GET", f"{PODS}/a"))[0]) == (201, 200)
        assert (await evict(box, "a", deleteOptions={"preconditions": {"uid": "other"}}))[0] == 409
        assert (await box.ask("POST", f"{PODS}/a/eviction", eviction("b")))[0] == 400
        assert (await box.ask("GET", f"{PODS}/a/eviction"))[0] == 405
        assert (await box.ask("POST", f"{PODS}/a/eviction", {"kind": "Pod", "apiVersion": "v1"}))[0] == 400


async def test_policies_are_asked_about_evictions() -> None:
    match = {"resourceRules": [covers("pods/eviction", operations=["CREATE"])]}
    async with open_box() as box:
        await pod(box, "a")
        await pod(box, "b")
        await rule_by(box, validating("object.kind == 'Eviction' && object.metadata.name != 'a'", match=match))
        assert (await evict(box, "a"))[0] == 422
        assert (await evict(box, "b"))[0] == 201


async def test_who_may_evict_need_not_be_allowed_to_delete() -> None:
    async with open_town() as town:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await town.own("POST", PODS, {"metadata": {"name": "a"}, "spec": spec})
        path = f"{PODS}/a/eviction"
        assert (await town.ask("jane", "POST", path, eviction("a")))[0] == 403
        await town.allow("jane", rule("create", "pods/eviction"))
        assert (await town.ask("jane", "POST", path, eviction("a")))[0] == 201
