from typing import Any

import pytest

from tests.apiserver.support.rbac_server import RbacServer, open_rbac_server, rule

AUTHENTICATION = "authentication.k8s.io"
SELF = f"/apis/{AUTHENTICATION}/v1/selfsubjectreviews"
REVIEW = {"apiVersion": f"{AUTHENTICATION}/v1", "kind": "SelfSubjectReview"}


async def become(api: RbacServer, user: str, *headers: tuple[str, str], **more: Any) -> tuple[int, Any]:
    status, tree = await api.request(user, "POST", SELF, REVIEW, headers=headers, **more)
    return status, tree["status"]["userInfo"] if status == 201 else tree["message"]


async def test_a_user_with_permission_impersonates_another_user() -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("impersonate", "users", names="bob"), namespace=None)
        status, found = await become(api, "jane", ("Impersonate-User", "bob"))
        assert (status, found) == (201, {"username": "bob", "groups": ["system:authenticated"]})
        status, message = await become(api, "jane", ("Impersonate-User", "root"))
        assert status == 403
        assert message.startswith('users "root" is forbidden: User "jane" cannot impersonate resource "users" in API')
        assert message.endswith('group "" at the cluster scope')


@pytest.mark.parametrize(
    ("header", "needed", "expected"),
    [
        ("Impersonate-Group", rule("impersonate", "groups", names="x"), {"groups": ["x", "system:authenticated"]}),
        ("Impersonate-Uid", rule("impersonate", "uids", group=AUTHENTICATION, names="x"), {"uid": "x"}),
        (
            "Impersonate-Extra-Acme.com%2Fteam",
            rule("impersonate", "userextras/acme.com/team", group=AUTHENTICATION, names="x"),
            {"extra": {"acme.com/team": ["x"]}},
        ),
    ],
)
async def test_every_impersonation_header_needs_its_own_permission(header: str, needed: Any, expected: Any) -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("impersonate", "users"), namespace=None)
        headers = [("Impersonate-User", "bob"), (header, "x")]
        status, message = await become(api, "jane", *headers)
        assert status == 403
        assert "cannot impersonate" in message
        await api.grant("jane", needed, namespace=None)
        status, found = await become(api, "jane", *headers)
        assert status == 201
        assert {word: found[word] for word in expected} == expected
        assert (await become(api, "jane", headers[0], (header, "y")))[0] == 403


@pytest.mark.parametrize("header", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"])
async def test_impersonation_without_a_user_is_a_bad_request(header: str) -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("impersonate", "users groups"), namespace=None)
        status, message = await become(api, "jane", (header, "system:masters"))
        assert status == 400
        assert "Impersonate-User" in message


@pytest.mark.parametrize("header", ["Impersonate-User", "Impersonate-Uid"])
async def test_an_impersonation_header_sent_twice_is_a_bad_request(header: str) -> None:
    async with open_rbac_server() as api:
        headers = [("Impersonate-User", "bob"), (header, "bob"), (header, "system:admin")]
        status, message = await become(api, "root", *headers, groups=["system:masters"])
        assert status == 400
        assert header.lower() in message


async def test_an_impersonated_service_account_has_its_groups() -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("impersonate", "serviceaccounts", names="robot"))
        user = ("Impersonate-User", "system:serviceaccount:default:robot")
        groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
        assert (await become(api, "jane", user))[1]["groups"] == groups
        assert (await become(api, "jane", ("Impersonate-User", "system:serviceaccount:other:robot")))[0] == 403
        assert (await become(api, "jane", ("Impersonate-User", "system:serviceaccount:default:x")))[0] == 403


async def test_the_impersonated_anonymous_user_is_unauthenticated() -> None:
    async with open_rbac_server() as api:
        headers = {"Impersonate-User": "system:anonymous"}
        assert (await api.request("root", "GET", "/api", groups=["system:masters"], headers=headers))[0] == 403
        assert (await api.request("root", "GET", "/version", groups=["system:masters"], headers=headers))[0] == 200


async def test_the_admin_who_impersonates_has_only_the_permissions_of_that_user() -> None:
    async with open_rbac_server() as api:
        headers = {"Impersonate-User": "jane"}
        path = "/api/v1/namespaces/default/secrets"
        assert (await api.request("root", "GET", path, groups=["system:masters"], headers=headers))[0] == 403


async def test_a_request_without_credentials_cannot_impersonate() -> None:
    async with open_rbac_server() as api:
        status, tree = await api.request(None, "GET", "/version", headers={"Impersonate-User": "root"})
        assert status == 403
        assert 'User "system:anonymous" cannot impersonate' in tree["message"]
