"""Status errors: every failure as a `Status` object, with the codes, reasons, details and messages of kube-apiserver.

The details name the plural resource, except for an invalid object, which is named by its Kind.
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.schema.field_errors import join_causes
from levelset.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    Malformed,
    NotFound,
    ServerFailed,
    TooManyRequests,
)
from levelset.http import Response
from levelset.objects import encode_tree
from levelset.storage import FutureRevision

__all__ = [
    "ExpiredContinueToken",
    "NoRoute",
    "Undecodable",
    "UnknownResource",
    "already_exists",
    "as_api_error",
    "cannot_write",
    "conflict",
    "damaged_object",
    "details_of",
    "failed_precondition",
    "forbidden",
    "invalid",
    "invalid_options",
    "invalid_patch",
    "method_not_allowed",
    "missing_namespace",
    "no_representation",
    "no_such_resource",
    "no_unique_name",
    "not_acceptable",
    "not_found",
    "other_object",
    "page_not_found",
    "stale",
    "status_response",
    "status_tree",
    "terminating_namespace",
    "too_large",
    "too_many_values",
    "undecodable",
    "unsupported_media_type",
    "unsupported_verb",
]

_JSON: Final = ("Content-Type", "application/json")
_PLAIN: Final = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))


class ExpiredContinueToken(Expired):
    """410 in the middle of a paged list; `resume` is a continue token for the rest at the current revision."""

    def __init__(self, message: str, *, resume: str) -> None:
        super().__init__(message)
        self.resume = resume


class UnknownResource(NotFound):
    """404 for a resource, not for an object; its details are empty, as upstream's."""


class NoRoute(ApiError):
    """An error of upstream's router, which knows the methods and media types of its routes; its details are empty."""

    def __init__(self, message: str, code: int, reason: str) -> None:
        super().__init__(message, code=code, reason=reason)


def status_tree(error: ApiError) -> Tree:
    """The Status object of an error."""
    tree: Tree = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": error.resume} if isinstance(error, ExpiredContinueToken) else {},
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        tree["reason"] = error.reason
    details = _status_details(error)
    if details or isinstance(error, (UnknownResource, NoRoute)):
        tree["details"] = details
    tree["code"] = error.code
    return tree


def status_response(error: ApiError) -> Response:
    """The response with the Status of an error; always JSON, whatever the Accept header."""
    headers: tuple[tuple[str, str], ...] = (_JSON,)
    if error.code == 401:
        headers += (("WWW-Authenticate", 'Bearer realm="levelset"'),)
    seconds = _retry_after(error)
    if seconds is not None:
        headers += (("Retry-After", str(seconds)),)
    return Response(error.code, headers, encode_tree(status_tree(error)) + b"\n")


def as_api_error(error: Exception) -> ApiError | None:
    """The error as an ApiError that may be shown to the client; None for an internal error of the server."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Malformed):
        return BadRequest(str(error))
    return None


def details_of(served: ServedResource, name: str, *, kind: str | None = None) -> dict[str, str]:
    """The details that name an object; `kind` replaces its plural resource."""
    named = {"name": name} if name else {}
    group = {"group": served.group} if served.group else {}
    return {**named, **group, "kind": kind or served.plural}


def not_found(served: ServedResource, name: str) -> NotFound:
    """404: there is no object of this name."""
    return NotFound(f'{served.qualified} "{name}" not found', details=details_of(served, name))


def damaged_object(served: ServedResource, name: str) -> ServerFailed:
    """500: the stored object is not what was written."""
    remedy = "delete it and create it again, or restore a copy of the data file"
    return ServerFailed(
        f'{served.qualified} "{name}" is damaged in the storage: {remedy}', details=details_of(served, name)
    )


def cannot_write(served: ServedResource, name: str, problem: str) -> ServerFailed:
    """500: the storage accepts deletions only."""
    return ServerFailed(
        f'{served.qualified} "{name}" was not written: {problem}; deletions are possible',
        details=details_of(served, name),
    )


def no_such_resource() -> NotFound:
    """404: the group and version are served, but not the resource."""
    return UnknownResource("the server could not find the requested resource")


def page_not_found() -> Response:
    """404 for a path outside of the API: plain text, as from kube-apiserver."""
    return Response(404, _PLAIN, b"404 page not found\n")


def method_not_allowed() -> ApiError:
    """405 in the words of upstream's router: the path does not support the method."""
    return NoRoute("the server does not allow this method on the requested resource", 405, "MethodNotAllowed")


def unsupported_verb(served: ServedResource, verb: str) -> ApiError:
    """405: the custom resource, or this subresource of it, does not support the verb."""
    text = f'{verb} is not supported on resources of kind "{served.qualified}"'
    return ApiError(text, code=405, reason="MethodNotAllowed", details=details_of(served, ""))


def not_acceptable(types: Sequence[str]) -> ApiError:
    """406: no media type that the client accepts is supported."""
    text = f"only the following media types are accepted: {', '.join(types)}"
    return ApiError(text, code=406, reason="NotAcceptable")


def no_representation(types: Sequence[str]) -> ApiError:
    """406 in the words of upstream's router: it ignores parameters, and knows no wildcard but `*/*`."""
    text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(types)}"
    return NoRoute(text, 406, "NotAcceptable")


def unsupported_media_type(types: str) -> ApiError:
    """415: the media type of the body is not supported."""
    text = f"the body of the request was in an unknown format - accepted media types include: {types}"
    return ApiError(text, code=415, reason="UnsupportedMediaType")


def too_large(limit: int) -> ApiError:
    """413: the body is larger than an object may be."""
    return ApiError(f"Request entity too large: limit is {limit}", code=413, reason="RequestEntityTooLarge")


def too_many_values(limit: int) -> ApiError:
    """413: the body holds more values than can be processed without delaying other requests."""
    text = f"Request entity too large: an object may hold {limit} values at most"
    return ApiError(text, code=413, reason="RequestEntityTooLarge")


def invalid_options(kind: str, causes: Sequence[Cause]) -> Invalid:
    """422: contradictory, unknown or invalid options of a request; `kind` is an options kind such as ListOptions."""
    details = {"group": "meta.k8s.io", "kind": kind}
    return Invalid(f'{kind}.meta.k8s.io "" is invalid: {join_causes(causes)}', details=details, causes=causes)


def _status_details(error: ApiError) -> Tree:
    details: Tree = dict(error.details)
    if error.causes and "causes" not in details:
        details["causes"] = [_cause(one) for one in error.causes]
    seconds = _retry_after(error)
    if seconds is not None:
        details["retryAfterSeconds"] = seconds
    return details


def _cause(cause: Cause) -> dict[str, Any]:
    tree = {"reason": cause.reason, "message": cause.message}
    if cause.field:
        tree["field"] = cause.field
    return tree


def _retry_after(error: ApiError) -> int | None:
    if isinstance(error, TooManyRequests):
        return max(1, round(error.retry_after or 1))
    return 1 if isinstance(error, FutureRevision) else error.details.get("retryAfterSeconds")


_CORE_KINDS: Final = frozenset({"Event"})
"""Kinds of other groups that are validated as the kinds of the core group that they are stored as."""
MAX_CAUSES = 500
"""The most causes in one error: those of a two-megabyte object could have fifty times its size."""


class Undecodable(BadRequest):
    """An object that cannot be decoded as its kind: 400, or 422 with the `problem` if it is the result of a patch."""

    is_decoded = False
    """Whether it could be decoded as another version of its kind, so that there are warnings beside the error."""

    def __init__(self, message: str, *, problem: str | None = None) -> None:
        super().__init__(message)
        self.problem = message if problem is None else problem


def undecodable(served: ServedResource, problem: str) -> Undecodable:
    """400, or 422 after a patch: the object is none of the endpoint's kind, because of this problem."""
    named = f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}'
    return Undecodable(f"{named}: {problem}", problem=problem)


def already_exists(served: ServedResource, name: str, *, deleting: bool = False) -> AlreadyExists:
    """409: the name is taken; `deleting` if the object with that name is being deleted."""
    prefix = "object is being deleted: " if deleting else ""
    return AlreadyExists(f'{prefix}{served.qualified} "{name}" already exists', details=details_of(served, name))


def no_unique_name(served: ServedResource, name: str) -> AlreadyExists:
    """409: the name that was generated for an object is taken; the client should try again."""
    if served.storage_group is not None:  # as upstream, which names the group that it is stored in
        served = replace(served, group=served.storage_group)
    error = already_exists(served, name)
    text = f"{error}, the server was not able to generate a unique name for the object"
    return AlreadyExists(text, details={**error.details, "retryAfterSeconds": 1})


def conflict(served: ServedResource, name: str, problem: str) -> Conflict:
    """409: the request conflicts with the current state of the object."""
    text = f'Operation cannot be fulfilled on {served.qualified} "{name}": {problem}'
    return Conflict(text, details=details_of(served, name))


def failed_precondition(served: ServedResource, namespace: str | None, name: str, problem: str) -> Conflict:
    """409: the object is not the one that the client means; with the words of upstream's storage."""
    group = f"{served.group}/" if served.custom else ""
    key = f"/{group}{served.plural}/{namespace}/{name}" if namespace else f"/{group}{served.plural}/{name}"
    where = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg:"
    return conflict(served, name, f"{where} {problem}")


def stale(served: ServedResource, name: str, version: object) -> ApiError:
    """409: the object has been modified since the client read it at this resourceVersion; 500 if that is no number."""
    text = str(version)
    is_number = text.isascii() and text.isdecimal()
    if not is_number or len(text) > 20 or int(text) >= 2**64:  # upstream has no better answer, either
        problem = "value out of range" if is_number else "invalid syntax"
        return ApiError(f'strconv.ParseUint: parsing "{text[:300]}": {problem}', code=500, reason="")
    problem = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(served, name, problem)


def forbidden(served: ServedResource, name: str, problem: str, *, causes: Sequence[Cause] = ()) -> Forbidden:
    """403: a rule of the server beyond the schema forbids it."""
    text = f'{served.qualified} "{name}" is forbidden: {problem}'
    return Forbidden(text, details=details_of(served, name), causes=causes)


def invalid(served: ServedResource, name: str, causes: Sequence[Cause], *, kind: str | None = None) -> Invalid:
    """422: the object is invalid; `kind` replaces its Kind in the message."""
    causes = causes if len(causes) <= MAX_CAUSES else [*causes[:MAX_CAUSES], _omitted(len(causes) - MAX_CAUSES)]
    qualified, details = _named_by_kind(served, name, kind or served.kind)
    return Invalid(f'{qualified} "{name}" is invalid: {join_causes(causes)}', details=details, causes=causes)


def other_object(served: ServedResource, name: str, problem: str) -> Conflict:
    """409: the object to delete is not the one that the client means; upstream names its Kind here."""
    qualified, details = _named_by_kind(served, name, served.kind)
    return Conflict(f'Operation cannot be fulfilled on {qualified} "{name}": {problem}', details=details)


def _named_by_kind(served: ServedResource, name: str, kind: str) -> tuple[str, dict[str, str]]:
    """The Kind with its group, and the details of an object that is named by it."""
    group = "" if kind in _CORE_KINDS and not served.custom else served.group
    named = {"name": name} if name else {}
    return (f"{kind}.{group}", {**named, "group": group, "kind": kind}) if group else (kind, {**named, "kind": kind})


def invalid_patch(problem: str) -> Invalid:
    """422: the result of a patch is not an object of the kind."""
    cause = Cause("patch", "FieldValueInvalid", f"Invalid value: {problem}")
    return Invalid(f' "" is invalid: {join_causes([cause])}', causes=[cause])


def missing_namespace(namespace: str) -> NotFound:
    """404: the namespace of a create does not exist."""
    return NotFound(f'namespaces "{namespace}" not found', details={"name": namespace, "kind": "namespaces"})


def terminating_namespace(served: ServedResource, name: str, namespace: str) -> Forbidden:
    """403: nothing can be created in a terminating namespace."""
    cause = Cause("metadata.namespace", "NamespaceTerminating", f"namespace {namespace} is being terminated")
    problem = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(served, name, problem, causes=[cause])


def _omitted(number: int) -> Cause:
    return Cause("", "FieldValueInvalid", f"and {number} more")
