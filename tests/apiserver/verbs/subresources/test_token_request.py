from typing import Any

import pytest

from tests.apiserver.roles import Town, open_town, rule

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PATH = f"{ACCOUNTS}/robot/token"
ROBOT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"serviceAccountName": "other", "containers": [{"name": "c", "image": "i"}]},
}


def request(**spec: Any) -> Any:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


async def post(town: Town, tree: Any, path: str = PATH) -> tuple[int, Any]:
    return await town.ask("root", "POST", path, tree, groups=["system:masters"])


async def test_what_a_request_leaves_out_is_filled_in() -> None:
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        status, found = await post(town, request())
        assert status == 201
        assert found["spec"] == {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600}
        assert (found["metadata"]["name"], found["metadata"]["namespace"]) == ("robot", "default")
        assert found["status"]["token"].count(".") == 2
        assert found["status"]["expirationTimestamp"].endswith("Z")


@pytest.mark.parametrize(
    ("tree", "status"),
    [
        (request(expirationSeconds=599), 422),
        (request(expirationSeconds=1 << 33), 422),
        (request(expirationSeconds="long"), 400),
        (request(audiences="vault"), 400),
        (request(boundObjectRef={"kind": "ConfigMap", "apiVersion": "v1", "name": "a"}), 400),
        (request(boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "missing"}), 404),
        (request(boundObjectRef={"kind": "Secret", "apiVersion": "v1"}), 404),
        (request(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"}), 400),
        (request(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "x"}), 409),
        ({**request(), "metadata": {"name": "other"}}, 400),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, 400),
        ([], 400),
    ],
)
async def test_a_request_that_cannot_be_met_is_refused(tree: Any, status: int) -> None:
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        await town.own("POST", "/api/v1/namespaces/default/pods", POD)
        assert (await post(town, tree))[0] == status


async def test_an_account_that_is_not_there_gets_no_token() -> None:
    async with open_town() as town:
        status, found = await post(town, request())
        assert (status, found["details"]) == (404, {"name": "robot", "kind": "serviceaccounts"})


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_a_token_is_asked_for_and_nothing_else(method: str) -> None:
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        assert (await town.ask("root", method, PATH, request(), groups=["system:masters"]))[0] == 405


async def test_who_may_write_accounts_may_not_yet_have_their_tokens() -> None:
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        await town.allow("jane", rule("*", "serviceaccounts"))
        status, found = await town.ask("jane", "POST", PATH, request())
        assert status == 403
        assert 'cannot create resource "serviceaccounts/token"' in found["message"]
        await town.allow("jane", rule("create", "serviceaccounts/token", names="robot"))
        assert (await town.ask("jane", "POST", PATH, request()))[0] == 201
        assert (await town.ask("jane", "POST", f"{ACCOUNTS}/other/token", request()))[0] == 403
