from typing import Any

import pytest

from tests.apiserver.support.admission_plugins import RecordingPlugin, adding
from tests.apiserver.support.admission_policies import enforce_policy, validating
from tests.apiserver.support.admission_policies import rule as covers
from tests.apiserver.support.in_process_server import open_server
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
        (request(boundObjectRef={"kind": "Secret", "apiVersion": "v1"}), 400),
        (request(boundObjectRef={"kind": "pod", "apiVersion": "v1", "name": "p"}), 400),
        (request(boundObjectRef={"kind": "Pod", "apiVersion": "apps/v1", "name": "p"}), 400),
        (request(boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "../../other/secrets/s"}), 404),
        (request(boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "of-another-namespace"}), 404),
        (request(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"}), 400),
        (request(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "x"}), 409),
        ({**request(), "metadata": {"name": "other"}}, 422),
        ({**request(), "metadata": {"namespace": "other"}}, 400),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, 400),
        ([], 400),
    ],
)
async def test_an_invalid_token_request_is_rejected(tree: Any, status: int) -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        await api.request_as_owner("POST", "/api/v1/namespaces/default/pods", POD)
        await api.request_as_owner("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        for name in ("s", "of-another-namespace"):
            await api.request_as_owner("POST", "/api/v1/namespaces/other/secrets", {"metadata": {"name": name}})
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


async def test_policies_decide_about_tokens() -> None:
    match = {"resourceRules": [covers("serviceaccounts/token", operations=["CREATE"])]}
    expression = "object.spec.expirationSeconds <= 3600 && object.spec.audiences == ['https://kubernetes.default.svc']"
    async with open_server() as api:
        await api.create(ACCOUNTS, ROBOT)
        await enforce_policy(api, validating(expression, match=match))
        assert (await api.request("POST", PATH, request()))[0] == 201
        assert (await api.request("POST", PATH, request(expirationSeconds=7200)))[0] == 422
        assert (await api.request("POST", PATH, request(audiences=["vault"])))[0] == 422


async def test_webhooks_see_the_user_who_requests_a_token_and_may_shorten_it() -> None:
    seeing = RecordingPlugin(plural="serviceaccounts")
    shorten = _of_tokens(adding("/spec/expirationSeconds", 600))
    changing = RecordingPlugin(shorten, plural="serviceaccounts", mutates=True)
    async with open_rbac_server(admission=[seeing, changing]) as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        await api.grant("jane", rule("create", "serviceaccounts/token"))
        status, found = await api.request("jane", "POST", PATH, request(expirationSeconds=7200))
    assert (status, found["spec"]["expirationSeconds"]) == (201, 600)
    seen = seeing.requests[-1]
    assert (seen["subResource"], seen["name"], seen["userInfo"]["username"]) == ("token", "robot", "jane")
    assert seen["kind"] == {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
    assert seen["object"]["spec"] == {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 600}


def _of_tokens(respond: Any) -> Any:
    return lambda seen: respond(seen) if seen.get("subResource") == "token" else {}


@pytest.mark.parametrize(("value", "status"), [(599, 422), (1 << 33, 422), ("long", 400)])
async def test_what_a_webhook_leaves_of_a_token_request_is_checked_again(value: Any, status: int) -> None:
    plugin = RecordingPlugin(
        _of_tokens(adding("/spec/expirationSeconds", value)), plural="serviceaccounts", mutates=True
    )
    async with open_server(admission=[plugin]) as api:
        await api.create(ACCOUNTS, ROBOT)
        assert (await api.request("POST", PATH, request()))[0] == status


async def test_an_impersonated_user_gets_only_the_tokens_that_this_user_may_request() -> None:
    robot, other = "system:serviceaccount:default:robot", f"{ACCOUNTS}/other/token"
    async with open_rbac_server() as api:
        for name in ("robot", "other"):
            await api.request_as_owner("POST", ACCOUNTS, {"metadata": {"name": name}})
        await api.grant("jane", rule("impersonate", "serviceaccounts", names="robot"))
        await api.grant(robot, rule("create", "serviceaccounts/token", names="other"))
        assert (await api.request("jane", "POST", other, request()))[0] == 403
        assert (await api.request("jane", "POST", other, request(), headers={"Impersonate-User": robot}))[0] == 201
        assert (await api.request("jane", "POST", PATH, request(), headers={"Impersonate-User": robot}))[0] == 403
        for name in ("system:serviceaccount:default:other", "system:serviceaccount:kube-system:robot", "root"):
            assert (await api.request("jane", "POST", other, request(), headers={"Impersonate-User": name}))[0] == 403
        # Also the owner has no more than the user who is impersonated.
        assert (
            await api.request(
                "root", "POST", PATH, request(), groups=["system:masters"], headers={"Impersonate-User": robot}
            )
        )[0] == 403
