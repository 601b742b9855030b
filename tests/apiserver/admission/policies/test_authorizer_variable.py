"""The CEL variable `authorizer`: what the user of a request, or a service account, may do."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.authorizer_variable import authorizer_values, request_user
from levelset.cel import compile_rule, policy_declarations
from tests.apiserver.support.rbac_server import open_rbac_server, rule

REQUEST = {
    "userInfo": {"username": "jane", "groups": ["team"], "extra": {"k": ["v"]}},
    "requestResource": {"group": "", "version": "v1", "resource": "pods"},
    "namespace": "default",
    "name": "a",
}
OWN = "authorizer.requestResource.check('get').allowed()"
OTHER = "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"
ACCOUNT = "authorizer.serviceAccount('default', 'robot').group('').resource('pods').namespace('default')"


def evaluate(state: Any, expression: str, request: Any = REQUEST) -> Any:
    return compile_rule(expression, policy_declarations(), None)(authorizer_values(state, request))


async def test_rbac_decides_for_the_user_and_for_service_accounts() -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("get", "pods"))
        await api.grant("robot", rule("list", "pods"), kind="ServiceAccount")
        state = api.server.state
        assert evaluate(state, OWN) is True
        assert evaluate(state, OTHER) is False
        assert evaluate(state, f"{ACCOUNT}.check('list').allowed()") is True
        assert evaluate(state, f"{ACCOUNT}.check('get').allowed()") is False
        assert "RoleBinding" in evaluate(state, "authorizer.requestResource.check('get').reason()")
        assert evaluate(state, "authorizer.path('/metrics').check('get').allowed()") is False


@pytest.mark.parametrize(("groups", "allowed"), [(["system:masters"], True), (["team"], False)])
async def test_without_rbac_the_admin_may_do_everything_and_others_nothing(groups: list[str], *, allowed: bool) -> None:
    async with open_rbac_server(rbac=False) as api:
        request = {**REQUEST, "userInfo": {"username": "x", "groups": groups}}
        for expression in (OWN, OTHER, "authorizer.path('/metrics').check('get').allowed()"):
            assert evaluate(api.server.state, expression, request) is allowed


def test_the_user_comes_from_the_review_request() -> None:
    caller = request_user(REQUEST)
    assert (caller.name, caller.groups, caller.extra) == ("jane", ("team",), (("k", ("v",)),))
