"""Every verb as a call: path, query, headers and body, without sending anything.

The ways to say which objects are meant, read into one: a selector as a text, as a map, or as the value itself.

Forms: patches and applies of which everything but the name of the object and the body is known beforehand.

A controller writes objects of few kinds to few places, with the settings of its client. What is the same each time (the
path up to the name, the query, the words) is put together once for each kind and place; the client keeps it.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote, urlencode

import msgspec

from levelset.client.transport.interface import Call
from levelset.errors import BadName, BadSelector, ConfigError
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.kind_definition import Definition
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.ref import GroupVersionKind, GroupVersionResource

__all__ = [
    "APPLY",
    "JSON",
    "PLAIN",
    "Fields",
    "Form",
    "FormKey",
    "Labels",
    "Match",
    "Propagation",
    "ResourceInfo",
    "Target",
    "Validation",
    "create",
    "delete",
    "delete_collection",
    "form_of",
    "get",
    "list_",
    "logs",
    "patch",
    "read_fields",
    "read_labels",
    "update",
    "watch",
    "writing_query",
]

Labels = str | Mapping[str, str] | LabelSelector
"""A label selector: as a text, as labels that must all be there, or as a value."""
Fields = str | Mapping[str, str] | FieldSelector
"""A field selector, in the same three ways."""


def read_labels(labels: Labels | None) -> LabelSelector | None:
    """The label selector that is meant; BadSelector for what is none, before anything is asked."""
    if isinstance(labels, str):
        return LabelSelector.parse(labels)
    if isinstance(labels, Mapping):
        return LabelSelector.of(labels)
    if labels is None or isinstance(labels, LabelSelector):
        return labels
    raise _none("label", labels)


def read_fields(fields: Fields | None) -> FieldSelector | None:
    """The field selector that is meant; BadSelector for what is none, before anything is asked."""
    if isinstance(fields, str):
        return FieldSelector.parse(fields)
    if isinstance(fields, Mapping):
        return FieldSelector.of(fields)
    if fields is None or isinstance(fields, FieldSelector):
        return fields
    raise _none("field", fields)


def _none(what: str, given: Any) -> BadSelector:
    # Taken as its text, it would select something else than was meant; a delete would, too.
    ways = f'give a text ("a=b"), a map, or a {what.title()}Selector'
    return BadSelector(f"a value of type {type(given).__name__} is no {what} selector; {ways}")


Match = Literal["Exact", "NotOlderThan"]
"""What a given resource version means to a list."""
Propagation = Literal["Background", "Foreground", "Orphan"]
"""What happens to the children of what is deleted."""
Validation = Literal["Ignore", "Strict", "Warn"]
"""What a server does about fields that it does not know."""

JSON: Final = "application/json"
_AS: Final = "application/json;as={};g=meta.k8s.io;v=v1"
_METADATA: Final = _AS.format("PartialObjectMetadata")
_METADATA_LIST: Final = _AS.format("PartialObjectMetadataList")
_LONGEST_MANAGER: Final = 128
_PARTS: Final = frozenset({"scale", "status"})
"""The parts that are asked for most, and stand in a path as they are."""
PLAIN: Final = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.~:-]+", re.ASCII)
"""What stands in a path as it is."""

Pairs = Iterable[tuple[str, object]]


class ResourceInfo(Protocol):
    """What must be known of a kind to ask for it: a Definition knows it, and so does discovery."""

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind."""
        ...

    @property
    def gvr(self) -> GroupVersionResource:
        """What it is served under."""
        ...

    @property
    def namespaced(self) -> bool:
        """Whether its objects live in namespaces."""
        ...


class Target(msgspec.Struct, frozen=True):
    """What a call is about: one object, one part of an object, or all objects of a kind (in a namespace)."""

    served: ResourceInfo
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None

    @property
    def path(self) -> str:
        """The path of the URL, percent-encoded; BadName if the name cannot stand in one."""
        name, subresource, served = self.name, self.subresource, self.served
        if served.__class__ is Definition and self.namespace.__class__ is str:
            made = _known_collection(served, self.namespace)
        else:
            made = self.collection
        if name is not None:
            made = f"{made}/{self.part('name', name)}"
        if subresource is None:
            return made
        if subresource in _PARTS:
            return f"{made}/{subresource}"
        return f"{made}/{'/'.join([self.part('subresource', part) for part in subresource.split('/')])}"

    @property
    def collection(self) -> str:
        """The path of all objects of the kind in the namespace."""
        gvr = self.served.gvr
        root = f"/apis/{gvr.group}/{gvr.version}" if gvr.group else f"/api/{gvr.version}"
        if self.namespace is None:
            return f"{root}/{gvr.resource}"
        return f"{root}/namespaces/{self.part('namespace', self.namespace)}/{gvr.resource}"

    def said(self, verb: str) -> str:
        """The call in words: `update Website/default/blog/status`, `list Website in default`."""
        kind, namespace, name, subresource = self.served.gvk.kind, self.namespace, self.name, self.subresource
        if name is not None:
            if namespace and name:  # as most objects are called, said without the detour
                part = f"/{subresource}" if subresource else ""
                return f"{verb} {kind}/{namespace}/{name}{part}"
            return f"{verb} {'/'.join([part for part in (kind, namespace, name, subresource) if part])}"
        if not self.served.namespaced:
            return f"{verb} {kind}"
        return f"{verb} {kind} in {self.namespace or 'all namespaces'}"

    def part(self, field: str, text: str) -> str:
        """One part of the path, percent-encoded; BadName if it can be none."""
        if text.__class__ is str and PLAIN.fullmatch(text):
            return text  # nothing to quote, as nearly always
        try:
            if text and text not in {".", ".."} and "/" not in text and "%" not in text:
                return quote(text, safe=":")
        except (TypeError, UnicodeEncodeError):
            pass  # no text at all, or half of a character
        kind = self.served.gvk.kind
        raise BadName(f"{text!r} is no {field} of a {kind}; it is a text, not empty, and has no slash", field=field)


def get(target: Target, *, version: str | None = None, is_metadata: bool = False, timeout: float) -> Call:
    """Reads one object; `version` "0" allows any that the server has at hand."""
    query = _query([("resourceVersion", version)])
    accept = _METADATA if is_metadata else JSON
    return _call("GET", target, "get", query, accept=accept, timeout=timeout)


def list_(
    target: Target,
    *,
    labels: Labels | None = None,
    fields: Fields | None = None,
    limit: int | None = None,
    continue_: str | None = None,
    version: str | None = None,
    match: Match | None = None,
    is_metadata: bool = False,
    timeout: float,
) -> Call:
    """Reads a page of the objects of a kind; ConfigError for versions and pages that contradict each other.

    Any version ("0") together with pages means no version: servers that answer from memory ignore the limit then.
    """
    if version == "0" and match is None and (limit or continue_):
        version = None
    _check_versions(target, continue_, version, match)
    query = _query(
        [
            *_selectors(labels, fields),
            ("limit", limit or None),
            ("continue", continue_ or None),
            ("resourceVersion", version),
            ("resourceVersionMatch", match),
        ]
    )
    accept = _METADATA_LIST if is_metadata else JSON
    return _call("GET", target, "list", query, accept=accept, timeout=timeout)


def watch(
    target: Target,
    *,
    labels: Labels | None = None,
    fields: Fields | None = None,
    version: str | None = None,
    match: Match | None = None,
    seconds: float | None = None,
    bookmarks: bool = True,
    send_initial_events: bool = False,
    is_metadata: bool = False,
    timeout: float,
) -> Call:
    """Follows the changes of a kind; `seconds` is for how long the server shall send."""
    if send_initial_events and not bookmarks:
        raise ConfigError(f"{target.said('watch')}: the end of the initial events is a bookmark; leave bookmarks on")
    if seconds is not None and seconds < 1:
        raise ConfigError(f"{target.said('watch')}: a watch of {seconds} seconds is none; give it at least one")
    if send_initial_events:
        match = match or "NotOlderThan"
    query = _query(
        [
            ("watch", "true"),
            *_selectors(labels, fields),
            ("resourceVersion", version),
            ("resourceVersionMatch", match),
            ("timeoutSeconds", None if seconds is None else int(seconds)),
            ("allowWatchBookmarks", "true" if bookmarks else None),
            ("sendInitialEvents", "true" if send_initial_events else None),
        ]
    )
    accept = _METADATA if is_metadata else JSON
    return _call("GET", target, "watch", query, accept=accept, timeout=timeout, is_stream=True)


def create(target: Target, body: bytes, *, timeout: float, **options: Any) -> Call:
    """Makes an object, or posts to a part of one."""
    return _write("POST", target, "create", body, JSON, timeout=timeout, **options)


def update(target: Target, body: bytes, *, timeout: float, **options: Any) -> Call:
    """Replaces an object, or a part of one, as a whole."""
    return _write("PUT", target, "update", body, JSON, timeout=timeout, **options)


def patch(
    target: Target,
    body: bytes,
    content_type: str,
    *,
    force: bool | None = None,
    verb: str = "patch",
    is_metadata: bool = False,
    manager: str | None = None,
    validation: Validation | None = None,
    dry_run: bool = False,
    timeout: float,
) -> Call:
    """Changes an object as a patch says; `force` is for an apply."""
    return Call(
        method="PATCH",
        path=target.path,
        query=writing_query(manager, validation, bool(dry_run), force),
        headers={"accept": _METADATA if is_metadata else JSON, "content-type": content_type},
        body=body,
        timeout=timeout,
        verb="patch",
        words=target.said(verb),  # an apply is a patch to the server; only the words tell them apart
    )


def delete(target: Target, options: bytes, *, is_metadata: bool = False, timeout: float) -> Call:
    """Deletes one object; `options` is the JSON of a DeleteOptions."""
    accept = _METADATA if is_metadata else JSON
    return _call("DELETE", target, "delete", "", accept=accept, body=options, content_type=JSON, timeout=timeout)


def delete_collection(
    target: Target, options: bytes, *, labels: Labels | None = None, fields: Fields | None = None, timeout: float
) -> Call:
    """Deletes all objects of a kind in a namespace that the selectors select."""
    query = _query(_selectors(labels, fields))
    made = _call("DELETE", target, "delete all", query, body=options, content_type=JSON, timeout=timeout)
    return msgspec.structs.replace(made, verb="deletecollection")


def logs(target: Target, options: Pairs, *, timeout: float) -> Call:
    """Reads what a container has written, as a stream."""
    # Logs come as text whatever is asked for, and a server may refuse to promise it.
    made = _call("GET", target, "read logs of", _query(options), accept="*/*", timeout=timeout, is_stream=True)
    return msgspec.structs.replace(made, verb="get")


def _write(
    method: str,
    target: Target,
    verb: str,
    body: bytes,
    content_type: str,
    *,
    words: str | None = None,
    manager: str | None = None,
    validation: Validation | None = None,
    dry_run: bool = False,
    timeout: float,
) -> Call:
    return Call(
        method=method,
        path=target.path,
        query=writing_query(manager, validation, bool(dry_run), None),
        headers={"accept": JSON, "content-type": content_type},
        body=body,
        timeout=timeout,
        verb=verb,
        words=target.said(verb) if words is None else words,
    )


def _call(
    method: str,
    target: Target,
    verb: str,
    query: str,
    *,
    accept: str = JSON,
    body: bytes = b"",
    content_type: str | None = None,
    timeout: float,
    is_stream: bool = False,
) -> Call:
    headers = {"accept": accept}
    if content_type is not None:
        headers["content-type"] = content_type
    return Call(
        method=method,
        path=target.path,
        query=query,
        headers=headers,
        body=body,
        is_stream=is_stream,
        timeout=timeout,
        verb=verb,
        words=target.said(verb),
    )


def _query(pairs: Pairs) -> str:
    said = [(name, value) for name, value in pairs if value is not None]
    return urlencode(said, quote_via=quote, safe=":,()!") if said else ""


@lru_cache(maxsize=256, typed=True)
def writing_query(manager: str | None, validation: str | None, is_dry: bool, force: bool | None) -> str:
    """The options of a write, of which a program has a few and uses them all the time."""
    if manager is not None and (len(manager) > _LONGEST_MANAGER or not manager.isprintable()):
        raise ConfigError(f"{manager[:40]!r} is no field manager: at most 128 printable characters")
    return _query(
        [
            ("fieldManager", manager),
            ("fieldValidation", validation),
            ("dryRun", "All" if is_dry else None),
            ("force", None if force is None else str(force).lower()),
        ]
    )


@lru_cache(maxsize=4096)
def _known_collection(served: Any, namespace: Any) -> str:
    """The same for a class, which cannot be served in another way: a program has a few and uses them all the time."""
    return Target(served, namespace).collection


def _selectors(labels: Labels | None, fields: Fields | None) -> list[tuple[str, object]]:
    return [("labelSelector", _labels(labels) or None), ("fieldSelector", _fields(fields) or None)]


def _labels(labels: Labels | None) -> str:
    return "" if labels is None else str(read_labels(labels))


def _fields(fields: Fields | None) -> str:
    return "" if fields is None else str(read_fields(fields))


def _check_versions(target: Target, continue_: str | None, version: str | None, match: Match | None) -> None:
    problem = None
    if match is not None and version is None:
        problem = f"match={match!r} says what a resource_version means; give one"
    elif match == "Exact" and version == "0":
        problem = 'any version ("0") cannot be matched exactly; name one, or leave match out'
    elif continue_ and (version is not None or match is not None):
        problem = "a later page is of the version of the first; leave resource_version and match out"
    if problem is not None:
        raise ConfigError(f"{target.said('list')}: {problem}")


APPLY: Final = "application/apply-patch+yaml"

FormKey = tuple[type[Any], str | None, str | None, str, bool | None]
"""Which form: the class, the namespace that was named, the part that is written, the content type, and `force`."""


class Form(msgspec.Struct, frozen=True):
    """The patches of objects of one class in one place."""

    class_: type[Any]
    place: Target
    """Where the objects are; without a name."""
    gvk: GroupVersionKind
    namespace: str | None
    path: str
    """What stands before the name."""
    words: str
    tail: str
    """What stands behind the name, in the path and in the words."""
    query: str
    content_type: str
    timeout: float
    is_dry: bool

    def call(self, name: str, body: bytes) -> Call:
        """The call for one object; BadName if its name cannot stand in a path."""
        part = name if name.__class__ is str and PLAIN.fullmatch(name) else self.place.part("name", name)
        return Call(
            method="PATCH",
            path=f"{self.path}{part}{self.tail}",
            query=self.query,
            headers={"accept": JSON, "content-type": self.content_type},
            body=body,
            timeout=self.timeout,
            verb="patch",  # an apply is a patch to the server; only the words tell them apart
            words=f"{self.words}{name}{self.tail}",
        )


def form_of(
    place: Target,
    key: FormKey,
    *,
    timeout: float,
    manager: str | None = None,
    validation: Validation | None = None,
    dry_run: bool = False,
) -> Form:
    """The form for a kind in a place; BadName or ConfigError if no call could be made of it."""
    class_, _, subresource, content_type, force = key
    kind, verb = place.served.gvk.kind, "apply" if content_type == APPLY else "patch"
    return Form(
        class_=class_,
        place=place,
        gvk=place.served.gvk,
        namespace=place.namespace,
        path=f"{place.path}/",
        words=f"{verb} {kind}/{place.namespace}/" if place.namespace else f"{verb} {kind}/",
        tail=f"/{subresource}" if subresource else "",
        query=writing_query(manager, validation, bool(dry_run), force),
        content_type=content_type,
        timeout=timeout,
        is_dry=bool(dry_run),
    )
