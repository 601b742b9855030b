"""Errors as the client sees them: every failure is a `Status` object with a code, a reason and details."""

from typing import Any, Final

from levelset.apiserver.served import Served
from levelset.apiserver.world import Tree
from levelset.errors import (
    ApiError,
    BadRequest,
    Cause,
    Expired,
    Invalid,
    Malformed,
    NotFound,
    TooManyRequests,
)
from levelset.objects import encode_tree
from levelset.storage import FutureRevision
from levelset.web import Response

__all__ = [
    "ExpiredToken",
    "as_api_error",
    "details_of",
    "invalid_options",
    "method_not_allowed",
    "no_such_resource",
    "not_acceptable",
    "not_found",
    "page_not_found",
    "status_response",
    "status_tree",
    "success",
    "too_large",
    "too_many_values",
    "unsupported_media_type",
]

_JSON: Final = ("Content-Type", "application/json")
_INSTEAD: Final = {
    "attach": "kubectl logs -f shows what a container writes",
    "exec": "a Pod has no file system of its own: run it on this machine",
    "portforward": "connect to status.podIP of the Pod, or to a Service's address, on this machine",
}
"""What to do in the place of what needs the streams of a container."""
_PLAIN: Final = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))


class ExpiredToken(Expired):
    """410 in the middle of a paged list; `resume` is a token that goes on from there with what is true by now."""

    def __init__(self, message: str, *, resume: str) -> None:
        super().__init__(message)
        self.resume = resume


def status_tree(error: ApiError) -> Tree:
    """The Status that tells a client of an error."""
    tree: Tree = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": error.resume} if isinstance(error, ExpiredToken) else {},
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        tree["reason"] = error.reason
    details = _details(error)
    if details:
        tree["details"] = details
    tree["code"] = error.code
    return tree


def status_response(error: ApiError) -> Response:
    """The answer that carries the Status of an error; it is JSON, whatever form was asked for."""
    headers: tuple[tuple[str, str], ...] = (_JSON,)
    if error.code == 401:
        headers += (("WWW-Authenticate", 'Bearer realm="levelset"'),)
    seconds = _retry_after(error)
    if seconds is not None:
        headers += (("Retry-After", str(seconds)),)
    return Response(error.code, headers, encode_tree(status_tree(error)))


def as_api_error(error: Exception) -> ApiError | None:
    """The error as one that a client may be told; None if it is a fault of the server's own."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Malformed):
        return BadRequest(str(error))
    return None


def success(served: Served, name: str, uid: str) -> Tree:
    """The Status that says that an object is gone."""
    details = {**details_of(served, name), "uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def details_of(served: Served, name: str, *, kind: str | None = None) -> dict[str, str]:
    """The details that name an object: `kind` is its resource, or the Kind where one is given."""
    named = {"name": name} if name else {}
    group = {"group": served.group} if served.group else {}
    return {**named, **group, "kind": kind or served.plural}


def not_found(served: Served, name: str) -> NotFound:
    """There is no object of this name."""
    return NotFound(f'{served.qualified} "{name}" not found', details=details_of(served, name))


def no_such_resource(subresource: str = "") -> NotFound:
    """The group and version are served, but no such resource in them."""
    instead = _INSTEAD.get(subresource)
    told = f": {subresource} is not carried here; {instead}" if instead else ""
    return NotFound(f"the server could not find the requested resource{told}")


def page_not_found() -> Response:
    """There is nothing of the API under this path: plain text, as from any web server."""
    return Response(404, _PLAIN, b"404 page not found\n")


def method_not_allowed(method: str, path: str) -> ApiError:
    """The resource is there and does not know this method."""
    text = f"the server does not allow this method on the requested resource: {method} {path}"
    return ApiError(text, code=405, reason="MethodNotAllowed")


def not_acceptable(types: str) -> ApiError:
    """None of the forms that the client accepts can be given."""
    text = f"only the following media types are accepted: {types}; add one of them to the Accept header"
    return ApiError(text, code=406, reason="NotAcceptable")


def unsupported_media_type(given: str, types: str) -> ApiError:
    """The body is in no form that is understood here."""
    text = f"the body of the request was in an unknown format, {given!r}; accepted media types include: {types}"
    return ApiError(text, code=415, reason="UnsupportedMediaType")


def too_large(limit: int) -> ApiError:
    """The body is larger than any object may be."""
    return ApiError(f"Request entity too large: limit is {limit}", code=413, reason="RequestEntityTooLarge")


def too_many_values(limit: int) -> ApiError:
    """The body is small enough, but holds more than anybody can look at while others wait."""
    text = f"Request entity too large: an object may hold {limit} values at most"
    return ApiError(text, code=413, reason="RequestEntityTooLarge")


def invalid_options(kind: str, causes: list[Cause]) -> Invalid:
    """The query parameters contradict each other or have impossible values; `kind` is such as ListOptions."""
    said = ", ".join(f"{one.field}: {one.message}" for one in causes)
    details = {"group": "meta.k8s.io", "kind": kind}
    return Invalid(f'{kind}.meta.k8s.io "" is invalid: {said}', details=details, causes=causes)


def _details(error: ApiError) -> Tree:
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
    return 1 if isinstance(error, FutureRevision) else None
