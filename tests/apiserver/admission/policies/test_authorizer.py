"""The variable `authorizer`: what the sender of a request, or somebody else, may do."""

from typing import Any

import pytest

from levelset.apiserver.admission.policies.authorizer import authorizer_values, sender_of
from levelset.cel import compile_rule, policy_declarations
from tests.apiserver.roles import open_town, rule

REQUEST = {
    "userInfo": {"username": "jane", "groups": ["team"], "extra": {"k": ["v"]}},
    "requestResource": {"group": "", "version": "v1", "resource": "pods"},
    "namespace": "default",
    "name": "a",
}
OWN = "authorizer.requestResource.check('get').allowed()"
OTHER = "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"
ACCOUNT = "authorizer.serviceAccount('default', 'robot').group('').resource('pods').namespace('default')"


def asked(world: Any, expression: str, request: Any = REQUEST) -> Any:
    return compile_rule(expression, policy_declarations(), None)(authorizer_values(world, request))


async def test_roles_decide_what_the_sender_and_accounts_may_do() -> None:
    async with open_town() as town:
        await town.allow("jane", rule("get", "pods"))
        await town.allow("robot", rule("list", "pods"), kind="ServiceAccount")
        world = town.server.world
        assert asked(world, OWN) is True
        assert asked(world, OTHER) is False
        assert asked(world, f"{ACCOUNT}.check('list').allowed()") is True
        assert asked(world, f"{ACCOUNT}.check('get').allowed()") is False
        assert "RoleBinding" in asked(world, "authorizer.requestResource.check('get').reason()")
        assert asked(world, "authorizer.path('/metrics').check('get').allowed()") is False


@pytest.mark.parametrize(("groups", "allowed"), [(["system:masters"], True), (["team"], False)])
async def test_without_roles_the_owner_may_do_everything_and_others_nothing(
    groups: list[str], *, allowed: bool
) -> None:
    async with open_town(rbac=False) as town:
        request = {**REQUEST, "userInfo": {"username": "x", "groups": groups}}
        for expression in (OWN, OTHER, "authorizer.path('/metrics').check('get').allowed()"):
            assert asked(town.server.world, expression, request) is allowed


def test_the_sender_is_who_the_request_says() -> None:
    caller = sender_of(REQUEST)
    assert (caller.name, caller.groups, caller.extra) == ("jane", ("team",), (("k", ("v",)),))
