import random
from datetime import UTC, datetime
from typing import Any

from scripts.record_bootstrap import PATHS, plain, stored

from levelset.apiserver import ApiServer
from levelset.apiserver.controllers.bootstrap_roles import bootstrap_objects
from levelset.apiserver.registry.builtin.rules.rbac_rules import CLUSTER_ROLE, CLUSTER_ROLE_BINDING
from levelset.objects import decode_tree
from levelset.storage import MemoryStorage
from tests.apiserver.support.rbac_server import RBAC, RbacServer, binding, open_rbac_server

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SECRETS = "/api/v1/namespaces/default/secrets"
ROLES = f"{RBAC}/namespaces/default/roles"
JSON_PATCH = {"content-type": "application/merge-patch+json"}


def test_the_default_roles_and_bindings_are_valid() -> None:
    roles, bindings = bootstrap_objects("clusterroles"), bootstrap_objects("clusterrolebindings")
    assert [cause for tree in roles for cause in CLUSTER_ROLE.validate(tree, None)] == []
    assert [cause for tree in bindings for cause in CLUSTER_ROLE_BINDING.validate(tree, None)] == []
    known = {tree["metadata"]["name"] for tree in roles}
    assert {tree["roleRef"]["name"] for tree in bindings} <= known
    assert {"cluster-admin", "admin", "edit", "view", "system:basic-user", "system:discovery"} <= known


async def test_the_recorded_objects_are_what_a_create_of_them_stores() -> None:
    # If this fails after a change of these kinds: python -m scripts.record_bootstrap --again
    recorded = {plural: bootstrap_objects(plural) for plural in PATHS}
    assert await stored({plural: [plain(one) for one in trees] for plural, trees in recorded.items()}) == recorded


async def test_they_are_stored_with_uids_and_times_of_their_own() -> None:
    storage, now = MemoryStorage(), datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
    server = ApiServer(storage, rbac=True, cluster_defaults=True, now=lambda: now, random=random.Random(1))
    await server.start(listen=False)
    try:
        found = [decode_tree(one.value) for one in (await storage.list("/registry/")).items]
    finally:
        await server.stop()
    names = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in found}
    wanted = [tree for plural in PATHS for tree in bootstrap_objects(plural)]
    served = [one for one in wanted if one["kind"] != "APIService"]
    assert {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in served} <= names
    assert len({one["metadata"]["uid"] for one in found}) == len(found)
    assert {one["metadata"]["creationTimestamp"] for one in found} == {"2031-05-06T07:08:09Z"}
    times = {entry["time"] for one in found for entry in one["metadata"].get("managedFields", ())}
    assert times == {"2031-05-06T07:08:09Z"}


async def give(api: RbacServer, user: str, role: str) -> None:
    tree = binding(user, role, user, ref="ClusterRole")
    await api.request_as_owner("POST", f"{RBAC}/namespaces/default/rolebindings", tree)


async def test_view_reads_edit_writes_and_admin_grants() -> None:
    async with open_rbac_server() as api:
        for role in ("view", "edit", "admin", "cluster-admin"):
            await give(api, role, role)
        requests = [("GET", DEPLOYMENTS), ("GET", SECRETS), ("DELETE", DEPLOYMENTS), ("GET", ROLES)]
        requests += [("DELETE", "/api/v1/namespaces/default/resourcequotas")]
        expected = {
            "view": [200, 403, 403, 403, 403],
            "edit": [200, 200, 200, 403, 403],
            "admin": [200, 200, 200, 200, 403],
            "cluster-admin": [200] * 5,
        }
        for role, statuses in expected.items():
            assert [(await api.request(role, *one))[0] for one in requests] == statuses, role
            assert (await api.request(role, "GET", "/api/v1/nodes"))[0] == 403


async def annotate(api: RbacServer, name: str, change: Any) -> None:
    await api.request_as_owner("PATCH", f"{RBAC}/clusterroles/{name}", change, headers=JSON_PATCH)


async def test_a_start_restores_missing_rules_and_retains_added_ones() -> None:
    storage, mine = MemoryStorage(), {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
    async with open_rbac_server(storage=storage) as api:
        await annotate(api, "system:basic-user", {"rules": [mine]})
        frozen = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}}
        await annotate(api, "system:discovery", {**frozen, "rules": []})
        await api.request_as_owner("DELETE", f"{RBAC}/clusterrolebindings/cluster-admin")
    async with open_rbac_server(storage=storage) as api:
        rules = (await api.request_as_owner("GET", f"{RBAC}/clusterroles/system:basic-user"))["rules"]
        assert rules[0] == mine
        assert len(rules) == 3
        assert not (await api.request_as_owner("GET", f"{RBAC}/clusterroles/system:discovery")).get("rules")
        await api.request_as_owner("GET", f"{RBAC}/clusterrolebindings/cluster-admin")


async def test_a_second_start_writes_nothing() -> None:
    storage = MemoryStorage()
    async with open_rbac_server(storage=storage) as api:
        await api.server.idle()
    before = storage.revision
    async with open_rbac_server(storage=storage) as api:
        await api.server.idle()
    assert storage.revision == before


async def test_without_rbac_there_are_no_default_roles() -> None:
    async with open_rbac_server(rbac=False) as api:
        assert (await api.request_as_owner("GET", f"{RBAC}/clusterroles"))["items"] == []
