"""AdmissionReview and ConversionReview as they come in and go out: read strictly, and refused with words."""

from typing import Any, Final

from levelset.errors import BadObject, BadRequest
from levelset.objects.codec import decode_tree
from levelset.objects.trees import is_list, is_map

__all__ = ["ADMISSION", "CONVERSION", "OPERATIONS", "answer_document", "read_admission", "read_conversion"]

ADMISSION: Final = ("admission.k8s.io/v1", "AdmissionReview")
CONVERSION: Final = ("apiextensions.k8s.io/v1", "ConversionReview")
OPERATIONS: Final = ("CONNECT", "CREATE", "DELETE", "UPDATE")


def read_admission(body: bytes) -> dict[str, Any]:
    """The `request` of an AdmissionReview; BadRequest says what is missing or wrong, and where."""
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
        raise BadRequest(f"request.{shown} is missing; a {operation} shows the object there")
    return request


def read_conversion(body: bytes) -> dict[str, Any]:
    """The `request` of a ConversionReview; BadRequest says what is missing or wrong, and where."""
    request = _read(body, CONVERSION)
    _require(request, "desiredAPIVersion", str)
    objects = _require(request, "objects", list)
    for index, one in enumerate(objects):
        if not is_map(one) or not is_map(one.get("metadata")):
            raise BadRequest(f"request.objects[{index}] is no object: it has no metadata")
        for name in ("apiVersion", "kind"):
            if not isinstance(one.get(name), str) or not one[name]:
                raise BadRequest(f"request.objects[{index}].{name} is missing")
    return request


def answer_document(document: tuple[str, str], response: dict[str, Any]) -> dict[str, Any]:
    """The document that carries a response."""
    return {"apiVersion": document[0], "kind": document[1], "response": response}


def _read(body: bytes, document: tuple[str, str]) -> dict[str, Any]:
    api_version, kind = document
    if not body.strip():
        raise BadRequest(f"the body is empty; it must be an {kind} of {api_version}")
    try:
        tree = decode_tree(body)
    except BadObject as error:
        raise BadRequest(f"the body is no {kind}: {error}") from error
    found = (tree.get("apiVersion"), tree.get("kind")) if is_map(tree) else (None, None)
    if found != document:
        raise BadRequest(f"the body is {found[0]} {found[1]}; this endpoint answers {api_version} {kind}")
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
        raise BadRequest(f"request.{name} must be a {_WORDS[kind]}, not {_shown(value)}")
    return value


def _allow(tree: dict[str, Any], name: str, kind: type) -> None:
    if tree.get(name) is not None:
        _require(tree, name, kind)


def _shown(value: Any) -> str:
    return "a list" if is_list(value) else "a map" if is_map(value) else repr(value)[:40]


_WORDS: Final[dict[type, str]] = {dict: "map", list: "list", str: "text"}
