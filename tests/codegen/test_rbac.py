"""RBAC of controllers: inferred permissions, merged rules and generated roles."""

from functools import partial
from typing import Any

import pytest

from levelset.client import MergePatch
from levelset.codegen.rbac import (
    ContextCall,
    Permission,
    context_calls,
    infer_permissions,
    merge_rules,
    permit,
    read_permissions,
    resource_of,
    roles_of,
)
from levelset.errors import ConfigError
from levelset.objects import GroupVersionKind, Object, Resource, Spec, write_manifests
from levelset.runtime.controller import Context, Controller, owns, references, watches
from tests.codegen.golden_files import check_text
from tests.codegen.sample_kinds import Shop
from tests.stories.examples import load

website: Any = load("03_website")


class ConfigMap(Object, api="v1"):
    pass


class RegionSpec(Spec):
    name: str = ""


class Region(Resource[RegionSpec, None], api="trade.example.dev/v1", scope="Cluster"):
    pass


async def reconcile(shop: Shop, ctx: Context) -> None:
    """Does everything in a helper function."""
    await help_out(shop, ctx)


async def help_out(shop: Shop, ctx: Context) -> None:
    ctx.record(shop, "Reconciled", "it was reconciled")
    await ctx.save(shop)
    for one in await ctx.children(ConfigMap):
        await ctx.delete(one)


async def idle(shop, ctx) -> None:
    """Does nothing."""


def rules(*controllers, **options):
    found = merge_rules(infer_permissions(controllers, **options))
    return {(rule["apiGroups"][0], one): rule["verbs"] for rule in found for one in rule["resources"]}


def test_the_roles_of_the_website_example_equal_the_golden_file():
    found = infer_permissions([website.websites], namespace="sites-system", lease="sites")
    check_text(
        "website-rbac.yaml", write_manifests(roles_of(found, name="sites", account="sites", namespace="sites-system"))
    )


def test_watched_kinds_are_read_and_only_inferred_writes_are_allowed():
    controller = Controller(Shop, idle, owns(ConfigMap), references(Region, lambda shop: []))
    events = ("events.k8s.io", "events"), ["create", "patch"]
    assert rules(controller) == {
        ("", "configmaps"): ["get", "list", "watch"],
        events[0]: events[1],
        ("trade.example.dev", "regions"): ["get", "list", "watch"],
        ("trade.example.dev", "shops"): ["get", "list", "watch"],
        ("trade.example.dev", "shops/finalizers"): ["update"],
    }


def test_context_calls_in_helpers_are_allowed():
    found = rules(Controller(Shop, reconcile, owns(ConfigMap)))
    assert found["trade.example.dev", "shops"] == ["get", "list", "watch", "patch"]
    assert found["trade.example.dev", "shops/status"] == ["patch"]
    assert found["", "configmaps"] == ["get", "list", "watch", "delete"]


def test_a_finalizer_needs_patch_on_the_object():
    found = rules(Controller(Shop, idle, cleanup=idle))
    assert found["trade.example.dev", "shops"] == ["get", "list", "watch", "patch"]


def test_code_without_source_gets_the_usual_permissions() -> None:
    made: dict[str, Any] = {}
    exec("async def unread(shop, ctx): pass", made)
    found = rules(Controller(Shop, made["unread"], owns(ConfigMap)))
    assert found["", "configmaps"] == ["get", "list", "watch", "create", "patch"]
    assert found["trade.example.dev", "shops/status"] == ["patch"]


class Reconciler:
    async def reconcile(self, shop: Shop, ctx: Context) -> None:
        await ctx.client.update(shop)

    async def __call__(self, shop: Shop, ctx: Context) -> None:
        await ctx.patch(shop.ref, MergePatch({}))


def test_methods_partials_and_callable_objects_are_read_too():
    assert context_calls(Reconciler().reconcile) == {ContextCall("update", is_own=True)}
    assert context_calls(partial(Reconciler.reconcile, Reconciler())) == {ContextCall("update", is_own=True)}
    assert context_calls(Reconciler()) == {ContextCall("patch", is_own=True)}
    assert context_calls(None) == frozenset()
    assert context_calls(len) is None


def test_namespaced_permissions_become_roles_and_cluster_kinds_cluster_roles():
    controller = Controller(
        Shop,
        idle,
        owns(ConfigMap, namespace="team-a"),
        watches(GroupVersionKind("", "v1", "Endpoints"), to=lambda one: [], namespace="team-b"),
        watches(Region, to=lambda one: []),
        namespace="team-a",
    )
    roles = roles_of(infer_permissions([controller]), name="shop", account="shop", namespace="shop-system")
    assert [(one["kind"], one["metadata"].get("namespace")) for one in roles] == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "team-a"),
        ("RoleBinding", "team-a"),
        ("Role", "team-b"),
        ("RoleBinding", "team-b"),
    ]
    assert [rule["resources"] for rule in roles[0]["rules"]] == [["regions"]]
    assert roles[4]["rules"][0]["resources"] == ["endpoints"]
    assert roles[2]["metadata"] == {"name": "shop", "namespace": "team-a"}
    assert roles[3]["subjects"] == [{"kind": "ServiceAccount", "name": "shop", "namespace": "shop-system"}]


def test_cluster_wide_permissions_are_not_repeated_in_roles():
    found = roles_of(
        [permit(ConfigMap, "get", "list"), permit(ConfigMap, "get", namespace="a")],
        name="x",
        account="x",
        namespace="a",
        labels={"a": "b"},
    )
    assert [one["kind"] for one in found] == ["ClusterRole", "ClusterRoleBinding"]
    assert found[0]["metadata"]["labels"] == {"a": "b"}


def test_extras_are_added_and_unneeded_verbs_removed():
    controller = Controller(Shop, reconcile, owns(ConfigMap))
    found = rules(controller, extras=[permit(ConfigMap, "update")], without=[permit(ConfigMap, "delete", "get")])
    assert found["", "configmaps"] == ["list", "watch", "update"]


def test_rules_are_merged_and_sorted():
    found = merge_rules(
        [
            Permission("b", "two", ["watch", "get"]),
            Permission("b", "one", ["get"]),
            Permission("b", "one", ["watch"]),
            Permission("a", "z", ["use", "delete"]),
            Permission("b", "one", ["get"], names=["x"]),
            Permission("b", "one", ["update"], names=["y", "x"]),
        ]
    )
    assert found == [
        {"apiGroups": ["a"], "resources": ["z"], "verbs": ["delete", "use"]},
        {"apiGroups": ["b"], "resources": ["one"], "resourceNames": ["x", "y"], "verbs": ["update"]},
        {"apiGroups": ["b"], "resources": ["one", "two"], "verbs": ["get", "watch"]},
    ]


def test_roles_are_read_back_as_permissions() -> None:
    role = {
        "kind": "Role",
        "metadata": {"name": "x", "namespace": "a"},
        "rules": [
            {"apiGroups": ["", "b"], "resources": ["one"], "resourceNames": ["n"], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ],
    }
    named: dict[str, Any] = {"names": ["n"], "namespace": "a"}
    found = [Permission("", "one", ["get"], **named), Permission("b", "one", ["get"], **named)]
    assert read_permissions([role, {"kind": "Service"}]) == found
    assert read_permissions([{"kind": "ClusterRole", "metadata": {"name": "x"}}]) == []


def test_a_permission_as_text_and_its_validation():
    assert str(permit(Shop, "get", "list", part="status", namespace="a")) == (
        "get, list shops/status.trade.example.dev in a"
    )
    assert resource_of(GroupVersionKind("x.dev", "v1", "Policy")) == ("x.dev", "policies")
    with pytest.raises(ConfigError, match="are lists"):
        Permission("", "pods", "get")
    with pytest.raises(ConfigError, match="resource and verbs must not be empty"):
        Permission("", "pods", [])


def test_a_controller_of_several_namespaces_gets_a_role_in_each_of_them_and_no_cluster_role():
    controller = Controller(Shop, reconcile, owns(ConfigMap), namespace=["team-a", "team-b"])
    roles = roles_of(infer_permissions([controller]), name="shop", account="shop", namespace="shop-system")
    assert [(one["kind"], one["metadata"].get("namespace")) for one in roles] == [
        ("Role", "team-a"),
        ("RoleBinding", "team-a"),
        ("Role", "team-b"),
        ("RoleBinding", "team-b"),
    ]
    assert roles[0]["rules"] == roles[2]["rules"]
    resources = {name for rule in roles[0]["rules"] for name in rule["resources"]}
    assert {"configmaps", "events", "shops", "shops/status"} <= resources
