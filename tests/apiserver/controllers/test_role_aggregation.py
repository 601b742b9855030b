from typing import Any

from levelset.apiserver.controllers.role_aggregation import collected_rules
from tests.apiserver.roles import RBAC, open_town, role, rule

ROLES = f"{RBAC}/clusterroles"


def part(name: str, *rules: Any, **labels: str) -> Any:
    return role(name, *rules, cluster=True, metadata={"labels": labels})


def summing(name: str, **labels: str) -> Any:
    selectors = {"clusterRoleSelectors": [{"matchLabels": {word: value}} for word, value in labels.items()]}
    return role(name, cluster=True, aggregationRule=selectors)


def test_rules_are_collected_by_name_each_once_and_never_its_own() -> None:
    first, second = rule("get", "a"), rule("get", "b")
    others = [part("z", first, sum="1"), part("b", second, first, sum="1"), part("c", rule("get", "c"))]
    own = {**summing("sum", sum="1"), "metadata": {"name": "sum", "labels": {"sum": "1"}}, "rules": [rule("*", "*")]}
    known = {tree["metadata"]["name"]: tree for tree in [*others, own]}
    assert collected_rules(own, known) == [second, first]


async def test_a_sum_follows_its_parts() -> None:
    async with open_town() as town:
        await town.own("POST", ROLES, summing("sum", sum="1"))
        for name, more in (("a", rule("get", "pods")), ("b", rule("get", "secrets"))):
            await town.own("POST", ROLES, part(name, more, sum="1"))
        await town.server.idle()
        assert (await town.own("GET", f"{ROLES}/sum"))["rules"] == [rule("get", "pods"), rule("get", "secrets")]
        await town.own("DELETE", f"{ROLES}/a")
        await town.server.idle()
        assert (await town.own("GET", f"{ROLES}/sum"))["rules"] == [rule("get", "secrets")]


async def test_sums_of_sums_settle() -> None:
    async with open_town() as town:
        outer = {**summing("a-outer", outer="1"), "metadata": {"name": "a-outer"}}
        inner = {**summing("inner", inner="1"), "metadata": {"name": "inner", "labels": {"outer": "1"}}}
        for tree in (outer, inner, part("leaf", rule("get", "pods"), inner="1")):
            await town.own("POST", ROLES, tree)
        await town.server.idle()
        assert (await town.own("GET", f"{ROLES}/a-outer"))["rules"] == [rule("get", "pods")]


async def test_a_custom_resource_joins_admin_edit_and_view_with_a_label() -> None:
    async with open_town() as town:
        more = rule("get", "widgets", group="example.com")
        label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        await town.own("POST", ROLES, role("widgets-view", more, cluster=True, metadata={"labels": label}))
        await town.server.idle()
        for name in ("view", "edit", "admin"):
            assert more in (await town.own("GET", f"{ROLES}/{name}"))["rules"], name


async def test_roles_that_collect_each_other_come_to_an_end_and_keep_nothing_of_their_own() -> None:
    async with open_town() as town:
        for number, rules in enumerate(([rule("get", "pods")], [rule("get", "nodes")], [])):
            one = summing(f"ring-{number}", ring=str((number + 1) % 3))
            one["metadata"]["labels"] = {"ring": str(number)}
            await town.own("POST", ROLES, {**one, "rules": rules})
        await town.own("POST", ROLES, part("given", rule("list", "pods"), ring="1"))
        await town.server.idle()
        for number in range(3):
            assert (await town.own("GET", f"{ROLES}/ring-{number}"))["rules"] == [rule("list", "pods")]
        await town.own("DELETE", f"{ROLES}/given")
        await town.server.idle()
        for number in range(3):
            assert not (await town.own("GET", f"{ROLES}/ring-{number}")).get("rules")
