"""The authorizer library of CEL: authorization checks of the requesting user or a service account."""

from typing import Any, ClassVar, Protocol

import msgspec
from msgspec.structs import replace

from levelset.cel.errors import EvaluationError
from levelset.cel.library.formats import FORMATS
from levelset.cel.types import declare
from levelset.cel.values import NONE

__all__ = ["OVERLOADS", "Authorizer", "Decide", "Decision", "GroupCheck", "PathCheck", "ResourceCheck"]


class Decision(msgspec.Struct, frozen=True):
    """The result of an authorization check."""

    cel_type: ClassVar[str] = "kubernetes.authorization.Decision"

    allowed: bool
    reason: str = ""
    error: str = ""


class Decide(Protocol):
    """The callback that decides a check; a `user` of None means the user of the request."""

    def __call__(self, check: "PathCheck | ResourceCheck", verb: str, user: str | None) -> Decision:
        """The decision; called synchronously."""
        ...


class Authorizer(msgspec.Struct, frozen=True):
    """The variable `authorizer`, for the user of the request or for a service account."""

    cel_type: ClassVar[str] = "kubernetes.authorization.Authorizer"

    decide: Decide
    user: str | None = None


class PathCheck(msgspec.Struct, frozen=True):
    """A check of a non-resource path."""

    cel_type: ClassVar[str] = "kubernetes.authorization.PathCheck"

    authorizer: Authorizer
    path: str


class GroupCheck(msgspec.Struct, frozen=True):
    """A check of an API group."""

    cel_type: ClassVar[str] = "kubernetes.authorization.GroupCheck"

    authorizer: Authorizer
    group: str


class ResourceCheck(msgspec.Struct, frozen=True):
    """A check of a resource."""

    cel_type: ClassVar[str] = "kubernetes.authorization.ResourceCheck"

    authorizer: Authorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer, path)


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.authorizer, check.group, resource)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if FORMATS["dns1123Label"].validate(namespace) is not NONE:
        raise EvaluationError("Invalid service account namespace")
    if FORMATS["dns1123Subdomain"].validate(name) is not NONE:
        raise EvaluationError("Invalid service account name")
    return replace(authorizer, user=f"system:serviceaccount:{namespace}:{name}")


def _check(check: Any, verb: str) -> Decision:
    found: Decision = check.authorizer.decide(check, verb, check.authorizer.user)
    return found


def _with(name: str) -> Any:
    def run(check: ResourceCheck, value: str) -> ResourceCheck:
        changes: dict[str, Any] = {name: value}
        return replace(check, **changes)

    return run


OVERLOADS = [
    *declare(
        [
            ("path: Authorizer.(string) PathCheck", _path),
            ("group: Authorizer.(string) GroupCheck", GroupCheck),
            ("serviceAccount: Authorizer.(string, string) Authorizer", _service_account),
            ("resource: GroupCheck.(string) ResourceCheck", _resource),
            ("subresource: ResourceCheck.(string) ResourceCheck", _with("subresource")),
            ("namespace: ResourceCheck.(string) ResourceCheck", _with("namespace")),
            ("name: ResourceCheck.(string) ResourceCheck", _with("name")),
            ("allowed: Decision.() bool", lambda decision: decision.allowed),
            ("reason: Decision.() string", lambda decision: decision.reason),
            ("errored: Decision.() bool", lambda decision: bool(decision.error)),
            ("error: Decision.() string", lambda decision: decision.error),
        ]
    ),
    *declare(
        [
            ("fieldSelector: ResourceCheck.(string) ResourceCheck", _with("field_selector")),
            ("labelSelector: ResourceCheck.(string) ResourceCheck", _with("label_selector")),
        ],
        charge="selector",
    ),
    *declare(
        [("check: PathCheck.(string) Decision", _check), ("check: ResourceCheck.(string) Decision", _check)],
        charge="check",
    ),
]
