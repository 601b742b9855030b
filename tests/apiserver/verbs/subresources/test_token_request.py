from typing import Any

import pytest

from tests.apiserver.support.rbac_server import RbacServer, open_rbac_server, rule

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


async def post(api: RbacServer, tree: Any, path: str = PATH) -> tuple[int, Any]:
    return await api.request("root", "POST", path, tree, groups=["system:masters"])


async def test_missing_fields_of_a_token_request_are_defaulted() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        status, found = await post(api, request())
        assert status == 201
        defaulted = {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600, "boundObjectRef": None}
        assert found["spec"] == defaulted
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
async def test_an_invalid_token_request_is_rejected(tree: Any, status: int) -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        await api.request_as_owner("POST", "/api/v1/namespaces/default/pods", POD)
        assert (await post(api, tree))[0] == status


async def test_a_missing_service_account_gets_no_token() -> None:
    async with open_rbac_server() as api:
        status, found = await post(api, request())
        assert (status, found["details"]) == (404, {"name": "robot", "kind": "serviceaccounts"})


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_only_post_is_allowed_for_token(method: str) -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        assert (await api.request("root", method, PATH, request(), groups=["system:masters"]))[0] == 405


async def test_writing_service_accounts_does_not_permit_issuing_tokens() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        await api.grant("jane", rule("*", "serviceaccounts"))
        status, found = await api.request("jane", "POST", PATH, request())
        assert status == 403
        assert 'cannot create resource "serviceaccounts/token"' in found["message"]
        await api.grant("jane", rule("create", "serviceaccounts/token", names="robot"))
        assert (await api.request("jane", "POST", PATH, request()))[0] == 201
        assert (await api.request("jane", "POST", f"{ACCOUNTS}/other/token", request()))[0] == 403
