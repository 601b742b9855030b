from typing import Any

from levelset.apiserver.controllers.role_aggregation import aggregated_rules
from tests.apiserver.support.rbac_server import RBAC, open_rbac_server, role, rule

ROLES = f"{RBAC}/clusterroles"


def part(name: str, *rules: Any, **labels: str) -> Any:
    return role(name, *rules, cluster=True, metadata={"labels": labels})


def summing(name: str, **labels: str) -> Any:
    selectors = {"clusterRoleSelectors": [{"matchLabels": {word: value}} for word, value in labels.items()]}
    return role(name, cluster=True, aggregationRule=selectors)


def test_rules_are_aggregated_by_name_without_duplicates_or_own_rules() -> None:
    first, second = rule("get", "a"), rule("get", "b")
    others = [part("z", first, sum="1"), part("b", second, first, sum="1"), part("c", rule("get", "c"))]
    own = {**summing("sum", sum="1"), "metadata": {"name": "sum", "labels": {"sum": "1"}}, "rules": [rule("*", "*")]}
    known = {tree["metadata"]["name"]: tree for tree in [*others, own]}
    assert aggregated_rules(own, known) == [second, first]


async def test_an_aggregated_role_follows_the_selected_roles() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", ROLES, summing("sum", sum="1"))
        for name, more in (("a", rule("get", "pods")), ("b", rule("get", "secrets"))):
            await api.request_as_owner("POST", ROLES, part(name, more, sum="1"))
        await api.server.idle()
        assert (await api.request_as_owner("GET", f"{ROLES}/sum"))["rules"] == [
            rule("get", "pods"),
            rule("get", "secrets"),
        ]
        await api.request_as_owner("DELETE", f"{ROLES}/a")
        await api.server.idle()
        assert (await api.request_as_owner("GET", f"{ROLES}/sum"))["rules"] == [rule("get", "secrets")]


async def test_aggregated_roles_can_be_aggregated() -> None:
    async with open_rbac_server() as api:
        outer = {**summing("a-outer", outer="1"), "metadata": {"name": "a-outer"}}
        inner = {**summing("inner", inner="1"), "metadata": {"name": "inner", "labels": {"outer": "1"}}}
        for tree in (outer, inner, part("leaf", rule("get", "pods"), inner="1")):
            await api.request_as_owner("POST", ROLES, tree)
        await api.server.idle()
        assert (await api.request_as_owner("GET", f"{ROLES}/a-outer"))["rules"] == [rule("get", "pods")]


async def test_a_labelled_role_extends_admin_edit_and_view() -> None:
    async with open_rbac_server() as api:
        more = rule("get", "widgets", group="example.com")
        label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        await api.request_as_owner("POST", ROLES, role("widgets-view", more, cluster=True, metadata={"labels": label}))
        await api.server.idle()
        for name in ("view", "edit", "admin"):
            assert more in (await api.request_as_owner("GET", f"{ROLES}/{name}"))["rules"], name


async def test_roles_that_select_each_other_terminate_and_retain_no_stale_rules() -> None:
    async with open_rbac_server() as api:
        for number, rules in enumerate(([rule("get", "pods")], [rule("get", "nodes")], [])):
            one = summing(f"ring-{number}", ring=str((number + 1) % 3))
            one["metadata"]["labels"] = {"ring": str(number)}
            await api.request_as_owner("POST", ROLES, {**one, "rules": rules})
        await api.request_as_owner("POST", ROLES, part("given", rule("list", "pods"), ring="1"))
        await api.server.idle()
        for number in range(3):
            assert (await api.request_as_owner("GET", f"{ROLES}/ring-{number}"))["rules"] == [rule("list", "pods")]
        await api.request_as_owner("DELETE", f"{ROLES}/given")
        await api.server.idle()
        for number in range(3):
            assert not (await api.request_as_owner("GET", f"{ROLES}/ring-{number}")).get("rules")
