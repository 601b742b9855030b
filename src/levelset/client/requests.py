"""Builds the request of every verb: path, query, headers and body. Nothing is sent here.

Selectors are accepted as a string, a mapping or a parsed value (`read_labels`, `read_fields`).
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote

import msgspec

from levelset.client.transport.interface import Call
from levelset.errors import BadName, BadSelector, ConfigError
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.kind_definition import Definition
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.ref import GroupVersionKind, GroupVersionResource

__all__ = [
    "APPLY",
    "JSON",
    "Fields",
    "Labels",
    "Match",
    "Propagation",
    "ResourceInfo",
    "Target",
    "Validation",
    "WriteSettings",
    "create",
    "delete",
    "delete_collection",
    "get",
    "list_",
    "logs",
    "patch",
    "read_fields",
    "read_labels",
    "update",
    "watch",
]

Labels = str | Mapping[str, str] | LabelSelector
"""A label selector: as a string, as labels that must all match, or parsed."""
Fields = str | Mapping[str, str] | FieldSelector
"""A field selector: as a string, as fields that must all match, or parsed."""


def read_labels(labels: Labels | None) -> LabelSelector | None:
    """The parsed label selector; BadSelector for anything else, before a request is sent."""
    if isinstance(labels, str):
        return LabelSelector.parse(labels)
    if isinstance(labels, Mapping):
        return LabelSelector.of(labels)
    if labels is None or isinstance(labels, LabelSelector):
        return labels
    raise _not_a_selector("label", labels)


def read_fields(fields: Fields | None) -> FieldSelector | None:
    """The parsed field selector; BadSelector for anything else, before a request is sent."""
    if isinstance(fields, str):
        return FieldSelector.parse(fields)
    if isinstance(fields, Mapping):
        return FieldSelector.of(fields)
    if fields is None or isinstance(fields, FieldSelector):
        return fields
    raise _not_a_selector("field", fields)


def _not_a_selector(what: str, given: Any) -> BadSelector:
    # Its str() could be a valid selector of other objects, also for a delete_collection.
    accepted = f'give a string ("a=b"), a mapping, or a {what.title()}Selector'
    return BadSelector(f"a value of type {type(given).__name__} is not a {what} selector: {accepted}")


Match = Literal["Exact", "NotOlderThan"]
"""How a list interprets its resource version (resourceVersionMatch)."""
Propagation = Literal["Background", "Foreground", "Orphan"]
"""What happens to the dependents of a deleted object (propagationPolicy)."""
Validation = Literal["Ignore", "Strict", "Warn"]
"""What the server does with unknown fields (fieldValidation)."""

APPLY: Final = "application/apply-patch+yaml"
JSON: Final = "application/json"
_AS: Final = "application/json;as={};g=meta.k8s.io;v=v1"
_METADATA: Final = _AS.format("PartialObjectMetadata")
_METADATA_LIST: Final = _AS.format("PartialObjectMetadataList")
_MAX_MANAGER: Final = 128
_COMMON_SUBRESOURCES: Final = frozenset({"scale", "status"})
"""The most frequent subresources, which need no quoting."""
_URL_SAFE: Final = Pattern(r"(?!\.\.?$)[A-Za-z0-9_.~:-]+", re.ASCII)
"""Path segments that need no quoting."""

Pairs = Iterable[tuple[str, object]]


class ResourceInfo(Protocol):
    """What a request needs to know of a kind; provided by a class's Definition and by discovery."""

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind."""
        ...

    @property
    def gvr(self) -> GroupVersionResource:
        """The resource that serves it."""
        ...

    @property
    def namespaced(self) -> bool:
        """Whether its objects are in namespaces."""
        ...


class Target(msgspec.Struct, frozen=True):
    """What a request addresses: an object, a subresource, or all objects of a kind (in a namespace)."""

    served: ResourceInfo
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None

    @property
    def path(self) -> str:
        """The path of the URL, percent-encoded; BadName if the name is not allowed in one."""
        name, namespace, subresource, served = self.name, self.namespace, self.subresource, self.served
        if served.__class__ is Definition and namespace.__class__ is str:
            made = _class_collection(served, namespace)
        else:
            made = self.collection
        if name is not None:
            is_safe = name.__class__ is str and _URL_SAFE.fullmatch(name)  # nearly always: nothing to quote
            made = f"{made}/{name if is_safe else self.segment('name', name)}"
        if subresource is None:
            return made
        if subresource in _COMMON_SUBRESOURCES:
            return f"{made}/{subresource}"
        return f"{made}/{'/'.join([self.segment('subresource', part) for part in subresource.split('/')])}"

    @property
    def collection(self) -> str:
        """The path of the collection: all objects of the kind in the namespace."""
        gvr = self.served.gvr
        root = f"/apis/{gvr.group}/{gvr.version}" if gvr.group else f"/api/{gvr.version}"
        if self.namespace is None:
            return f"{root}/{gvr.resource}"
        return f"{root}/namespaces/{self.segment('namespace', self.namespace)}/{gvr.resource}"

    def describe(self, verb: str) -> str:
        """The request in words: `update Website/default/blog/status`, `list Website in default`."""
        kind, namespace, name, subresource = self.served.gvk.kind, self.namespace, self.name, self.subresource
        if name is not None:
            if namespace and name:  # most objects: without the list
                part = f"/{subresource}" if subresource else ""
                return f"{verb} {kind}/{namespace}/{name}{part}"
            return f"{verb} {'/'.join([part for part in (kind, namespace, name, subresource) if part])}"
        if not self.served.namespaced:
            return f"{verb} {kind}"
        return f"{verb} {kind} in {self.namespace or 'all namespaces'}"

    def segment(self, field: str, text: str) -> str:
        """One segment of the path, percent-encoded; BadName if it is not allowed there."""
        try:
            if text and text not in {".", ".."} and "/" not in text and "%" not in text:
                return quote(text, safe=":")
        except (TypeError, UnicodeEncodeError):
            pass  # not a string, or a lone surrogate
        kind = self.served.gvk.kind
        raise BadName(f"{text!r} is not a {field} of a {kind}: give a string, not empty, without slashes", field=field)


def get(target: Target, *, version: str | None = None, is_metadata: bool = False, timeout: float) -> Call:
    """Reads one object; `version` "0" allows any version that the server has cached."""
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
    """Lists a page of the objects of a kind; ConfigError for options that contradict each other.

    Version "0" is left out of paged lists: servers that respond from their watch cache would ignore the limit.
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
    """Watches a kind; `seconds` is for how long (timeoutSeconds)."""
    if send_initial_events and not bookmarks:
        raise ConfigError(f"{target.describe('watch')}: the initial events end with a bookmark; leave bookmarks on")
    if seconds is not None and seconds < 1:
        raise ConfigError(f"{target.describe('watch')}: the timeout is {seconds} seconds; give at least 1")
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


class WriteSettings(Protocol):
    """The settings of a write, such as those of a client."""

    @property
    def manager(self) -> str | None:
        """The field manager."""
        ...

    @property
    def timeout(self) -> float:
        """The timeout in seconds."""
        ...

    @property
    def dry_run(self) -> bool:
        """Whether nothing is stored."""
        ...

    @property
    def validation(self) -> Validation | None:
        """What the server does with unknown fields; None for its default."""
        ...


def create(target: Target, body: bytes, settings: WriteSettings, *, subresource: bool = False) -> Call:
    """Creates an object, or posts to a subresource."""
    place = target if subresource else Target(target.served, target.namespace)
    return _write("POST", place.path, "create", body, JSON, settings, _Words("create", target))


def update(target: Target, body: bytes, settings: WriteSettings) -> Call:
    """Replaces an object, or a subresource, as a whole."""
    return _write("PUT", target.path, "update", body, JSON, settings, _Words("update", target))


def patch(
    target: Target,
    body: bytes,
    content_type: str,
    settings: WriteSettings,
    *,
    force: bool | None = None,
    is_metadata: bool = False,
) -> Call:
    """Patches an object; `force` is for a server-side apply."""
    words = _Words("apply" if content_type == APPLY else "patch", target)  # to the server an apply is a patch
    accept = _METADATA if is_metadata else JSON
    return _write("PATCH", target.path, "patch", body, content_type, settings, words, accept, force)


def delete(target: Target, options: bytes, *, is_metadata: bool = False, timeout: float) -> Call:
    """Deletes one object; `options` is the JSON of a DeleteOptions."""
    accept = _METADATA if is_metadata else JSON
    return _call("DELETE", target, "delete", "", accept=accept, body=options, content_type=JSON, timeout=timeout)


def delete_collection(
    target: Target, options: bytes, *, labels: Labels | None = None, fields: Fields | None = None, timeout: float
) -> Call:
    """Deletes all objects of a kind in a namespace that match the selectors."""
    query = _query(_selectors(labels, fields))
    made = _call("DELETE", target, "delete all", query, body=options, content_type=JSON, timeout=timeout)
    return msgspec.structs.replace(made, verb="deletecollection")


def logs(target: Target, options: Pairs, *, timeout: float) -> Call:
    """Reads the log of a container, as a stream."""
    # Logs are plain text whatever the Accept header, and some servers respond 406 to text/plain.
    made = _call("GET", target, "read logs of", _query(options), accept="*/*", timeout=timeout, is_stream=True)
    return msgspec.structs.replace(made, verb="get")


class _Words(msgspec.Struct, frozen=True, gc=False):
    """A request in words."""

    verb: str
    target: Target

    def __str__(self) -> str:
        return self.target.describe(self.verb)


def _write(  # noqa: PLR0917 -- by position: with names, a call takes twice as long
    method: str,
    path: str,
    verb: str,
    body: bytes,
    content_type: str,
    settings: WriteSettings,
    words: _Words,
    accept: str = JSON,
    force: bool | None = None,
) -> Call:
    return Call(
        method=method,
        path=path,
        query=_write_query(settings.manager, settings.validation, bool(settings.dry_run), force),
        headers={"accept": accept, "content-type": content_type},
        body=body,
        timeout=settings.timeout,
        verb=verb,
        about=words,
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
        about=_Words(verb, target),
    )


def _query(pairs: Pairs) -> str:
    return "&".join([f"{name}={_quoted(str(value))}" for name, value in pairs if value is not None])


def _quoted(value: str) -> str:
    # Most values are numbers and words: a test of the whole text costs a tenth of quoting it.
    return value if value.isascii() and value.isalnum() else quote(value, safe=":,()!")


@lru_cache(maxsize=256, typed=True)
def _write_query(manager: str | None, validation: str | None, is_dry: bool, force: bool | None) -> str:
    """The query of a write. Cached: a program uses few combinations, all the time."""
    if manager is not None and (len(manager) > _MAX_MANAGER or not manager.isprintable()):
        raise ConfigError(f"{manager[:40]!r} is not a field manager: give at most 128 printable characters")
    return _query(
        [
            ("fieldManager", manager),
            ("fieldValidation", validation),
            ("dryRun", "All" if is_dry else None),
            ("force", None if force is None else str(force).lower()),
        ]
    )


@lru_cache(maxsize=4096)
def _class_collection(served: Any, namespace: Any) -> str:
    """`Target.collection` of a class. Cached: a program uses few classes and namespaces, all the time."""
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
        problem = f"match={match!r} needs a resource_version"
    elif match == "Exact" and version == "0":
        problem = 'resource_version "0" means any version; give an exact one, or leave match out'
    elif continue_ and (version is not None or match is not None):
        problem = "continue_ implies the version of the first page; leave resource_version and match out"
    if problem is not None:
        raise ConfigError(f"{target.describe('list')}: {problem}")
