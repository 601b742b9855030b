"""What an answer means: a Status becomes the exception of its kind, whatever form it came in.

The status code and the reason decide together. A body that is no Status (a proxy's page, plain text) still gives the
class that its code stands for, with the first line of the text as the message.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from levelset.client.transport.interface import Answer, Call
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
_MANAGER: Final = re.compile(r'conflict with "((?:[^"\\]|\\.)*)"')
_WARNING: Final = re.compile(r'\s*(\d{3})\s+\S+\s+"((?:[^"\\]|\\.)*)"[^,]*,?')
_NO_SUCH_PATH: Final = "; it serves no such kind, version or part: is the definition (CRD) installed?"
_read_any: Final = msgspec.json.Decoder()


def read_error(call: Call, answer: Answer) -> ApiError:
    """The exception for an answer whose status is 400 or more; its `request` is what was asked, in words."""
    tree = _tree(answer.body)
    if not is_map(tree) or tree.get("kind", "Status") != "Status":
        tree = {"message": _first_line(answer) + (_NO_SUCH_PATH if answer.status == 404 else "")}
    error = read_status(tree, code=answer.status, retry_after=seconds_of(answer.headers))
    error.request = call.words
    return error


def read_status(tree: Any, *, code: int | None = None, retry_after: float | None = None) -> ApiError:
    """The exception that a Status stands for; `code` and `retry_after` are of the HTTP answer, if there is one."""
    status: Mapping[str, Any] = tree if is_map(tree) else {}
    reason = _text(status.get("reason"))
    said = status.get("code")
    # An event on a stream has no HTTP status; its Status may have no code either.
    known = code or (said if isinstance(said, int) and said >= 400 else None) or _CODES.get(reason, 500)
    details = _details(status, retry_after)
    causes = _causes(details)
    message = _text(status.get("message")) or reason or f"the server answered with {known} and no message"
    class_ = Expired if reason in {"Expired", "Gone"} else _class_of(known, reason)
    fields = _field_conflicts(causes) if class_ is Conflict else []
    if fields:
        return _told(ApplyConflict(message, fields), known, reason, details)
    if class_ is TooManyRequests:
        wait = details.get("retryAfterSeconds")
        return TooManyRequests(
            message, retry_after=wait, code=known, reason=reason or None, details=details, causes=causes
        )
    return class_(message, code=known, reason=reason or None, details=details, causes=causes)


def retry_after_of(error: Exception) -> float | None:
    """The seconds after which a server wants to be asked again; None if it did not say."""
    if not isinstance(error, ApiError):
        return None
    found = error.details.get("retryAfterSeconds")
    return float(found) if isinstance(found, int | float) and found > 0 else None


def seconds_of(headers: Headers) -> float | None:
    """The seconds in a Retry-After header; None for a date, since clocks differ, and for nonsense."""
    text = (headers.get("retry-after") or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def warnings_of(headers: Headers) -> list[str]:
    """The texts of the warnings (code 299) that an answer carries."""
    found: list[str] = []
    for value in headers.get_all("warning"):
        found += [re.sub(r"\\(.)", r"\1", text) for code, text in _WARNING.findall(value) if code == "299"]
    return found


def _class_of(code: int, reason: str) -> type[ApiError]:
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists
    return _CLASSES.get(code) or (ServerFailed if code >= 500 else ApiError)


def _told(error: ApiError, code: int, reason: str, details: Mapping[str, Any]) -> ApiError:
    error.code, error.reason, error.details = code, reason or error.reason, dict(details)
    return error


def _details(status: Mapping[str, Any], retry_after: float | None) -> dict[str, Any]:
    found = status.get("details")
    details = dict(found) if is_map(found) else {}
    if retry_after is not None and not details.get("retryAfterSeconds"):
        details["retryAfterSeconds"] = retry_after
    # A page that has expired may come with a token to go on from there with what is true by now.
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


def _first_line(answer: Answer) -> str:
    text = answer.body[:2000].decode("utf-8", "replace").strip()
    line = text.split("\n", 1)[0].strip()
    return f"the server answered {answer.status}" + (f": {line[:200]}" if line else "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
