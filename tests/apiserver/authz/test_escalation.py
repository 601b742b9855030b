import pytest

from levelset.apiserver.authz.escalation import MAX_PERMISSIONS, missing_permissions
from levelset.apiserver.authz.rbac import Grant, Grants, read_rule
from tests.apiserver.support.rbac_server import RBAC, RbacServer, binding, open_rbac_server, role, rule

GROUP = "rbac.authorization.k8s.io"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
WRITE = "get list create update patch"


async def let_write_roles(api: RbacServer, *more: object) -> None:
    rules = [rule(WRITE, "roles rolebindings", group=GROUP), rule("get list", "configmaps")]
    await api.grant("jane", *rules, *more)


async def test_a_role_can_only_contain_permissions_of_its_author() -> None:
    async with open_rbac_server() as api:
        await let_write_roles(api)
        assert (await api.request("jane", "POST", ROLES, role("a", rule("get", "configmaps"))))[0] == 201
        status, tree = await api.request("jane", "POST", ROLES, role("b", rule("get watch", "configmaps secrets")))
        assert (status, tree["details"]) == (403, {"name": "b", "group": GROUP, "kind": "roles"})
        assert tree["message"] == (
            f'roles.{GROUP} "b" is forbidden: user "jane" (groups=["system:authenticated"]) is attempting to grant RBAC'
            " permissions not currently held:\n"
            '{APIGroups:[""], Resources:["configmaps"], Verbs:["watch"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "watch"]}'
        )


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_an_update_cannot_add_permissions_that_the_user_lacks(method: str) -> None:
    async with open_rbac_server() as api:
        await let_write_roles(api)
        await api.request_as_owner("POST", ROLES, role("a", rule("get", "configmaps")))
        headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
        wider = role("a", rule("*", "configmaps"))
        assert (await api.request("jane", method, f"{ROLES}/a", wider, headers=headers))[0] == 403
        narrower = role("a", rule("list", "configmaps"))
        assert (await api.request("jane", method, f"{ROLES}/a", narrower, headers=headers))[0] == 200


@pytest.mark.parametrize("name", ["cluster-admin", "admin"])
async def test_labeling_a_role_for_aggregation_needs_its_permissions(name: str) -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("get update patch", "clusterroles", group=GROUP), namespace=None)
        headers = {"content-type": "application/merge-patch+json"}
        patch = {"metadata": {"labels": {f"{GROUP}/aggregate-to-view": "true"}}}
        assert (await api.request("jane", "PATCH", f"{RBAC}/clusterroles/{name}", patch, headers=headers))[0] == 403


async def test_finalizers_of_a_role_can_be_removed_without_its_permissions() -> None:
    async with open_rbac_server() as api:
        await let_write_roles(api)
        await api.request_as_owner("POST", ROLES, role("a", rule("*", "*"), metadata={"finalizers": ["a.io/b"]}))
        patch, headers = {"metadata": {"finalizers": None}}, {"content-type": "application/merge-patch+json"}
        assert (await api.request("jane", "PATCH", f"{ROLES}/a", patch, headers=headers))[0] == 200


async def test_the_verb_escalate_allows_any_role() -> None:
    async with open_rbac_server() as api:
        await let_write_roles(api, rule("escalate", "roles", group=GROUP))
        assert (await api.request("jane", "POST", ROLES, role("b", rule("*", "*"))))[0] == 201


@pytest.mark.parametrize("apply", [False, True])
async def test_a_binding_can_only_grant_permissions_of_its_author(apply: bool) -> None:
    async with open_rbac_server() as api:
        await let_write_roles(api)
        tree = binding("z", "cluster-admin", "jane", ref="ClusterRole")
        if apply:
            headers = {"content-type": "application/apply-patch+yaml"}
            found = await api.request("jane", "PATCH", f"{BINDINGS}/z", tree, headers=headers, fieldManager="m")
        else:
            found = await api.request("jane", "POST", BINDINGS, tree)
        assert found[0] == 403
        await api.request_as_owner("POST", ROLES, role("a", rule("get", "configmaps")))
        assert (await api.request("jane", "POST", BINDINGS, binding("y", "a", "bob")))[0] == 201


async def test_adding_a_subject_to_a_binding_needs_the_permissions_of_the_role() -> None:
    async with open_rbac_server() as api:
        await let_write_roles(api)
        await api.request_as_owner("POST", BINDINGS, binding("z", "admin", "root", ref="ClusterRole"))
        joined = binding("z", "admin", "root", "jane", ref="ClusterRole")
        assert (await api.request("jane", "PUT", f"{BINDINGS}/z", joined))[0] == 403


async def test_the_verb_bind_allows_bindings_of_the_named_roles() -> None:
    async with open_rbac_server() as api:
        await let_write_roles(api, rule("bind", "clusterroles", group=GROUP, names="view"))
        assert (await api.request("jane", "POST", BINDINGS, binding("a", "view", "bob", ref="ClusterRole")))[0] == 201
        assert (await api.request("jane", "POST", BINDINGS, binding("b", "edit", "bob", ref="ClusterRole")))[0] == 403


async def test_a_missing_role_cannot_be_bound_without_the_verb_bind() -> None:
    async with open_rbac_server() as api:
        await let_write_roles(api)
        status, tree = await api.request("jane", "POST", BINDINGS, binding("a", "later", "jane"))
        assert (status, tree["message"]) == (404, f'roles.{GROUP} "later" not found')


async def test_an_aggregated_role_needs_all_permissions() -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("*", "clusterroles", group=GROUP), rule("get", "pods"), namespace=None)
        selectors = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
        tree = role("sum", cluster=True, aggregationRule=selectors)
        assert (await api.request("jane", "POST", f"{RBAC}/clusterroles", tree))[
            0
        ] == 201  # every verb is escalate, too
        verbs = "create get list update patch"
        await api.grant("bob", rule(verbs, "clusterroles", group=GROUP), namespace=None)
        tree = role("sum2", cluster=True, aggregationRule=selectors)
        status, found = await api.request("bob", "POST", f"{RBAC}/clusterroles", tree)
        assert status == 403
        assert found["message"].endswith("must have cluster-admin privileges to use the aggregationRule")


async def test_non_resource_urls_are_checked_for_escalation() -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("create", "clusterroles", group=GROUP), namespace=None)
        paths = {"verbs": ["get"], "nonResourceURLs": ["/api/v1", "/metrics"]}
        status, tree = await api.request("jane", "POST", f"{RBAC}/clusterroles", role("p", paths, cluster=True))
        assert status == 403
        assert tree["message"].endswith('held:\n{NonResourceURLs:["/metrics"], Verbs:["get"]}')


async def test_a_role_with_millions_of_permissions_is_rejected_at_once() -> None:
    async with open_rbac_server() as api:
        await let_write_roles(api)
        many = [f"x{number}" for number in range(300)]
        tree = role("bomb", {"verbs": many, "apiGroups": many, "resources": many})
        status, found = await api.request("jane", "POST", ROLES, tree)
        assert status == 403
        assert "too many to compare" in found["message"]


def test_a_rule_covered_by_one_rule_can_have_any_number_of_permissions() -> None:
    many = [f"x{number}" for number in range(MAX_PERMISSIONS)]
    wanted = read_rule({"verbs": many, "apiGroups": many, "resources": many})
    held = Grants([Grant(read_rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}), "b")])
    assert list(missing_permissions(held, [wanted])) == []


def test_permissions_can_be_covered_by_several_rules_together() -> None:
    held = Grants([Grant(read_rule(rule("get", "pods", names=name)), "b") for name in ("a", "b")])
    assert list(missing_permissions(held, [read_rule(rule("get", "pods", names="a b"))])) == []
    assert list(missing_permissions(held, [read_rule(rule("get", "pods"))])) == [("get", "", "pods", "", "")]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_an_update_or_apply_that_creates_needs_permission_to_create(method: str) -> None:
    async with open_rbac_server() as api:
        await api.grant("jane", rule("update patch", "leases", group="coordination.k8s.io"))
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
        tree = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
        headers = {"content-type": "application/apply-patch+yaml"} if method == "PATCH" else {}
        status, found = await api.request("jane", method, path, tree, headers=headers, fieldManager="m")
        assert status == 403
        assert 'User "jane" cannot create resource "leases"' in found["message"]
        await api.grant("jane", rule("create", "leases", group="coordination.k8s.io"))
        assert (await api.request("jane", method, path, tree, headers=headers, fieldManager="m"))[0] == 201
