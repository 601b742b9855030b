from typing import Any

from tests.apiserver.support.in_process_server import InProcessServer, open_server

CORE = "/api/v1/namespaces/default"


async def limit(api: InProcessServer, kind: str = "Container", **bounds: Any) -> None:
    spec = {"limits": [{"type": kind, **bounds}]}
    await api.create(f"{CORE}/limitranges", {"metadata": {"name": "l"}, "spec": spec})


def pod(*, requests: Any = None, limits: Any = None) -> Any:
    resources = {name: value for name, value in (("requests", requests), ("limits", limits)) if value}
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}}


async def refused(api: InProcessServer, tree: Any, plural: str = "pods") -> str:
    status, answer = await api.request("POST", f"{CORE}/{plural}", tree)
    assert (status, answer["reason"]) == (403, "Forbidden"), answer
    return str(answer["message"]).partition("is forbidden: ")[2]


async def test_containers_get_the_default_requests_and_limits() -> None:
    async with open_server() as api:
        await limit(api, default={"cpu": "500m", "memory": "500Mi"}, defaultRequest={"cpu": "100m"})
        made = await api.create(f"{CORE}/pods", pod(requests={"memory": "300Mi"}))
        assert made["spec"]["containers"][0]["resources"] == {
            "requests": {"cpu": "100m", "memory": "300Mi"},
            "limits": {"cpu": "500m", "memory": "500Mi"},
        }
        text = "LimitRanger plugin set: cpu request for container c; cpu, memory limit for container c"
        assert made["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": text}
        assert made["status"]["qosClass"] == "Burstable"


async def test_a_container_outside_of_the_bounds_is_refused() -> None:
    async with open_server() as api:
        await limit(api, min={"cpu": "100m"}, max={"cpu": "1"})
        assert await refused(api, pod(requests={"cpu": "50m"}, limits={"cpu": "2"})) == (
            "[minimum cpu usage per Container is 100m, but request is 50m,"
            " maximum cpu usage per Container is 1, but limit is 2]"
        )


async def test_a_ratio_of_limit_to_request_is_bounded() -> None:
    async with open_server() as api:
        await limit(api, maxLimitRequestRatio={"memory": "2"})
        text = "memory max limit to request ratio per Container is 2, but"
        tree = pod(requests={"memory": "100Mi"}, limits={"memory": "300Mi"})
        assert await refused(api, tree) == f"{text} provided ratio is 3.000000"
        assert await refused(api, pod()) == f"{text} no request is specified or request is 0"


async def test_the_sum_of_a_pod_is_bounded() -> None:
    async with open_server() as api:
        await limit(api, "Pod", max={"cpu": "1"})
        tree = pod(limits={"cpu": "600m"})
        tree["spec"]["containers"].append({"name": "d", "image": "i", "resources": {"limits": {"cpu": "600m"}}})
        assert await refused(api, tree) == "maximum cpu usage per Pod is 1, but limit is 1200m"
        assert await refused(api, pod()) == "maximum cpu usage per Pod is 1.  No limit is specified"


async def test_claims_are_bounded() -> None:
    async with open_server() as api:
        await limit(api, "PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "2Gi"})
        claim: Any = {"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        claim["spec"]["resources"] = {"requests": {"storage": "3Gi"}}
        text = "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
        assert await refused(api, claim, "persistentvolumeclaims") == text
        claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
        await api.create(f"{CORE}/persistentvolumeclaims", claim)


async def test_a_limit_range_that_is_deleted_bounds_nothing() -> None:
    async with open_server() as api:
        await limit(api, max={"cpu": "1"})
        assert (await api.create(f"{CORE}/pods", pod()))["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
        await api.request("DELETE", f"{CORE}/pods/p")
        await api.request("DELETE", f"{CORE}/limitranges/l")
        assert (await api.create(f"{CORE}/pods", pod()))["spec"]["containers"][0]["resources"] == {}
