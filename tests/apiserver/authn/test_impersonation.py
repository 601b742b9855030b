from typing import Any

import pytest

from tests.apiserver.roles import Town, open_town, rule

AUTHENTICATION = "authentication.k8s.io"
SELF = f"/apis/{AUTHENTICATION}/v1/selfsubjectreviews"
REVIEW = {"apiVersion": f"{AUTHENTICATION}/v1", "kind": "SelfSubjectReview"}


async def become(town: Town, user: str, *headers: tuple[str, str], **more: Any) -> tuple[int, Any]:
    status, tree = await town.ask(user, "POST", SELF, REVIEW, headers=headers, **more)
    return status, tree["status"]["userInfo"] if status == 201 else tree["message"]


async def test_whoever_may_speak_for_a_user_is_that_user() -> None:
    async with open_town() as town:
        await town.allow("jane", rule("impersonate", "users", names="bob"), namespace=None)
        status, found = await become(town, "jane", ("Impersonate-User", "bob"))
        assert (status, found) == (201, {"username": "bob", "groups": ["system:authenticated"]})
        status, message = await become(town, "jane", ("Impersonate-User", "root"))
        assert status == 403
        assert message.startswith('users "root" is forbidden: User "jane" cannot impersonate resource "users" in API')
        assert message.endswith('group "" at the cluster scope')


@pytest.mark.parametrize(
    ("header", "needed", "told"),
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
async def test_every_header_needs_its_own_right(header: str, needed: Any, told: Any) -> None:
    async with open_town() as town:
        await town.allow("jane", rule("impersonate", "users"), namespace=None)
        headers = [("Impersonate-User", "bob"), (header, "x")]
        status, message = await become(town, "jane", *headers)
        assert status == 403
        assert "cannot impersonate" in message
        await town.allow("jane", needed, namespace=None)
        status, found = await become(town, "jane", *headers)
        assert status == 201
        assert {word: found[word] for word in told} == told
        assert (await become(town, "jane", headers[0], (header, "y")))[0] == 403


@pytest.mark.parametrize("header", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"])
async def test_without_a_user_nobody_is_anybody(header: str) -> None:
    async with open_town() as town:
        await town.allow("jane", rule("impersonate", "users groups"), namespace=None)
        status, message = await become(town, "jane", (header, "system:masters"))
        assert status == 403
        assert "Impersonate-User" in message


@pytest.mark.parametrize("header", ["Impersonate-User", "Impersonate-Uid"])
async def test_a_header_that_is_sent_twice_is_refused(header: str) -> None:
    async with open_town() as town:
        headers = [("Impersonate-User", "bob"), (header, "bob"), (header, "system:admin")]
        status, message = await become(town, "root", *headers, groups=["system:masters"])
        assert status == 400
        assert header.lower() in message


async def test_a_service_account_brings_its_groups() -> None:
    async with open_town() as town:
        await town.allow("jane", rule("impersonate", "serviceaccounts", names="robot"))
        user = ("Impersonate-User", "system:serviceaccount:default:robot")
        groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
        assert (await become(town, "jane", user))[1]["groups"] == groups
        assert (await become(town, "jane", ("Impersonate-User", "system:serviceaccount:other:robot")))[0] == 403
        assert (await become(town, "jane", ("Impersonate-User", "system:serviceaccount:default:x")))[0] == 403


async def test_speaking_for_nobody_is_not_to_be_known() -> None:
    async with open_town() as town:
        headers = {"Impersonate-User": "system:anonymous"}
        assert (await town.ask("root", "GET", "/api", groups=["system:masters"], headers=headers))[0] == 403
        assert (await town.ask("root", "GET", "/version", groups=["system:masters"], headers=headers))[0] == 200


async def test_the_owner_who_speaks_for_somebody_has_their_rights_only() -> None:
    async with open_town() as town:
        headers = {"Impersonate-User": "jane"}
        path = "/api/v1/namespaces/default/secrets"
        assert (await town.ask("root", "GET", path, groups=["system:masters"], headers=headers))[0] == 403


async def test_somebody_without_credentials_speaks_for_nobody() -> None:
    async with open_town() as town:
        status, tree = await town.ask(None, "GET", "/version", headers={"Impersonate-User": "root"})
        assert status == 403
        assert 'User "system:anonymous" cannot impersonate' in tree["message"]
