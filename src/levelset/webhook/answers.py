"""The webhooks as one handler: an AdmissionReview or a ConversionReview goes in, and its answer comes out.

A `levelset.web.Handler`: `Endpoint` serves it over HTTPS, `to_asgi` puts it into any other server, and a test calls it.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from levelset.client.client import Client
from levelset.errors import ApiError, BadRequest, ConfigError, NotFound
from levelset.objects.codec import encode_tree
from levelset.web import Request, Response
from levelset.webhook import answering
from levelset.webhook.conversion import Conversions, Converts
from levelset.webhook.converting import convert_all
from levelset.webhook.documents import ADMISSION, CONVERSION, answer_document, read_admission, read_conversion
from levelset.webhook.hooks import Hook

__all__ = ["CONVERT", "LARGEST_REVIEW", "Answers"]

CONVERT: Final = "/convert"
"""Where all conversions are served."""
LARGEST_REVIEW: Final = 7 * 1024 * 1024
"""An object, the one before it, and both once more as somebody's managed fields; more is no AdmissionReview."""

_log: Final = logging.getLogger("levelset.webhook")

_JSON: Final = (("Content-Type", "application/json"),)
_SECONDS: Final = re.compile(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)


class Answers:
    """Answers for hooks and conversions, each at its path; ConfigError if two claim the same one."""

    def __init__(
        self,
        hooks: Iterable[Hook],
        conversions: Iterable[Converts] = (),
        *,
        client: Client | None = None,
    ) -> None:
        self._hooks: dict[str, Hook] = {}
        for hook in hooks:
            if hook.path in self._hooks:
                raise ConfigError(f"two webhooks are called {hook.name}; give one of them another name=")
            self._hooks[hook.path] = hook if client is None else hook.with_client(client)
        self._conversions = Conversions(conversions)
        self.paths: Sequence[str] = (*self._hooks, *([CONVERT] if self._conversions.kinds else []))
        """All paths that there are."""

    async def handle(self, request: Request) -> Response:
        """The answer to a request; what is no review is refused with a Status that says why."""
        try:
            if request.path not in self.paths:
                raise NotFound(f"there is no webhook at {request.path[:200]}")
            _check_form(request)
            document, response = await self._answer(request)
        except ApiError as error:
            return _refused(error)
        return Response(200, _JSON, encode_tree(answer_document(document, response)))

    async def _answer(self, request: Request) -> tuple[tuple[str, str], dict[str, Any]]:
        hook = self._hooks.get(request.path)
        if hook is None:
            return CONVERSION, await convert_all(self._conversions, read_conversion(request.body))
        if len(request.body) > LARGEST_REVIEW:
            raise ApiError(f"an AdmissionReview has at most {LARGEST_REVIEW} bytes", code=413, reason=_LARGE)
        asked = read_admission(request.body)
        resource = asked["resource"]
        place = tuple(resource.get(name, "") for name in ("group", "version", "resource"))
        if place != (hook.gvk.group, hook.gvk.version, hook.plural):
            raise BadRequest(f"{hook.name} is for {hook.plural} of {hook.gvk.api_version}, and was sent {place}")
        return ADMISSION, await answering.answer(hook, asked, None, within=_timeout(request))


_LARGE: Final = "RequestEntityTooLarge"


def _check_form(request: Request) -> None:
    if request.method != "POST":
        raise ApiError(f"{request.method} means nothing here: POST a review", code=405, reason="MethodNotAllowed")
    media = (request.headers.find("content-type") or "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise ApiError(f"the body is {media!r}; it must be application/json", code=415, reason="UnsupportedMediaType")


def _timeout(request: Request) -> float | None:
    """The seconds after which the server gives up; None if it does not say so in a way that we know."""
    said = request.parameter("timeout")
    found = _SECONDS.fullmatch(said) if said else None
    seconds = int(found[1] or 0) * 60 + float(found[2] or 0) if found else 0
    return seconds or None


def _refused(error: ApiError) -> Response:
    _log.warning("a review was refused", extra={"code": error.code, "error": error.message})
    tree: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **answering.refusal(error)}
    headers = (*_JSON, ("Allow", "POST")) if error.code == 405 else _JSON
    return Response(error.code, headers, encode_tree(tree))
