from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from levelset.errors import ServerFailed
from levelset.storage import MemoryStorage
from tests.apiserver.roles import Town, open_town, rule

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SECRETS = "/api/v1/namespaces/default/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
ROBOT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
KEY = "/levelset/secrets/token-signing"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def token(town: Town, name: str = "robot", **spec: Any) -> str:
    tree = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    made = await town.own("POST", f"{ACCOUNTS}/{name}/token", tree)
    return str(made["status"]["token"])


async def use(town: Town, token: str, path: str = MAPS) -> int:
    return (await town.ask(None, "GET", path, headers={"Authorization": f"Bearer {token}"}))[0]


async def test_a_token_stands_for_its_account() -> None:
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        made = await token(town)
        assert await use(town, made) == 403
        await town.allow("robot", rule("list", "configmaps"), kind="ServiceAccount")
        assert await use(town, made) == 200


async def test_a_token_names_its_groups_its_uid_and_itself() -> None:
    async with open_town() as town:
        uid = (await town.own("POST", ACCOUNTS, ROBOT))["metadata"]["uid"]
        headers = {"Authorization": f"Bearer {await token(town)}"}
        tree = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        _, found = await town.ask(None, "POST", path, tree, headers=headers)
        user = found["status"]["userInfo"]
        assert (user["username"], user["uid"]) == ("system:serviceaccount:default:robot", uid)
        assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
        assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


async def test_a_token_ends_with_its_time() -> None:
    clock = Clock()
    async with open_town(now=clock) as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        made = await token(town, expirationSeconds=600)
        clock.now += timedelta(seconds=599)
        assert await use(town, made) == 403
        clock.now += timedelta(seconds=1)
        assert await use(town, made) == 401


async def test_a_token_ends_with_its_account_and_another_of_the_same_name_does_not_revive_it() -> None:
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        made = await token(town)
        assert await use(town, made) == 403
        await town.own("DELETE", f"{ACCOUNTS}/robot")
        assert await use(town, made) == 401
        await town.own("POST", ACCOUNTS, ROBOT)
        assert await use(town, made) == 401


async def test_an_account_that_is_being_deleted_is_gone() -> None:
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, {**ROBOT, "metadata": {"name": "robot", "finalizers": ["a.io/b"]}})
        made = await token(town)
        await town.own("DELETE", f"{ACCOUNTS}/robot")
        assert await use(town, made) == 401


async def test_a_token_that_is_bound_ends_with_the_object() -> None:
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        await town.own("POST", SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
        made = await token(town, boundObjectRef={"apiVersion": "v1", "kind": "Secret", "name": "s"})
        assert await use(town, made) == 403
        await town.own("DELETE", f"{SECRETS}/s")
        assert await use(town, made) == 401


async def test_a_token_for_another_audience_opens_nothing_here_but_can_be_reviewed() -> None:
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        made = await token(town, audiences=["vault", "other"])
        assert await use(town, made) == 401
        tree = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": made}}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        assert not (await town.own("POST", path, tree))["status"]["authenticated"]
        asked = {**tree, "spec": {"token": made, "audiences": ["vault", "third"]}}
        found = (await town.own("POST", path, asked))["status"]
        assert (found["authenticated"], found["audiences"]) == (True, ["vault"])


async def test_a_token_survives_a_restart_on_the_same_store_and_on_no_other() -> None:
    storage = MemoryStorage()
    async with open_town(storage=storage) as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        made = await token(town)
    async with open_town(storage=storage) as town:
        assert await use(town, made) == 403
    async with open_town() as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        await token(town)
        assert await use(town, made) == 401


async def test_the_secret_is_made_when_it_is_needed_and_out_of_reach() -> None:
    storage = MemoryStorage()
    async with open_town(storage=storage) as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        assert storage.get_nowait(KEY) is None
        await token(town)
        assert storage.get_nowait(KEY) is not None
        for path in (KEY, "/api/v1/levelset", "/api/levelset/secrets", "/levelset/secrets"):
            status, _ = await town.ask("root", "GET", path, groups=["system:masters"])
            assert status == 404


async def test_a_secret_that_is_damaged_is_told_and_not_replaced() -> None:
    storage = MemoryStorage()
    await storage.put(KEY, b'{"key":"AAAA"}', expected=0)
    with pytest.raises(ServerFailed, match="damaged"):
        async with open_town(storage=storage):
            pass


async def test_without_roles_an_account_is_known_and_may_do_nothing() -> None:
    async with open_town(rbac=False) as town:
        await town.own("POST", ACCOUNTS, ROBOT)
        made = await token(town)
        assert await use(town, made) == 403
        assert await use(town, made, "/api") == 200
