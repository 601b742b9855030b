"""RBAC allows exactly what the roles and bindings grant.

Random writes of roles and bindings, random users and requests; the oracle is a model without an index.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from levelset.testing.virtual_time import VirtualLoop
from tests.apiserver.support.rbac_model import Model
from tests.apiserver.support.rbac_server import RBAC, RbacServer, open_rbac_server

SPACES = ["one", "two"]
USERS = ["jane", "bob", "system:serviceaccount:one:robot", "system:serviceaccount:two:robot"]
GROUPS = ["team", "system:serviceaccounts"]
NAMES = ["a", "b"]
RESOURCES = ["configmaps", "secrets", "pods", "pods/status", "serviceaccounts/token", "namespaces"]
VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
URLS = ["/api", "/api/*", "/metrics", "/levelset/*", "*", "/openapi*"]

EVERYTHING = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
# All users may do everything, so that a removed permission shows.
BEFORE: list[Any] = [
    ("roles", "one", "a", EVERYTHING),
    ("rolebindings", "one", "a", [{"kind": "User", "name": user} for user in USERS]),
    ("roles", "two", "a", EVERYTHING),
    ("rolebindings", "two", "a", [{"kind": "Group", "name": group} for group in GROUPS]),
    ("clusterroles", "", "a", EVERYTHING),
    ("clusterrolebindings", "", "b", [{"kind": "User", "name": "bob"}]),
]

some = st.sampled_from


def few(words: list[str], *, empty: bool = False) -> st.SearchStrategy[list[str]]:
    return st.lists(some(words), min_size=0 if empty else 1, max_size=3, unique=True)


resource_rules = st.fixed_dictionaries(
    {
        "verbs": few([*VERBS, "*"]),
        "apiGroups": few(["", "apps", "*"]),
        "resources": few([*RESOURCES, "*", "*/status", "*/token"]),
    },
    optional={"resourceNames": few(NAMES)},
)
path_rules = st.fixed_dictionaries({"verbs": few(["get", "post", "*"]), "nonResourceURLs": few(URLS)})
subjects = st.one_of(
    st.builds(lambda name: {"kind": "User", "name": name}, some(USERS)),
    st.builds(lambda name: {"kind": "Group", "name": name}, some([*GROUPS, "system:authenticated"])),
    st.builds(
        lambda space: {"kind": "ServiceAccount", "name": "robot", "namespace": space},
        some(SPACES),
    ),
)
writes: Any = st.one_of(
    st.tuples(some(["roles"]), some(SPACES), some(NAMES), st.lists(resource_rules, max_size=3)),
    st.tuples(some(["clusterroles"]), st.just(""), some(NAMES), st.lists(resource_rules | path_rules, max_size=3)),
    st.tuples(some(["rolebindings"]), some(SPACES), some(NAMES), st.lists(subjects, max_size=2)),
    st.tuples(some(["clusterrolebindings"]), st.just(""), some(NAMES), st.lists(subjects, max_size=2)),
    st.tuples(some(["delete"]), some([*SPACES, ""]), some(NAMES), st.just([])),
)
requests = st.one_of(
    st.tuples(some(VERBS), some(RESOURCES), some([*SPACES, ""]), some(NAMES)),
    st.tuples(some(["GET", "POST"]), some(["/api", "/apis", "/metrics", "/levelset/x", "/openapi/v3"])),
)


# Failing examples are not shrunk: that takes longer than the timeout of a test.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@settings(max_examples=60, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(writes, max_size=12),
    requests_sent=st.lists(st.tuples(some(USERS), few(GROUPS, empty=True), requests), min_size=5, max_size=25),
    role=some(["Role", "ClusterRole"]),
    before=some([[], BEFORE]),
)
@example(
    steps=BEFORE[:2],
    requests_sent=[
        ("jane", [], (verb, resource, space, "a")) for verb in VERBS for resource in RESOURCES for space in SPACES
    ],
    role="Role",
    before=[],
)
def test_exactly_what_the_rules_allow_passes(
    steps: list[Any], requests_sent: list[Any], role: str, before: list[Any]
) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(check([*before, *steps], requests_sent, role))


async def check(steps: list[Any], requests_sent: list[Any], role: str) -> None:
    async with open_rbac_server() as api:
        for space in SPACES:
            await api.request_as_owner("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
        for step in steps:
            await write(api, step, role)
        await api.server.idle()
        lists = [
            await api.request_as_owner("GET", f"{RBAC}/{plural}")
            for plural in ("roles", "clusterroles", "rolebindings")
        ]
        lists.append(await api.request_as_owner("GET", f"{RBAC}/clusterrolebindings"))
        model = Model(*(one["items"] for one in lists))
        for user, groups, wanted in requests_sent:
            method, path, query, meaning = request_of(wanted)
            more: dict[str, Any] = dict(query)
            # A body would override the query, which makes the deletion a dry run.
            body: Any = None if method == "DELETE" else {}
            status, tree = await api.request(user, method, path, body, groups=groups, **more)
            allowed = model.allows(user, [*groups, "system:authenticated"], meaning)
            assert (status != 403) is allowed, (user, groups, method, path, status, tree)


async def write(api: RbacServer, step: Any, role: str) -> None:
    plural, space, name, content = step
    where = f"{RBAC}/namespaces/{space}" if space else RBAC
    if plural == "delete":
        for gone in ("roles", "rolebindings") if space else ("clusterroles", "clusterrolebindings"):
            await api.request("root", "DELETE", f"{where}/{gone}/{name}", groups=["system:masters"])
        return
    kind = {"roles": "Role", "rolebindings": "RoleBinding", "clusterroles": "ClusterRole"}
    tree: Any = {"apiVersion": RBAC[6:], "kind": kind.get(plural, "ClusterRoleBinding"), "metadata": {"name": name}}
    if "binding" in plural:
        reference = {"apiGroup": RBAC[6:-3], "kind": role if space else "ClusterRole", "name": name}
        tree |= {"roleRef": reference, "subjects": content}
    else:
        tree["rules"] = content
    status, found = await api.request("root", "PUT", f"{where}/{plural}/{name}", tree, groups=["system:masters"])
    assert status in (200, 201), found


def request_of(wanted: Any) -> tuple[str, str, dict[str, str], dict[str, str]]:
    """Method, path and query of a request, and its attributes."""
    if len(wanted) == 2:
        method, path = wanted
        return method, path, {}, {"verb": method.lower(), "path": path}
    verb, resource, space, name = wanted
    plural, _, part = resource.partition("/")
    if part or plural == "namespaces" or verb not in ("list", "watch"):
        space = space or SPACES[0]
    if part and verb in ("list", "watch", "deletecollection", "delete"):
        verb = "get"
    if plural == "namespaces":
        verb, name = ("get" if verb in ("create", "list", "watch", "deletecollection") else verb), space
        path = f"/api/v1/namespaces/{space}"
    else:
        path = f"/api/v1/namespaces/{space}/{plural}" if space else f"/api/v1/{plural}"
    has_name = bool(part) or verb in ("get", "update", "patch", "delete")
    if has_name and plural != "namespaces":
        path += f"/{name}"
    path += f"/{part}" if part else ""
    methods = {"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH"}
    query = {"dryRun": "All"} if verb not in ("get", "list", "watch") else {}
    query |= {"watch": "true"} if verb == "watch" else {}
    meaning = {"verb": verb, "group": "", "resource": resource, "namespace": space, "name": name if has_name else ""}
    return methods.get(verb, "DELETE"), path, query, meaning


@pytest.mark.parametrize("wanted", [("get", "pods", "one", "a"), ("GET", "/api")])
def test_the_model_allows_and_denies(wanted: Any) -> None:
    _, _, _, meaning = request_of(wanted)
    assert not Model([], [], [], []).allows("jane", [], meaning)
