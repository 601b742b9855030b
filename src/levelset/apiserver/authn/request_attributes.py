"""What somebody tries to do, in the words of roles: a verb on a resource, or on a path that is none.

A request is judged by the same address that its handler will act on, and never by the text of its path: what was
allowed and what is done cannot be two things.
"""

import json
from typing import Final
from urllib.parse import quote

import msgspec

from levelset.apiserver.authn.users import Caller
from levelset.apiserver.wire.request_paths import Address
from levelset.errors import BadSelector, Forbidden
from levelset.http import Request
from levelset.objects import FieldSelector

__all__ = ["Attempt", "attempt_at", "attempt_path", "forbidden_attempt", "quoted", "quoted_list"]

_MANY: Final = ("deletecollection", "list", "watch")
_SAFE: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """Something that is allowed or not. Without a resource it is about `path`; without a namespace, about all."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def attempt_at(address: Address, request: Request, verb: str | None) -> Attempt:
    """What a request for a resource tries to do; `verb` is what the method means there, if it means anything."""
    if address.watch and request.method == "GET":
        verb = "watch"
    elif verb is None:
        verb = "create" if request.method == "POST" else request.method.lower()
    name = address.name or ""
    # A namespace is in itself: who has rights inside may have the right to look at it, too.
    namespace = name if address.plural == "namespaces" and address.namespace is None else address.namespace
    if not name and verb in _MANY and request.query:
        name = _selected_name(request)
    return Attempt(verb, address.group, address.plural, address.subresource, namespace or "", name)


def attempt_path(request: Request) -> Attempt:
    """What a request for any other path tries to do; the path is told as the pages understand it."""
    # A slash that came encoded stays so, or `/a%2Fb` would be allowed to whom `/a/b` is.
    segments = [quote(one, safe=":@!$&'()*+,;=~") for one in request.segments]
    path = "/" + "/".join(segments)
    return Attempt(request.method.lower(), path=f"{path}/" if segments and request.path.endswith("/") else path)


def forbidden_attempt(caller: Caller, attempt: Attempt, reason: str = "") -> Forbidden:
    """403: the caller is known, and may not do this; in the words of Kubernetes, which people search for."""
    said = _said(caller, attempt).translate(_SAFE)
    said = f"{said}: {reason}" if reason else said
    if not attempt.resource:
        return Forbidden(f"forbidden: {said}")
    kind = {"kind": attempt.resource}
    details = {"name": attempt.name} if attempt.name else {}
    details |= {"group": attempt.group, **kind} if attempt.group else kind
    what = f"{attempt.resource}.{attempt.group}" if attempt.group else attempt.resource
    what = f"{what} {quoted(attempt.name)}" if attempt.name else what
    return Forbidden(f"{what} is forbidden: {said}", details=details)


def quoted(text: str) -> str:
    """The text in quotes, with whatever could be mistaken for something else escaped."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def quoted_list(texts: tuple[str, ...] | list[str]) -> str:
    """Several texts, each in quotes: `["a" "b"]`."""
    return f"[{' '.join(map(quoted, texts))}]"


def _said(caller: Caller, attempt: Attempt) -> str:
    if not attempt.resource:
        return f"User {quoted(caller.name)} cannot {attempt.verb} path {quoted(attempt.path)}"
    resource = f"{attempt.resource}/{attempt.subresource}" if attempt.subresource else attempt.resource
    where = f"in the namespace {quoted(attempt.namespace)}" if attempt.namespace else "at the cluster scope"
    what = f"resource {quoted(resource)} in API group {quoted(attempt.group)}"
    return f"User {quoted(caller.name)} cannot {attempt.verb} {what} {where}"


def _selected_name(request: Request) -> str:
    """The one name that the field selector leaves: a list of one object counts as being about that object."""
    text = request.parameter("fieldSelector")
    if not text:
        return ""
    try:
        name = FieldSelector.parse(text).requires_exact("metadata.name")
    except BadSelector:
        return ""  # refused later, by those who read it for what it selects
    return name if name and name not in (".", "..") and "/" not in name and "%" not in name else ""
