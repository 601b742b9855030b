from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from levelset.errors import ServerFailed
from levelset.storage import MemoryStorage
from tests.apiserver.support.rbac_server import RbacServer, open_rbac_server, rule

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


async def token(api: RbacServer, name: str = "robot", **spec: Any) -> str:
    tree = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    made = await api.request_as_owner("POST", f"{ACCOUNTS}/{name}/token", tree)
    return str(made["status"]["token"])


async def use(api: RbacServer, token: str, path: str = MAPS) -> int:
    return (await api.request(None, "GET", path, headers={"Authorization": f"Bearer {token}"}))[0]


async def test_a_token_authenticates_its_service_account() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        made = await token(api)
        assert await use(api, made) == 403
        await api.grant("robot", rule("list", "configmaps"), kind="ServiceAccount")
        assert await use(api, made) == 200


async def test_a_token_user_has_groups_uid_and_credential_id() -> None:
    async with open_rbac_server() as api:
        uid = (await api.request_as_owner("POST", ACCOUNTS, ROBOT))["metadata"]["uid"]
        headers = {"Authorization": f"Bearer {await token(api)}"}
        tree = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        _, found = await api.request(None, "POST", path, tree, headers=headers)
        user = found["status"]["userInfo"]
        assert (user["username"], user["uid"]) == ("system:serviceaccount:default:robot", uid)
        assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
        assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")


async def test_a_token_expires() -> None:
    clock = Clock()
    async with open_rbac_server(now=clock) as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        made = await token(api, expirationSeconds=600)
        clock.now += timedelta(seconds=599)
        assert await use(api, made) == 403
        clock.now += timedelta(seconds=1)
        assert await use(api, made) == 401


async def test_a_token_is_revoked_with_its_account_even_if_the_name_is_used_again() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        made = await token(api)
        assert await use(api, made) == 403
        await api.request_as_owner("DELETE", f"{ACCOUNTS}/robot")
        assert await use(api, made) == 401
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        assert await use(api, made) == 401


async def test_a_token_of_an_account_that_is_being_deleted_is_invalid() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, {**ROBOT, "metadata": {"name": "robot", "finalizers": ["a.io/b"]}})
        made = await token(api)
        await api.request_as_owner("DELETE", f"{ACCOUNTS}/robot")
        assert await use(api, made) == 401


async def test_a_bound_token_is_revoked_with_its_object() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        await api.request_as_owner("POST", SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
        made = await token(api, boundObjectRef={"apiVersion": "v1", "kind": "Secret", "name": "s"})
        assert await use(api, made) == 403
        await api.request_as_owner("DELETE", f"{SECRETS}/s")
        assert await use(api, made) == 401


async def test_a_token_for_another_audience_is_rejected_but_can_be_reviewed() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        made = await token(api, audiences=["vault", "other"])
        assert await use(api, made) == 401
        tree = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": made}}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        assert not (await api.request_as_owner("POST", path, tree))["status"].get("authenticated")
        review = {**tree, "spec": {"token": made, "audiences": ["vault", "third"]}}
        found = (await api.request_as_owner("POST", path, review))["status"]
        assert (found["authenticated"], found["audiences"]) == (True, ["vault"])


async def test_a_token_survives_a_restart_only_on_the_same_store() -> None:
    storage = MemoryStorage()
    async with open_rbac_server(storage=storage) as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        made = await token(api)
    async with open_rbac_server(storage=storage) as api:
        assert await use(api, made) == 403
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        await token(api)
        assert await use(api, made) == 401


async def test_the_signing_key_is_created_on_demand_and_cannot_be_read_by_requests() -> None:
    storage = MemoryStorage()
    async with open_rbac_server(storage=storage) as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        assert storage.get_nowait(KEY) is None
        await token(api)
        assert storage.get_nowait(KEY) is not None
        for path in (KEY, "/api/v1/levelset", "/api/levelset/secrets", "/levelset/secrets"):
            status, _ = await api.request("root", "GET", path, groups=["system:masters"])
            assert status == 404


async def test_a_damaged_signing_key_is_an_error_and_not_replaced() -> None:
    storage = MemoryStorage()
    await storage.put(KEY, b'{"key":"AAAA"}', expected=0)
    with pytest.raises(ServerFailed, match="damaged"):
        async with open_rbac_server(storage=storage):
            pass


async def test_without_rbac_a_service_account_is_authenticated_and_may_do_nothing() -> None:
    async with open_rbac_server(rbac=False) as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        made = await token(api)
        assert await use(api, made) == 403
        assert await use(api, made, "/api") == 200


async def test_a_clock_that_jumps_ends_tokens_or_makes_them_wait_and_new_ones_work_at_once() -> None:
    clock = Clock()
    async with open_rbac_server(now=clock) as api:
        await api.request_as_owner("POST", ACCOUNTS, ROBOT)
        made = await token(api, expirationSeconds=600)
        clock.now -= timedelta(seconds=59)  # a correction of the clock
        assert await use(api, made) == 403
        clock.now -= timedelta(days=1)  # it is of the future now
        assert await use(api, made) == 401
        assert await use(api, await token(api)) == 403
        clock.now += timedelta(days=3)
        assert await use(api, made) == 401
        assert await use(api, await token(api)) == 403
