"""Hypothesis strategies for HTTP requests: valid ones, slightly malformed ones, and arbitrary bytes."""

import json
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from levelset.http import Headers, Request

__all__ = ["CANARY", "DEFINITION", "OBJECTS", "requests"]

CANARY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "canary"}, "data": {"song": "tweet"}}

_SPEC = {
    "type": "object",
    "properties": {
        "color": {"type": "string", "default": "red", "maxLength": 9},
        "replicas": {"type": "integer", "minimum": 0},
        "parts": {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True},
    },
}
_VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": {"type": "object"}}}},
    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.n"}},
    "selectableFields": [{"jsonPath": ".spec.color"}],
    "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [_VERSION],
    },
}
_CONTAINER = {"name": "c", "image": "i", "ports": [{"containerPort": 1}]}
_TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [_CONTAINER]}}


def _object(api: str, kind: str, **members: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "a", "labels": {"a": "b"}}, **members}


OBJECTS: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/configmaps": _object("v1", "ConfigMap", data={"k": "v"}),
    "/api/v1/namespaces/default/secrets": _object("v1", "Secret", stringData={"k": "v"}),
    "/api/v1/namespaces/default/pods": _object("v1", "Pod", spec=_TEMPLATE["spec"]),
    "/api/v1/namespaces/default/services": _object(
        "v1", "Service", spec={"ports": [{"port": 80}], "selector": {"a": "b"}}
    ),
    "/api/v1/namespaces/default/events": _object("v1", "Event", involvedObject={"kind": "Pod", "namespace": "default"}),
    "/api/v1/namespaces": _object("v1", "Namespace"),
    "/api/v1/nodes": _object("v1", "Node"),
    "/apis/apps/v1/namespaces/default/deployments": _object(
        "apps/v1", "Deployment", spec={"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE}
    ),
    "/apis/batch/v1/namespaces/default/jobs": _object(
        "batch/v1", "Job", spec={"template": {"spec": _TEMPLATE["spec"] | {"restartPolicy": "Never"}}}
    ),
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": _object("coordination.k8s.io/v1", "Lease", spec={}),
    "/apis/events.k8s.io/v1/namespaces/default/events": _object("events.k8s.io/v1", "Event"),
    "/apis/example.com/v1/namespaces/default/widgets": _object("example.com/v1", "Widget", spec={"replicas": 1}),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": DEFINITION,
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": _object(
        "authorization.k8s.io/v1", "SelfSubjectAccessReview"
    ),
}
"""A valid object for each collection, by path."""

_PAGES = (
    *("/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/apis/example.com/v1", "/version", "/healthz"),
    *("/livez", "/readyz", "/readyz/ping", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1", "/metrics"),
    *("/levelset/compact", "/api/v1/configmaps", "/api/v1/watch/configmaps", "/apis/example.com/v1/widgets"),
)
_SUBRESOURCES = (*("",) * 8, "/status", "/status", "/scale", "/log", "/finalize", "/exec", "/x")
_METHODS = (*("GET", "POST", "PUT", "PATCH", "DELETE") * 4, "HEAD", "OPTIONS", "BREW", "")
_TYPES = (
    *("application/json", "application/yaml", "application/json-patch+json", "application/merge-patch+json"),
    *("application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/apply-patch+cbor"),
    *("application/vnd.kubernetes.protobuf", "text/plain", "application/json; charset=utf-8", "", "/", "*/*"),
)
_ACCEPTS = (
    *("application/json", "*/*", "application/yaml", "application/vnd.kubernetes.protobuf", "text/html", "", ";;,,"),
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)
_QUERY: dict[str, tuple[str, ...]] = {
    "limit": ("0", "1", "2", "-1", "x", "99999999999999999999"),
    "continue": ("x", "", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiXHUwMDAwIn0"),
    "resourceVersion": ("", "0", "1", "5", "999999", "-1", "x", "1.5", "1" * 400),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "labelSelector": ("a=b", "a in (b,c)", "!a", "a in (", ",", "a==b,c!=d", "\x00", "é=1"),
    "fieldSelector": ("metadata.name=a", "spec.color=red", "x=y", "metadata.name", "a\\=b=c", ","),
    "watch": ("true", "1", "false", "x", ""),
    "timeoutSeconds": ("1", "0", "-1", "x", "99999999999"),
    "sendInitialEvents": ("true", "false", "x"),
    "allowWatchBookmarks": ("true", "x"),
    "dryRun": ("All", "x", ""),
    "fieldManager": ("me", "", "x" * 200, "\x00"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "force": ("true", "false", "x"),
    "propagationPolicy": ("Background", "Foreground", "Orphan", "x"),
    "gracePeriodSeconds": ("0", "-1", "5", "x"),
    "orphanDependents": ("true", "x"),
    "includeObject": ("None", "Object", "x"),
    "pretty": ("true", "x"),
}
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
_UNUSUAL: st.SearchStrategy[Any] = (
    st.sampled_from([None, "", 0, -1, 2**63, 1e308, [], {}, "x" * 300, "é\x00", "../..", [None], {"": {}}, [[]]])
    | _JSON
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """One request of the owner; valid, nearly valid, or malformed."""
    collection = draw(st.sampled_from([*OBJECTS]))
    method = draw(st.sampled_from(_METHODS))
    path = draw(_paths(collection, method))
    pairs = draw(st.lists(_pairs(), max_size=2))
    if method == "PATCH":
        pairs.append(("fieldManager", "me"))
    query = urlencode(pairs, errors="surrogatepass")
    body = draw(_bodies(OBJECTS[collection], method))
    headers = draw(_headers(method))
    return Request(method, path, query, Headers(headers), body)


@st.composite
def _headers(draw: st.DrawFn, method: str) -> dict[str, str]:
    """Mostly headers that a client sends, because they reach most of the code."""
    fitting = _TYPES[2:6] if method == "PATCH" else _TYPES[:2]
    headers = {"content-type": draw(st.sampled_from(fitting)), "accept": draw(st.sampled_from(_ACCEPTS[:3]))}
    for name, values in (("content-type", _TYPES), ("accept", _ACCEPTS)):
        if _rarely(draw):
            headers[name] = draw(st.sampled_from(values))
    if _rarely(draw):
        headers[draw(st.sampled_from(["if-none-match", "impersonate-user", "range"]))] = draw(st.text(max_size=5))
    return headers


def _rarely(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 9)) == 9


@st.composite
def _paths(draw: st.DrawFn, collection: str, method: str) -> str:
    if _rarely(draw):
        path = draw(st.sampled_from(_PAGES))
    elif method == "POST":
        path = collection
    else:
        name = "b" if _rarely(draw) else OBJECTS[collection]["metadata"]["name"]
        path = f"{collection}/{name}{draw(st.sampled_from(_SUBRESOURCES))}"
        if method in ("GET", "DELETE") and draw(st.booleans()):
            path = collection
    if _rarely(draw):
        parts = path.split("/")
        parts[draw(st.integers(0, len(parts) - 1))] = draw(
            st.text(max_size=8) | st.sampled_from(["..", "%00", "%", "%2F"])
        )
        path = quote("/".join(parts), safe="/%", errors="surrogatepass")
    return path


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[str, str]:
    name = draw(st.sampled_from([*_QUERY]))
    values = st.sampled_from(_QUERY[name])
    return name, draw(values if draw(st.integers(0, 4)) else st.text(max_size=6))


@st.composite
def _bodies(draw: st.DrawFn, tree: dict[str, Any], method: str) -> bytes:
    sort = draw(st.integers(0, 14))
    if sort == 0:
        return draw(st.binary(max_size=30))
    if sort == 1:
        deep = draw(st.sampled_from([10, 3000]))
        return draw(
            st.sampled_from([b"[" * deep, b'{"a":' * deep + b"1" + b"}" * deep, b"a: &a [*a, *a]", b"\xff\xfe"])
        )
    if method in ("GET", "HEAD", ""):
        return b""
    value: Any = draw(_JSON) if sort == 2 else json.loads(json.dumps(tree))
    if method == "POST" and sort > 6 and "name" in tree["metadata"]:
        value["metadata"]["name"] = "fresh"
    if method == "DELETE" and sort != 3:
        value = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "preconditions": {}}
    if method == "PATCH" and sort in (4, 5, 6, 7):
        value = draw(_operations())
    for _ in range(draw(st.integers(0, 2))):
        value = draw(_corrupted(value))
    return json.dumps(value).encode("utf-8", "surrogatepass")


@st.composite
def _operations(draw: st.DrawFn) -> list[Any]:
    paths = st.sampled_from(
        ["", "/", "/metadata/labels/a", "/spec/color", "/spec/parts/-", "/metadata", "/data/x", "x", "/~2"]
    )
    ops = st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"])
    members = {"op": ops, "path": paths, "from": paths, "value": _UNUSUAL}
    return draw(st.lists(st.fixed_dictionaries(members), max_size=3))


@st.composite
def _corrupted(draw: st.DrawFn, tree: Any) -> Any:
    """The tree with one member somewhere replaced, removed or added."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(tree, key=str)))
        return {**tree, key: draw(_corrupted(tree[key]))}
    if isinstance(tree, dict):
        names = (
            "finalizers",
            "ownerReferences",
            "managedFields",
            "deletionTimestamp",
            "resourceVersion",
            "uid",
            "$patch",
        )
        return {**tree, draw(st.sampled_from(names) | st.text(max_size=5)): draw(_UNUSUAL)}
    if isinstance(tree, list) and tree and draw(st.booleans()):
        return [draw(_corrupted(tree[0])), *tree[1:]]
    return draw(_UNUSUAL)
