"""The HTTP handler of webhooks: decodes an AdmissionReview or ConversionReview and returns the response.

A `levelset.http.Handler`: `Endpoint` serves it over HTTPS, `to_asgi` adapts it to other servers, and tests call it.
Reviews are validated strictly; an invalid one is answered with a Status that names the field.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from levelset.client.client import Client
from levelset.errors import ApiError, BadObject, BadRequest, ConfigError, NotFound
from levelset.http import Request, Response
from levelset.objects.codec import decode_tree, encode_tree
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.lazy_pattern import Pattern
from levelset.runtime.webhook import admission
from levelset.runtime.webhook.admission import AdmissionHook
from levelset.runtime.webhook.conversion import Conversion, Conversions, convert_all

__all__ = [
    "ADMISSION",
    "CONVERSION",
    "CONVERT_PATH",
    "MAX_REVIEW_BYTES",
    "OPERATIONS",
    "ReviewHandler",
    "read_admission",
    "read_conversion",
    "review_document",
]

ADMISSION: Final = ("admission.k8s.io/v1", "AdmissionReview")
CONVERSION: Final = ("apiextensions.k8s.io/v1", "ConversionReview")
OPERATIONS: Final = ("CONNECT", "CREATE", "DELETE", "UPDATE")


def read_admission(body: bytes) -> dict[str, Any]:
    """Decodes the `request` of an AdmissionReview; BadRequest names the invalid field."""
    request = _read(body, ADMISSION)
    operation = request.get("operation")
    if operation not in OPERATIONS:
        raise BadRequest(f"request.operation is {operation!r}; it must be one of {', '.join(OPERATIONS)}")
    for name in ("kind", "resource"):
        _require(request, name, dict)
    for name in ("object", "oldObject", "options", "userInfo"):
        _allow(request, name, dict)
    for name in ("name", "namespace", "subResource"):
        _allow(request, name, str)
    shown = "oldObject" if operation == "DELETE" else "object"
    if request.get(shown) is None:
        raise BadRequest(f"request.{shown} is missing; a {operation} must have it")
    return request


def read_conversion(body: bytes) -> dict[str, Any]:
    """Decodes the `request` of a ConversionReview; BadRequest names the invalid field."""
    request = _read(body, CONVERSION)
    _require(request, "desiredAPIVersion", str)
    objects = _require(request, "objects", list)
    for index, one in enumerate(objects):
        if not is_map(one) or not is_map(one.get("metadata")):
            raise BadRequest(f"request.objects[{index}] is not an object: it has no metadata")
        for name in ("apiVersion", "kind"):
            if not isinstance(one.get(name), str) or not one[name]:
                raise BadRequest(f"request.objects[{index}].{name} is missing")
    return request


def review_document(document: tuple[str, str], response: dict[str, Any]) -> dict[str, Any]:
    """The review document with a response."""
    return {"apiVersion": document[0], "kind": document[1], "response": response}


def _read(body: bytes, document: tuple[str, str]) -> dict[str, Any]:
    api_version, kind = document
    if not body.strip():
        raise BadRequest(f"the body is empty; it must be an {kind} of {api_version}")
    try:
        tree = decode_tree(body)
    except BadObject as error:
        raise BadRequest(f"the body is not an {kind}: {error}") from error
    found = (tree.get("apiVersion"), tree.get("kind")) if is_map(tree) else (None, None)
    if found != document:
        raise BadRequest(f"the body is {found[0]} {found[1]}; this endpoint accepts {api_version} {kind}")
    request = tree.get("request")
    if not is_map(request):
        raise BadRequest(f"the {kind} has no request")
    uid = _require(request, "uid", str)
    if not uid:
        raise BadRequest("request.uid is empty")
    return request


def _require(tree: dict[str, Any], name: str, kind: type) -> Any:
    value = tree.get(name)
    if not isinstance(value, kind):
        raise BadRequest(f"request.{name} must be a {_TYPE_NAMES[kind]}, not {_shown(value)}")
    return value


def _allow(tree: dict[str, Any], name: str, kind: type) -> None:
    if tree.get(name) is not None:
        _require(tree, name, kind)


def _shown(value: Any) -> str:
    return "a list" if is_list(value) else "a map" if is_map(value) else repr(value)[:40]


_TYPE_NAMES: Final[dict[type, str]] = {dict: "map", list: "list", str: "text"}


CONVERT_PATH: Final = "/convert"
"""The path of all conversions."""
MAX_REVIEW_BYTES: Final = 7 * 1024 * 1024
"""Room for an object, the old object, and the managed fields of both, each of which may have about 1.5 MiB."""

_log: Final = logging.getLogger("levelset.runtime.webhook")

_JSON: Final = (("Content-Type", "application/json"),)
_SECONDS: Final = Pattern(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)


class ReviewHandler:
    """Handles reviews for hooks and conversions, each at its path; ConfigError if two have the same path."""

    def __init__(
        self,
        hooks: Iterable[AdmissionHook],
        conversions: Iterable[Conversion] = (),
        *,
        client: Client | None = None,
    ) -> None:
        self._hooks: dict[str, AdmissionHook] = {}
        for hook in hooks:
            if hook.path in self._hooks:
                raise ConfigError(f"two webhooks are named {hook.name}; pass another name= to one of them")
            self._hooks[hook.path] = hook if client is None else hook.with_client(client)
        self._conversions = Conversions(conversions)
        self.paths: Sequence[str] = (*self._hooks, *([CONVERT_PATH] if self._conversions.kinds else []))
        """All paths that are served."""

    async def handle(self, request: Request) -> Response:
        """Handles a request; anything but a valid review is answered with a Status."""
        try:
            if request.path not in self.paths:
                raise NotFound(f"there is no webhook at {request.path[:200]}")
            _check_request(request)
            document, response = await self._answer(request)
        except ApiError as error:
            return _failure_response(error)
        return Response(200, _JSON, encode_tree(review_document(document, response)))

    async def _answer(self, request: Request) -> tuple[tuple[str, str], dict[str, Any]]:
        hook = self._hooks.get(request.path)
        if hook is None:
            return CONVERSION, await convert_all(self._conversions, read_conversion(request.body))
        if len(request.body) > MAX_REVIEW_BYTES:
            raise ApiError(f"an AdmissionReview has at most {MAX_REVIEW_BYTES} bytes", code=413, reason=_LARGE)
        decoded = read_admission(request.body)
        resource = decoded["resource"]
        place = tuple(resource.get(name, "") for name in ("group", "version", "resource"))
        if place != (hook.gvk.group, hook.gvk.version, hook.plural):
            raise BadRequest(f"{hook.name} is for {hook.plural} of {hook.gvk.api_version}, not for {place}")
        return ADMISSION, await admission.respond(hook, decoded, None, within=_timeout(request))


_LARGE: Final = "RequestEntityTooLarge"


def _check_request(request: Request) -> None:
    if request.method != "POST":
        raise ApiError(f"{request.method} is not allowed: POST a review", code=405, reason="MethodNotAllowed")
    media = (request.headers.find("content-type") or "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise ApiError(f"the body is {media!r}; it must be application/json", code=415, reason="UnsupportedMediaType")


def _timeout(request: Request) -> float | None:
    """The timeout parameter of the API server in seconds; None if it is absent or has another format."""
    text = request.parameter("timeout")
    found = _SECONDS.fullmatch(text) if text else None
    seconds = int(found[1] or 0) * 60 + float(found[2] or 0) if found else 0
    return seconds or None


def _failure_response(error: ApiError) -> Response:
    _log.warning("review rejected", extra={"code": error.code, "error": error.message})
    tree: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **admission.failure_status(error)}
    headers = (*_JSON, ("Allow", "POST")) if error.code == 405 else _JSON
    return Response(error.code, headers, encode_tree(tree))
