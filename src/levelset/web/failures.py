"""What a client is told when its request, or the application, went wrong."""

from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from levelset.web.messages import Request, Response

__all__ = ["Failure", "reason_phrase", "to_status"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that gets no answer from the application, and why.

    `message` is for the client; `cause` is for the log only. `request` is None if it never was one.
    """

    status: int
    message: str
    request: Request | None = None
    cause: BaseException | None = None


def to_status(failure: Failure) -> Response:
    """Tells it as Kubernetes does: a Status object in JSON."""
    tree: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": failure.message,
        "reason": _REASONS.get(failure.status, ""),
        "code": failure.status,
    }
    return Response(failure.status, _JSON, msgspec.json.encode(tree))


def reason_phrase(status: int) -> str:
    """The words of the status line, `Not Found`; empty for a status that HTTP has not registered."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


_JSON = (("Content-Type", "application/json"),)

_REASONS = {
    400: "BadRequest",
    405: "MethodNotAllowed",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    500: "InternalError",
    503: "ServiceUnavailable",
}
