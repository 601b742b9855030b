"""The CEL environment of admission policies and match conditions: variables and constructible types.

`object`, `oldObject`, `params` and `namespaceObject` are dynamically typed, `request` has a schema, `variables` are
those of the policy, each of the type of its expression, and `authorizer` checks permissions.
"""

from collections.abc import Mapping

from levelset.cel.program import Declarations
from levelset.cel.types import BOOL, DYN, INT, OPAQUE, STRING, Type, list_of, map_of, object_of

__all__ = ["APPLIED", "PATCHES", "policy_declarations"]

_KIND = object_of(dict.fromkeys(("group", "version", "kind"), STRING), name="kubernetes.GroupVersionKind")
_RESOURCE = object_of(dict.fromkeys(("group", "version", "resource"), STRING), name="kubernetes.GroupVersionResource")
_USER = object_of(
    {"username": STRING, "uid": STRING, "groups": list_of(STRING), "extra": map_of(STRING, list_of(STRING))},
    name="kubernetes.UserInfo",
)
_REQUEST = object_of(
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
    name="kubernetes.AdmissionRequest",
)
_TEXTS = map_of(STRING, STRING)
_NAMESPACE_META = object_of(
    {
        **dict.fromkeys(("name", "generateName", "namespace", "resourceVersion", "UID"), STRING),
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": list_of(STRING),
        "generation": INT,
        "deletionGracePeriodSeconds": INT,
        "creationTimestamp": DYN,  # a string in the tree; expressions convert it to a timestamp themselves
        "deletionTimestamp": DYN,
    },
    name="kubernetes.NamespaceMetadata",
    keys={"UID": "uid"},
)
_NAMESPACE = object_of(
    {
        "metadata": _NAMESPACE_META,
        "spec": object_of({"finalizers": list_of(STRING)}, name="kubernetes.NamespaceSpec"),
        "status": object_of({"phase": STRING}, name="kubernetes.NamespaceStatus"),
    },
    name="kubernetes.Namespace",
)
_PATCH = object_of({"op": STRING, "path": STRING, "from": STRING, "value": DYN}, name="JSONPatch")

APPLIED = Type("dyn", name="Object")
"""The result type of an apply configuration expression."""
PATCHES = list_of(_PATCH)
"""The result type of a JSON patch expression."""


def policy_declarations(
    variables: Mapping[str, Type] | None = None,
    *,
    has_params: bool = False,
    has_authorizer: bool = True,
    is_mutating: bool = False,
    seen: Type = DYN,
    given: Type = DYN,
) -> Declarations:
    """The declarations of a policy's expressions; `is_mutating` adds the types `Object` and `JSONPatch`.

    With `variables=None` the name `variables` is not declared, as in match conditions. `seen` and `given` are the types
    of objects and of parameters where they are known, used to warn about fields that they do not have.
    """
    known: dict[str, Type] = {"object": seen, "oldObject": seen, "request": _REQUEST, "namespaceObject": _NAMESPACE}
    if variables is not None:
        known["variables"] = object_of(variables, name="kubernetes.variables")
    if has_params:
        known["params"] = given
    if has_authorizer:
        known["authorizer"] = OPAQUE["Authorizer"]
        known["authorizer.requestResource"] = OPAQUE["ResourceCheck"]
    return Declarations(known, _struct) if is_mutating else Declarations(known)


def _struct(name: str) -> Type | None:
    if name == "JSONPatch":
        return _PATCH
    if name == "Object":
        return APPLIED
    return Type("dyn", name=name) if name.startswith("Object.") else None
