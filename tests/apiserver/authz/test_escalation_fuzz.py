"""Whatever somebody writes who may write roles and bindings: their own rights never grow by it."""

import asyncio
from itertools import product
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from levelset.apiserver.authn.request_attributes import Attempt
from levelset.apiserver.authn.users import Caller
from tests.apiserver.clock import VirtualLoop
from tests.apiserver.roles import RBAC, Town, open_town, rule

GROUP = "rbac.authorization.k8s.io"
SPACES = ["default", "kube-public"]
WRITE = "get list create update patch delete"
VERBS = ["get", "list", "create", "delete", "escalate", "bind", "impersonate", "*"]
RESOURCES = ["pods", "pods/log", "secrets", "configmaps", "roles", "clusterroles", "*", "*/log", "users"]
JANE = Caller("jane", ("team", "system:authenticated"))
LABEL = f"{GROUP}/aggregate-to-view"

some = st.sampled_from


def few(words: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(some(words), min_size=1, max_size=3, unique=True)


rules = st.fixed_dictionaries(
    {"verbs": few(VERBS), "apiGroups": few(["", GROUP, "*"]), "resources": few(RESOURCES)},
    optional={"resourceNames": few(["a", "b"])},
) | st.fixed_dictionaries({"verbs": few(["get", "post", "*"]), "nonResourceURLs": few(["/metrics", "/api/*", "*"])})
places = some([RBAC, *(f"{RBAC}/namespaces/{space}" for space in SPACES)])
roles = st.tuples(
    st.just("roles"),
    places,
    some(["a", "b", "view", "strong"]),
    st.fixed_dictionaries(
        {"rules": st.lists(rules, max_size=2)},
        optional={"aggregationRule": st.just({"clusterRoleSelectors": [{"matchLabels": {LABEL: "true"}}]})},
    ),
)
bindings = st.tuples(
    st.just("rolebindings"),
    places,
    some(["a", "b", "c"]),
    st.builds(
        lambda kind, name, subject: {
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
            "subjects": [{"kind": subject[0], "name": subject[1], "apiGroup": GROUP}],
        },
        some(["Role", "ClusterRole"]),
        some(["a", "b", "strong", "cluster-admin", "admin", "edit", "view"]),
        some([("User", "jane"), ("Group", "team"), ("Group", "system:authenticated")]),
    ),
)
labels = st.tuples(
    st.just("labels"),
    st.just(RBAC),
    some(["a", "b", "strong", "admin", "cluster-admin"]),
    st.just({"metadata": {"labels": {LABEL: "true"}}}),
)
EVERYTHING = [
    *(
        Attempt(verb, group, resource.partition("/")[0], resource.partition("/")[2], space, name)
        for verb, group, resource, space, name in product(
            [*VERBS, "update"], ["", GROUP, "apps"], [*RESOURCES, "nodes"], [*SPACES, ""], ["", "a", "c"]
        )
    ),
    *(Attempt(verb, path=path) for verb in ("get", "post") for path in ("/metrics", "/api/v1", "/levelset/compact")),
]


@settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.tuples(roles | bindings | labels, some(["POST", "PUT", "PATCH"])), min_size=3, max_size=15))
def test_nobody_writes_themselves_rights(steps: list[Any]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(check(steps))


async def check(steps: list[Any]) -> None:
    async with open_town() as town:
        await town.allow(
            "jane", rule(WRITE, "roles rolebindings clusterroles clusterrolebindings", group=GROUP), namespace=None
        )
        await town.allow("jane", rule("get list", "pods"), rule("get", "secrets", names="a"))
        await town.own("POST", f"{RBAC}/namespaces/default/rolebindings", view_binding())
        strong = {"metadata": {"name": "strong"}, "rules": [rule("*", "*")]}
        await town.own("POST", f"{RBAC}/clusterroles", strong)
        before = held(town)
        for step, method in steps:
            await write(town, step, method)
        await town.server.idle()
        assert held(town) <= before


def view_binding() -> Any:
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
    return {"metadata": {"name": "v"}, "roleRef": reference, "subjects": [{"kind": "User", "name": "jane"}]}


def held(town: Town) -> set[Attempt]:
    rbac = town.server.world.rbac
    assert rbac is not None
    return {one for one in EVERYTHING if rbac.allows(JANE, one)}


async def write(town: Town, step: Any, method: str) -> None:
    plural, where, name, content = step
    if plural == "labels":
        method, plural = "PATCH", "roles"
    plural = f"cluster{plural}" if where == RBAC else plural
    kinds = {"roles": "Role", "clusterroles": "ClusterRole", "rolebindings": "RoleBinding"}
    head = {"apiVersion": RBAC[6:], "kind": kinds.get(plural, "ClusterRoleBinding")}
    tree = {**head, **content, "metadata": {"name": name, **content.get("metadata", {})}}
    path = f"{where}/{plural}" if method == "POST" else f"{where}/{plural}/{name}"
    headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
    status, found = await town.ask("jane", method, path, tree, groups=["team"], headers=headers)
    assert status in (200, 201, 403, 404, 409, 422), found
