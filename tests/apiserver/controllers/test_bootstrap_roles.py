from typing import Any

from levelset.apiserver.controllers.bootstrap_roles import bootstrap_bindings, bootstrap_roles
from levelset.apiserver.registry.builtin.rbac import check_cluster_binding, check_cluster_role
from levelset.storage import MemoryStorage
from tests.apiserver.roles import RBAC, Town, binding, open_town

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SECRETS = "/api/v1/namespaces/default/secrets"
ROLES = f"{RBAC}/namespaces/default/roles"
JSON_PATCH = {"content-type": "application/merge-patch+json"}


def test_the_roles_and_bindings_are_such() -> None:
    assert [cause for tree in bootstrap_roles() for cause in check_cluster_role(tree, None)] == []
    assert [cause for tree in bootstrap_bindings() for cause in check_cluster_binding(tree, None)] == []
    known = {tree["metadata"]["name"] for tree in bootstrap_roles()}
    assert {tree["roleRef"]["name"] for tree in bootstrap_bindings()} <= known
    assert {"cluster-admin", "admin", "edit", "view", "system:basic-user", "system:discovery"} <= known


async def give(town: Town, user: str, role: str) -> None:
    tree = binding(user, role, user, ref="ClusterRole")
    await town.own("POST", f"{RBAC}/namespaces/default/rolebindings", tree)


async def test_view_looks_edit_changes_and_admin_lets_others() -> None:
    async with open_town() as town:
        for role in ("view", "edit", "admin", "cluster-admin"):
            await give(town, role, role)
        asked = [("GET", DEPLOYMENTS), ("GET", SECRETS), ("DELETE", DEPLOYMENTS), ("GET", ROLES)]
        asked += [("DELETE", "/api/v1/namespaces/default/resourcequotas")]
        expected = {
            "view": [200, 403, 403, 403, 403],
            "edit": [200, 200, 200, 403, 403],
            "admin": [200, 200, 200, 200, 403],
            "cluster-admin": [200] * 5,
        }
        for role, statuses in expected.items():
            assert [(await town.ask(role, *one))[0] for one in asked] == statuses, role
            assert (await town.ask(role, "GET", "/api/v1/nodes"))[0] == 403


async def annotate(town: Town, name: str, change: Any) -> None:
    await town.own("PATCH", f"{RBAC}/clusterroles/{name}", change, headers=JSON_PATCH)


async def test_a_start_puts_back_what_is_missing_and_keeps_what_was_added() -> None:
    storage, mine = MemoryStorage(), {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
    async with open_town(storage=storage) as town:
        await annotate(town, "system:basic-user", {"rules": [mine]})
        frozen = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}}
        await annotate(town, "system:discovery", {**frozen, "rules": []})
        await town.own("DELETE", f"{RBAC}/clusterrolebindings/cluster-admin")
    async with open_town(storage=storage) as town:
        rules = (await town.own("GET", f"{RBAC}/clusterroles/system:basic-user"))["rules"]
        assert rules[0] == mine
        assert len(rules) == 3
        assert not (await town.own("GET", f"{RBAC}/clusterroles/system:discovery")).get("rules")
        await town.own("GET", f"{RBAC}/clusterrolebindings/cluster-admin")


async def test_a_second_start_writes_nothing() -> None:
    storage = MemoryStorage()
    async with open_town(storage=storage) as town:
        await town.server.idle()
    before = storage.revision
    async with open_town(storage=storage) as town:
        await town.server.idle()
    assert storage.revision == before


async def test_without_rbac_there_are_no_roles() -> None:
    async with open_town(rbac=False) as town:
        assert (await town.own("GET", f"{RBAC}/clusterroles"))["items"] == []
