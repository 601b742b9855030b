"""Turns error responses and Status objects into the exceptions of `levelset.errors`; reads warnings and Retry-After.

The HTTP status code and the reason of the Status decide together. A body that is not a Status (a page of a proxy, plain
text) still gives the exception of its code, with the first line of the text as the message.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from levelset.client.transport.interface import Call, Response
from levelset.errors import (
    AlreadyExists,
    ApiError,
    ApplyConflict,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    FieldConflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerFailed,
    TooManyRequests,
    Unauthorized,
)
from levelset.http.messages import Headers
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.lazy_pattern import Pattern

__all__ = ["read_error", "read_status", "retry_after_of", "seconds_of", "warnings_of"]

_CLASSES: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}
_CODES: Final[Mapping[str, int]] = {
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Expired": 410,
    "Gone": 410,
    "Invalid": 422,
    "TooManyRequests": 429,
}
_MANAGER: Final = Pattern(r'conflict with "((?:[^"\\]|\\.)*)"')
_WARNING: Final = Pattern(r'\s*(\d{3})\s+\S+\s+"((?:[^"\\]|\\.)*)"[^,]*,?')
_NO_SUCH_PATH: Final = "; it does not serve this kind, version or subresource: is the CRD installed?"
_read_any: Final = msgspec.json.Decoder()


def read_error(call: Call, response: Response) -> ApiError:
    """The exception for a response with an error status; its `request` describes the call."""
    tree = _tree(response.body)
    if not is_map(tree) or tree.get("kind", "Status") != "Status":
        tree = {"message": _first_line(response) + (_NO_SUCH_PATH if response.status == 404 else "")}
    error = read_status(tree, code=response.status, retry_after=seconds_of(response.headers))
    error.request = call.words
    return error


def read_status(tree: Any, *, code: int | None = None, retry_after: float | None = None) -> ApiError:
    """The exception for a Status; `code` and `retry_after` come from the HTTP response, if there is one."""
    status: Mapping[str, Any] = tree if is_map(tree) else {}
    reason = _text(status.get("reason"))
    own_code = status.get("code")
    # The Status in a watch event has no HTTP status, and perhaps no code either.
    http_code = code or (own_code if isinstance(own_code, int) and own_code >= 400 else None) or _CODES.get(reason, 500)
    details = _details(status, retry_after)
    causes = _causes(details)
    message = _text(status.get("message")) or reason or f"the server responded with {http_code} and no message"
    class_ = Expired if reason in {"Expired", "Gone"} else _class_of(http_code, reason)
    fields = _field_conflicts(causes) if class_ is Conflict else []
    if fields:
        return _with_status(ApplyConflict(message, fields), http_code, reason, details)
    if class_ is TooManyRequests:
        seconds = details.get("retryAfterSeconds")
        return TooManyRequests(
            message,
            retry_after=seconds,
            code=http_code,
            reason=reason or None,
            details=details,
            causes=causes,
        )
    return class_(message, code=http_code, reason=reason or None, details=details, causes=causes)


def retry_after_of(error: Exception) -> float | None:
    """The seconds after which the server wants a retry; None if it did not say."""
    if not isinstance(error, ApiError):
        return None
    found = error.details.get("retryAfterSeconds")
    return float(found) if isinstance(found, int | float) and found > 0 else None


def seconds_of(headers: Headers) -> float | None:
    """The seconds in a Retry-After header; None for a date, since clocks differ, and for invalid values."""
    text = (headers.get("retry-after") or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def warnings_of(headers: Headers) -> list[str]:
    """The messages of the warnings (code 299) of a response."""
    found: list[str] = []
    for value in headers.get_all("warning"):
        found += [re.sub(r"\\(.)", r"\1", text) for code, text in _WARNING.findall(value) if code == "299"]
    return found


def _class_of(code: int, reason: str) -> type[ApiError]:
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    return _CLASSES.get(code) or (ServerFailed if code >= 500 else ApiError)


def _with_status(error: ApiError, code: int, reason: str, details: Mapping[str, Any]) -> ApiError:
    error.code, error.reason, error.details = code, reason or error.reason, dict(details)
    return error


def _details(status: Mapping[str, Any], retry_after: float | None) -> dict[str, Any]:
    found = status.get("details")
    details = dict(found) if is_map(found) else {}
    if retry_after is not None and not details.get("retryAfterSeconds"):
        details["retryAfterSeconds"] = retry_after
    # An expired page may offer a token that continues the list at the current version.
    metadata = status.get("metadata")
    token = metadata.get("continue") if is_map(metadata) else None
    if isinstance(token, str) and token:
        details["continue"] = token
    return details


def _causes(details: Mapping[str, Any]) -> list[Cause]:
    found: Any = details.get("causes")
    causes: Sequence[Any] = found if is_list(found) else []
    return [
        Cause(_text(one.get("field")), _text(one.get("reason")), _text(one.get("message")))
        for one in causes
        if is_map(one)
    ]


def _field_conflicts(causes: Sequence[Cause]) -> list[FieldConflict]:
    return [
        FieldConflict(_manager_in(one.message), one.field, one.message)
        for one in causes
        if one.reason == "FieldManagerConflict"
    ]


def _manager_in(message: str) -> str:
    found = _MANAGER.search(message)
    return found.group(1) if found else ""


def _tree(body: bytes) -> Any:
    try:
        return _read_any.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _first_line(response: Response) -> str:
    text = response.body[:2000].decode("utf-8", "replace").strip()
    line = text.split("\n", 1)[0].strip()
    return f"the server responded {response.status}" + (f": {line[:200]}" if line else "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
