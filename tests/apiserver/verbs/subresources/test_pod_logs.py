import pytest

from tests.apiserver.box import open_box

PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}


@pytest.mark.parametrize(
    ("path", "query", "status", "problem"),
    [
        ("a", {}, 400, "pod a does not have a host assigned: this server runs no containers"),
        ("a", {"container": "main"}, 400, "does not have a host assigned"),
        ("a", {"container": "other"}, 400, "container other is not valid for pod a"),
        ("b", {}, 404, 'pods "b" not found'),
    ],
)
async def test_nobody_has_logs_where_nobody_runs(path: str, query: dict[str, str], status: int, problem: str) -> None:
    async with open_box() as box:
        await box.make(PODS, POD)
        found, told = await box.ask("GET", f"{PODS}/{path}/log", **query)
    assert (found, told["kind"]) == (status, "Status")
    assert problem in told["message"]


async def test_a_review_may_come_with_an_empty_status() -> None:
    body = {"spec": {"namespace": "default"}, "status": {"incomplete": False, "resourceRules": None}}
    async with open_box() as box:
        status, told = await box.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)
    assert status == 201
    assert told["status"]["resourceRules"]
