"""What a request does, as RBAC rules describe it: a verb on a resource, or on a non-resource URL.

The attributes are computed from the same parsed path that the handler acts on, never from the raw URL, so that what is
authorized is what is done.
"""

import json
from typing import Final
from urllib.parse import quote

import msgspec

from levelset.apiserver.authn.users import User
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.errors import BadSelector, Forbidden
from levelset.http import Request
from levelset.objects import FieldSelector

__all__ = [
    "RequestAttributes",
    "forbidden_error",
    "non_resource_attributes",
    "quoted",
    "quoted_list",
    "resource_attributes",
]

_COLLECTION_VERBS: Final = ("deletecollection", "list", "watch")
_HTML_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class RequestAttributes(msgspec.Struct, frozen=True, gc=False):
    """The attributes that authorization decides by.

    Without a resource they are about the non-resource URL `path`; an empty namespace means all namespaces, or a
    cluster-scoped resource.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def resource_attributes(path: RequestPath, request: Request, verb: str | None) -> RequestAttributes:
    """The attributes of a request for a resource; `verb` is what its method means there, None if it is not served."""
    if path.watch and request.method == "GET":
        verb = "watch"
    elif verb is None:
        verb = "create" if request.method == "POST" else request.method.lower()
    name = path.name or ""
    # As in Kubernetes, a request for a Namespace is in that namespace: a Role in it may allow to read it.
    namespace = name if path.plural == "namespaces" and path.namespace is None else path.namespace
    if not name and verb in _COLLECTION_VERBS and request.query:
        name = _selected_name(request)
    return RequestAttributes(verb, path.group, path.plural, path.subresource, namespace or "", name)


def non_resource_attributes(request: Request) -> RequestAttributes:
    """The attributes of a request for any other path."""
    # An encoded slash stays encoded: otherwise a rule for `/a/b` would allow `/a%2Fb`.
    segments = [quote(one, safe=":@!$&'()*+,;=~") for one in request.segments]
    path = "/" + "/".join(segments)
    return RequestAttributes(
        request.method.lower(), path=f"{path}/" if segments and request.path.endswith("/") else path
    )


def forbidden_error(user: User, attributes: RequestAttributes, reason: str = "") -> Forbidden:
    """403 for an authenticated user without permission, with the message of kube-apiserver."""
    problem = _problem(user, attributes).translate(_HTML_ESCAPES)
    problem = f"{problem}: {reason}" if reason else problem
    if not attributes.resource:
        return Forbidden(f"forbidden: {problem}")
    kind = {"kind": attributes.resource}
    details = {"name": attributes.name} if attributes.name else {}
    details |= {"group": attributes.group, **kind} if attributes.group else kind
    what = f"{attributes.resource}.{attributes.group}" if attributes.group else attributes.resource
    what = f"{what} {quoted(attributes.name)}" if attributes.name else what
    return Forbidden(f"{what} is forbidden: {problem}", details=details)


def quoted(text: str) -> str:
    """The string in double quotes, with quotes and unprintable characters escaped."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def quoted_list(texts: tuple[str, ...] | list[str]) -> str:
    """Several quoted strings as Go prints a list: `["a" "b"]`."""
    return f"[{' '.join(map(quoted, texts))}]"


def _problem(user: User, attributes: RequestAttributes) -> str:
    if not attributes.resource:
        return f"User {quoted(user.name)} cannot {attributes.verb} path {quoted(attributes.path)}"
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    where = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    what = f"resource {quoted(resource)} in API group {quoted(attributes.group)}"
    return f"User {quoted(user.name)} cannot {attributes.verb} {what} {where}"


def _selected_name(request: Request) -> str:
    """The name that the field selector requires: a list of one object is authorized by that object's name."""
    text = request.parameter("fieldSelector")
    if not text:
        return ""
    try:
        name = FieldSelector.parse(text).requires_exact("metadata.name")
    except BadSelector:
        return ""  # the handler rejects it when it parses the selector
    return name if name and name not in (".", "..") and "/" not in name and "%" not in name else ""
