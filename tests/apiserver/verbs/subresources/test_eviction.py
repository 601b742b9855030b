"""Evictions of pods, and the PodDisruptionBudgets that forbid them."""

from typing import Any

import pytest

from levelset.apiserver.verbs.subresources.eviction import Budget, budget_of, is_exempt, selects
from tests.apiserver.support.admission_policies import enforce_policy, validating
from tests.apiserver.support.admission_policies import rule as covers
from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.apiserver.support.rbac_server import open_rbac_server, rule

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
LABELS = {"app": "x"}


async def pod(api: InProcessServer, name: str, status: Any = READY, **labels: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await api.create(PODS, {"metadata": {"name": name, "labels": labels or LABELS}, "spec": spec})
    assert (await api.request("PATCH", f"{PODS}/{name}/status", {"status": status}, kind=MERGE))[0] == 200


def eviction(name: str, version: str = "policy/v1", **more: Any) -> Any:
    return {"apiVersion": version, "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}, **more}


async def evict(api: InProcessServer, name: str, **more: Any) -> tuple[int, Any]:
    return await api.request("POST", f"{PODS}/{name}/eviction", eviction(name, **more))


async def budget(api: InProcessServer, name: str = "b", **spec: Any) -> None:
    await api.create(BUDGETS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}})


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
async def test_an_eviction_deletes_the_pod(version: str) -> None:
    async with open_server() as api:
        await pod(api, "a")
        status, body = await evict(api, "a", version=version)
        assert (status, body["status"], body["code"]) == (201, "Success", 201)
        assert (await api.request("GET", f"{PODS}/a"))[0] == 404
        assert (await evict(api, "a"))[0] == 404


async def test_discovery_lists_the_eviction_subresource() -> None:
    async with open_server() as api:
        rows = (await api.request("GET", "/api/v1"))[1]["resources"]
    (row,) = [one for one in rows if one["name"] == "pods/eviction"]
    assert (row["group"], row["version"], row["kind"], row["verbs"]) == ("policy", "v1", "Eviction", ["create"])


async def test_a_budget_protects_the_pods_that_it_needs() -> None:
    async with open_server() as api:
        for name in ("a", "b", "c"):
            await pod(api, name)
        await pod(api, "other", app="y")
        await budget(api, minAvailable=2)
        assert (await evict(api, "a"))[0] == 201
        status, body = await evict(api, "b")
        assert (status, body["reason"]) == (429, "TooManyRequests")
        assert body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
        cause = "The disruption budget b needs 2 healthy pods and has 2 currently"
        assert body["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
        assert (await evict(api, "other"))[0] == 201


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
async def test_a_budget_may_be_a_percentage_or_max_unavailable(spec: Any, evicted: int) -> None:
    async with open_server() as api:
        for name in "abcd":
            await pod(api, name)
        await budget(api, **spec)
        # Pods are removed immediately here, so each eviction is counted separately.
        statuses = [(await api.request("POST", f"{PODS}/{name}/eviction", eviction(name)))[0] for name in "ab"]
    wanted = {0: [429, 429], 1: [201, 201], 2: [201, 201]}[evicted]
    assert statuses == wanted


async def test_pending_and_finished_pods_are_exempt_from_budgets() -> None:
    async with open_server() as api:
        for name, phase in (("a", "Pending"), ("b", "Succeeded"), ("c", "Failed")):
            await pod(api, name, {"phase": phase})
        await budget(api, minAvailable=3)
        for name in "abc":
            assert (await evict(api, name))[0] == 201


async def test_unready_pods_can_be_evicted_if_enough_others_are_ready() -> None:
    running = {"phase": "Running"}
    async with open_server() as api:
        await pod(api, "a")
        await pod(api, "b", running)
        await pod(api, "c", running)
        await budget(api, minAvailable=1)
        assert (await evict(api, "b"))[0] == 201
        await api.request("PATCH", f"{BUDGETS}/b", {"spec": {"minAvailable": 2}}, kind=MERGE)
        assert (await evict(api, "c"))[0] == 429
        spec = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
        await api.request("PATCH", f"{BUDGETS}/b", spec, kind=MERGE)
        assert (await evict(api, "c"))[0] == 201


async def test_a_status_written_by_a_controller_is_used_and_charged() -> None:
    async with open_server() as api:
        await pod(api, "a")
        await pod(api, "b")
        await budget(api, minAvailable=2)
        status = {"observedGeneration": 1, "disruptionsAllowed": 1, "desiredHealthy": 2, "currentHealthy": 3}
        await api.request("PATCH", f"{BUDGETS}/b/status", {"status": status}, kind=MERGE)
        assert (await evict(api, "a", deleteOptions={"dryRun": ["All"]}))[0] == 201
        assert (await evict(api, "a"))[0] == 201
        found = (await api.request("GET", f"{BUDGETS}/b"))[1]["status"]
        assert (found["disruptionsAllowed"], list(found["disruptedPods"])) == (0, ["a"])
        assert (await evict(api, "b"))[0] == 429
        await api.request("PATCH", f"{BUDGETS}/b", {"spec": {"minAvailable": 1}}, kind=MERGE)
        code, body = await evict(api, "b")
        assert (code, "still being processed" in body["details"]["causes"][0]["message"]) == (429, True)


async def test_more_than_one_budget_for_a_pod_is_an_error() -> None:
    async with open_server() as api:
        await pod(api, "a")
        await budget(api, "b", minAvailable=0)
        await budget(api, "c", minAvailable=0)
        status, body = await evict(api, "a")
    assert (status, "more than one PodDisruptionBudget" in body["message"]) == (500, True)


async def test_an_eviction_supports_dry_run_and_preconditions() -> None:
    async with open_server() as api:
        await pod(api, "a")
        assert (await evict(api, "a", deleteOptions={"dryRun": ["All"]}))[0] == 201
        status, _ = await api.request("POST", f"{PODS}/a/eviction", eviction("a"), dryRun="All")
        assert (status, (await api.request("GET", f"{PODS}/a"))[0]) == (201, 200)
        assert (await evict(api, "a", deleteOptions={"preconditions": {"uid": "other"}}))[0] == 409
        assert (await api.request("POST", f"{PODS}/a/eviction", eviction("b")))[0] == 400
        assert (await api.request("GET", f"{PODS}/a/eviction"))[0] == 405
        assert (await api.request("POST", f"{PODS}/a/eviction", {"kind": "Pod", "apiVersion": "v1"}))[0] == 400


async def test_evictions_are_reviewed_by_admission_policies() -> None:
    match = {"resourceRules": [covers("pods/eviction", operations=["CREATE"])]}
    async with open_server() as api:
        await pod(api, "a")
        await pod(api, "b")
        await enforce_policy(api, validating("object.kind == 'Eviction' && object.metadata.name != 'a'", match=match))
        assert (await evict(api, "a"))[0] == 422
        assert (await evict(api, "b"))[0] == 201


async def test_evicting_does_not_require_permission_to_delete() -> None:
    async with open_rbac_server() as api:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await api.request_as_owner("POST", PODS, {"metadata": {"name": "a"}, "spec": spec})
        path = f"{PODS}/a/eviction"
        assert (await api.request("jane", "POST", path, eviction("a")))[0] == 403
        await api.grant("jane", rule("create", "pods/eviction"))
        assert (await api.request("jane", "POST", path, eviction("a")))[0] == 201


def pods(ready: int, others: int = 0) -> list[Any]:
    yes = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    no = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    return [yes] * ready + [no] * others


def budget_object(status: Any = None, **spec: Any) -> Any:
    return {"metadata": {"generation": 2}, "spec": spec, "status": status or {}}


@pytest.mark.parametrize(
    ("spec", "ready", "others", "allowed"),
    [
        ({"minAvailable": 2}, 3, 0, 1),
        ({"minAvailable": 2}, 2, 5, 0),
        ({"minAvailable": "50%"}, 3, 0, 1),
        ({"maxUnavailable": 1}, 3, 1, 0),
        ({"maxUnavailable": "50%"}, 3, 0, 2),
        ({"maxUnavailable": "all"}, 3, 0, 0),
        ({}, 3, 0, 0),
    ],
)
def test_without_a_status_the_pods_are_counted(spec: Any, ready: int, others: int, allowed: int) -> None:
    assert budget_of(budget_object(**spec), pods(ready, others)).allowed == allowed


def test_a_status_is_stale_after_a_change_of_the_budget() -> None:
    status = {"disruptionsAllowed": 3, "desiredHealthy": 1, "currentHealthy": 4, "observedGeneration": 2}
    assert budget_of(budget_object(status), []) == Budget(3, 1, 4, is_stale=False)
    assert budget_of(budget_object({**status, "observedGeneration": 1}), []).is_stale


def test_a_budget_applies_to_the_pods_that_it_selects() -> None:
    pod = {"metadata": {"labels": {"a": "b"}}}
    assert selects(budget_object(selector={"matchLabels": {"a": "b"}}), pod)
    assert selects(budget_object(selector={}), pod)
    assert not selects(budget_object(selector={"matchLabels": {"a": "c"}}), pod)
    assert not selects(budget_object(), pod)
    assert selects(budget_object(selector={"matchExpressions": [{"key": "a", "operator": "What"}]}), pod)


def test_a_terminating_pod_is_exempt_from_budgets() -> None:
    assert is_exempt({"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Running"}})
    assert not is_exempt({"metadata": {}, "status": {"phase": "Running"}})
