import pytest

from levelset.apiserver.authz.escalation import MOST_COMBINATIONS, missing_rights
from levelset.apiserver.authz.rbac import Grant, Grants, read_rule
from tests.apiserver.roles import RBAC, Town, binding, open_town, role, rule

GROUP = "rbac.authorization.k8s.io"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
WRITE = "get list create update patch"


async def let_write_roles(town: Town, *more: object) -> None:
    rules = [rule(WRITE, "roles rolebindings", group=GROUP), rule("get list", "configmaps")]
    await town.allow("jane", *rules, *more)


async def test_a_role_may_hold_what_its_author_holds_and_nothing_more() -> None:
    async with open_town() as town:
        await let_write_roles(town)
        assert (await town.ask("jane", "POST", ROLES, role("a", rule("get", "configmaps"))))[0] == 201
        status, tree = await town.ask("jane", "POST", ROLES, role("b", rule("get watch", "configmaps secrets")))
        assert (status, tree["details"]) == (403, {"name": "b", "group": GROUP, "kind": "roles"})
        assert tree["message"] == (
            f'roles.{GROUP} "b" is forbidden: user "jane" (groups=["system:authenticated"]) is attempting to grant RBAC'
            " permissions not currently held:\n"
            '{APIGroups:[""], Resources:["configmaps"], Verbs:["watch"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "watch"]}'
        )


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_role_does_not_grow_by_an_update_either(method: str) -> None:
    async with open_town() as town:
        await let_write_roles(town)
        await town.own("POST", ROLES, role("a", rule("get", "configmaps")))
        headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
        wider = role("a", rule("*", "configmaps"))
        assert (await town.ask("jane", method, f"{ROLES}/a", wider, headers=headers))[0] == 403
        narrower = role("a", rule("list", "configmaps"))
        assert (await town.ask("jane", method, f"{ROLES}/a", narrower, headers=headers))[0] == 200


@pytest.mark.parametrize("name", ["cluster-admin", "admin"])
async def test_nobody_labels_a_role_to_have_its_rules_collected_by_one_that_they_have(name: str) -> None:
    async with open_town() as town:
        await town.allow("jane", rule("get update patch", "clusterroles", group=GROUP), namespace=None)
        headers = {"content-type": "application/merge-patch+json"}
        patch = {"metadata": {"labels": {f"{GROUP}/aggregate-to-view": "true"}}}
        assert (await town.ask("jane", "PATCH", f"{RBAC}/clusterroles/{name}", patch, headers=headers))[0] == 403


async def test_whatever_a_role_holds_its_finalizers_may_go() -> None:
    async with open_town() as town:
        await let_write_roles(town)
        await town.own("POST", ROLES, role("a", rule("*", "*"), metadata={"finalizers": ["a.io/b"]}))
        patch, headers = {"metadata": {"finalizers": None}}, {"content-type": "application/merge-patch+json"}
        assert (await town.ask("jane", "PATCH", f"{ROLES}/a", patch, headers=headers))[0] == 200


async def test_escalate_lifts_the_bound() -> None:
    async with open_town() as town:
        await let_write_roles(town, rule("escalate", "roles", group=GROUP))
        assert (await town.ask("jane", "POST", ROLES, role("b", rule("*", "*"))))[0] == 201


@pytest.mark.parametrize("apply", [False, True])
async def test_a_binding_gives_what_its_author_holds_and_nothing_more(apply: bool) -> None:
    async with open_town() as town:
        await let_write_roles(town)
        tree = binding("z", "cluster-admin", "jane", ref="ClusterRole")
        if apply:
            headers = {"content-type": "application/apply-patch+yaml"}
            found = await town.ask("jane", "PATCH", f"{BINDINGS}/z", tree, headers=headers, fieldManager="m")
        else:
            found = await town.ask("jane", "POST", BINDINGS, tree)
        assert found[0] == 403
        await town.own("POST", ROLES, role("a", rule("get", "configmaps")))
        assert (await town.ask("jane", "POST", BINDINGS, binding("y", "a", "bob")))[0] == 201


async def test_nobody_joins_a_binding_that_gives_more_than_they_hold() -> None:
    async with open_town() as town:
        await let_write_roles(town)
        await town.own("POST", BINDINGS, binding("z", "admin", "root", ref="ClusterRole"))
        joined = binding("z", "admin", "root", "jane", ref="ClusterRole")
        assert (await town.ask("jane", "PUT", f"{BINDINGS}/z", joined))[0] == 403


async def test_bind_lifts_the_bound_for_the_roles_it_names() -> None:
    async with open_town() as town:
        await let_write_roles(town, rule("bind", "clusterroles", group=GROUP, names="view"))
        assert (await town.ask("jane", "POST", BINDINGS, binding("a", "view", "bob", ref="ClusterRole")))[0] == 201
        assert (await town.ask("jane", "POST", BINDINGS, binding("b", "edit", "bob", ref="ClusterRole")))[0] == 403


async def test_a_role_that_is_not_there_cannot_be_bound_before_it_is() -> None:
    async with open_town() as town:
        await let_write_roles(town)
        status, tree = await town.ask("jane", "POST", BINDINGS, binding("a", "later", "jane"))
        assert (status, tree["message"]) == (404, f'roles.{GROUP} "later" not found')


async def test_only_who_may_do_everything_writes_a_role_that_collects_others() -> None:
    async with open_town() as town:
        await town.allow("jane", rule("*", "clusterroles", group=GROUP), rule("get", "pods"), namespace=None)
        selectors = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
        tree = role("sum", cluster=True, aggregationRule=selectors)
        assert (await town.ask("jane", "POST", f"{RBAC}/clusterroles", tree))[0] == 201  # every verb is escalate, too
        verbs = "create get list update patch"
        await town.allow("bob", rule(verbs, "clusterroles", group=GROUP), namespace=None)
        tree = role("sum2", cluster=True, aggregationRule=selectors)
        status, found = await town.ask("bob", "POST", f"{RBAC}/clusterroles", tree)
        assert status == 403
        assert found["message"].endswith("must have cluster-admin privileges to use the aggregationRule")


async def test_paths_are_rights_too() -> None:
    async with open_town() as town:
        await town.allow("jane", rule("create", "clusterroles", group=GROUP), namespace=None)
        paths = {"verbs": ["get"], "nonResourceURLs": ["/api/v1", "/metrics"]}
        status, tree = await town.ask("jane", "POST", f"{RBAC}/clusterroles", role("p", paths, cluster=True))
        assert status == 403
        assert tree["message"].endswith('held:\n{NonResourceURLs:["/metrics"], Verbs:["get"]}')


async def test_a_role_that_stands_for_millions_of_rights_is_refused_at_once() -> None:
    async with open_town() as town:
        await let_write_roles(town)
        many = [f"x{number}" for number in range(300)]
        tree = role("bomb", {"verbs": many, "apiGroups": many, "resources": many})
        status, found = await town.ask("jane", "POST", ROLES, tree)
        assert status == 403
        assert "too many to compare" in found["message"]


def test_a_rule_that_one_rule_holds_whole_may_stand_for_any_number_of_rights() -> None:
    many = [f"x{number}" for number in range(MOST_COMBINATIONS)]
    wanted = read_rule({"verbs": many, "apiGroups": many, "resources": many})
    held = Grants([Grant(read_rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}), "b")])
    assert list(missing_rights(held, [wanted])) == []


def test_rights_may_be_held_by_several_rules_together() -> None:
    held = Grants([Grant(read_rule(rule("get", "pods", names=name)), "b") for name in ("a", "b")])
    assert list(missing_rights(held, [read_rule(rule("get", "pods", names="a b"))])) == []
    assert list(missing_rights(held, [read_rule(rule("get", "pods"))])) == [("get", "", "pods", "", "")]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_write_that_turns_out_to_create_needs_the_right_to_create(method: str) -> None:
    async with open_town() as town:
        await town.allow("jane", rule("update patch", "leases", group="coordination.k8s.io"))
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
        tree = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
        headers = {"content-type": "application/apply-patch+yaml"} if method == "PATCH" else {}
        status, found = await town.ask("jane", method, path, tree, headers=headers, fieldManager="m")
        assert status == 403
        assert 'User "jane" cannot create resource "leases"' in found["message"]
        await town.allow("jane", rule("create", "leases", group="coordination.k8s.io"))
        assert (await town.ask("jane", method, path, tree, headers=headers, fieldManager="m"))[0] == 201
