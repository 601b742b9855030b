"""No sequence of writes by a user who may write roles and bindings increases the permissions of that user."""

import asyncio
from itertools import product
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from levelset.apiserver.authn.request_attributes import RequestAttributes
from levelset.apiserver.authn.users import User
from levelset.testing.virtual_time import VirtualLoop
from tests.apiserver.support.rbac_server import RBAC, RbacServer, open_rbac_server, rule

GROUP = "rbac.authorization.k8s.io"
SPACES = ["default", "kube-public"]
WRITE = "get list create update patch delete"
VERBS = ["get", "list", "create", "delete", "escalate", "bind", "impersonate", "*"]
RESOURCES = ["pods", "pods/log", "secrets", "configmaps", "roles", "clusterroles", "*", "*/log", "users"]
JANE = User("jane", ("team", "system:authenticated"))
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
        RequestAttributes(verb, group, resource.partition("/")[0], resource.partition("/")[2], space, name)
        for verb, group, resource, space, name in product(
            [*VERBS, "update"], ["", GROUP, "apps"], [*RESOURCES, "nodes"], [*SPACES, ""], ["", "a", "c"]
        )
    ),
    *(
        RequestAttributes(verb, path=path)
        for verb in ("get", "post")
        for path in ("/metrics", "/api/v1", "/levelset/compact")
    ),
]


@settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.tuples(roles | bindings | labels, some(["POST", "PUT", "PATCH"])), min_size=3, max_size=15))
def test_no_sequence_of_writes_escalates_privileges(steps: list[Any]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(check(steps))


async def check(steps: list[Any]) -> None:
    async with open_rbac_server() as api:
        await api.grant(
            "jane", rule(WRITE, "roles rolebindings clusterroles clusterrolebindings", group=GROUP), namespace=None
        )
        await api.grant("jane", rule("get list", "pods"), rule("get", "secrets", names="a"))
        await api.request_as_owner("POST", f"{RBAC}/namespaces/default/rolebindings", view_binding())
        strong = {"metadata": {"name": "strong"}, "rules": [rule("*", "*")]}
        await api.request_as_owner("POST", f"{RBAC}/clusterroles", strong)
        before = held(api)
        for step, method in steps:
            await write(api, step, method)
        await api.server.idle()
        assert held(api) <= before


def view_binding() -> Any:
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
    return {"metadata": {"name": "v"}, "roleRef": reference, "subjects": [{"kind": "User", "name": "jane"}]}


def held(api: RbacServer) -> set[RequestAttributes]:
    rbac = api.server.state.rbac
    assert rbac is not None
    return {one for one in EVERYTHING if rbac.allows(JANE, one)}


async def write(api: RbacServer, step: Any, method: str) -> None:
    plural, where, name, content = step
    if plural == "labels":
        method, plural = "PATCH", "roles"
    plural = f"cluster{plural}" if where == RBAC else plural
    kinds = {"roles": "Role", "clusterroles": "ClusterRole", "rolebindings": "RoleBinding"}
    head = {"apiVersion": RBAC[6:], "kind": kinds.get(plural, "ClusterRoleBinding")}
    tree = {**head, **content, "metadata": {"name": name, **content.get("metadata", {})}}
    path = f"{where}/{plural}" if method == "POST" else f"{where}/{plural}/{name}"
    headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
    status, found = await api.request("jane", method, path, tree, groups=["team"], headers=headers)
    assert status in (200, 201, 403, 404, 409, 422), found
