"""What the expressions of admission policies and match conditions may use.

`object`, `oldObject`, `params` and `namespaceObject` are looked into without a schema, `request` has one, `variables`
are those of the policy, each of the type that its expression has, and `authorizer` asks what somebody may do.
"""

from collections.abc import Mapping

from levelset.cel.program import Declarations
from levelset.cel.types import BOOL, DYN, OPAQUE, STRING, Type, list_of, map_of, object_of

__all__ = ["policy_declarations"]

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
_PATCH = object_of({"op": STRING, "path": STRING, "from": STRING, "value": DYN}, name="JSONPatch")
_OBJECT = Type("dyn", name="Object")


def policy_declarations(
    variables: Mapping[str, Type] | None = None,
    *,
    has_params: bool = False,
    has_authorizer: bool = True,
    is_mutating: bool = False,
) -> Declarations:
    """What a policy may use; `is_mutating` lets it write out `Object{...}` and `JSONPatch{...}`."""
    known: dict[str, Type] = {"object": DYN, "oldObject": DYN, "request": _REQUEST, "namespaceObject": DYN}
    known["variables"] = object_of(variables or {}, name="kubernetes.variables")
    if has_params:
        known["params"] = DYN
    if has_authorizer:
        known["authorizer"] = OPAQUE["Authorizer"]
        known["authorizer.requestResource"] = OPAQUE["ResourceCheck"]
    return Declarations(known, _struct) if is_mutating else Declarations(known)


def _struct(name: str) -> Type | None:
    if name == "JSONPatch":
        return _PATCH
    return _OBJECT if name == "Object" or name.startswith("Object.") else None
