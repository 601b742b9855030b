"""Request bodies of writes, and what the response to a write says about the object. No I/O.

`request_body_of` accepts typed objects, `Unstructured` and plain dicts. `write_of` reads a response into a `Write`,
which is what write observers (the cache) get.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar, cast

import msgspec

from levelset.client.object_types import View, view_of
from levelset.errors import BadObject, ConfigError
from levelset.objects import codec
from levelset.objects.cached_object import Head, without_managed_fields
from levelset.objects.meta import DeleteOptions, Preconditions
from levelset.objects.ref import GroupVersionKind
from levelset.objects.resource import Object, PartialObjectMetadata, origin_of
from levelset.objects.unstructured import Unstructured

__all__ = [
    "RequestBody",
    "Write",
    "delete_options",
    "is_gone",
    "kind_of_definition",
    "read_subresource",
    "request_body_of",
    "write_of",
]

T = TypeVar("T")

_MANAGED_FIELDS: Final = b'"managedFields"'


class Write(msgspec.Struct, frozen=True, gc=False):
    """A write that the server has accepted: what was written, and its new resource version.

    `is_gone` means that the object is deleted, not only marked for deletion. Without a name the write concerned many
    objects of the kind; without a resource version theirs is unknown.
    """

    gvk: GroupVersionKind
    name: str | None
    namespace: str | None
    resource_version: str | None
    uid: str | None = None
    is_gone: bool = False
    head: Head | None = None
    """The metadata of the object after the write, if the response has it."""


class RequestBody(msgspec.Struct, frozen=True):
    """An object to be sent, with what the request needs to know about it."""

    view: View[Any]
    name: str
    namespace: str | None
    resource_version: str
    has_origin: bool
    tree: Any
    """The JSON tree of an untyped object; None for a typed one, which is encoded when it is sent."""
    object: Any

    def encode(self) -> bytes:
        """The JSON of the object."""
        return codec.encode(self.object) if self.tree is None else codec.encode_tree(self.tree)

    def encode_for_apply(self) -> bytes:
        """The JSON of the object for a server-side apply, which must not contain managedFields."""
        written = self.encode()
        return without_managed_fields(written) if _MANAGED_FIELDS in written else written

    def check_complete(self) -> None:
        """BadObject for a typed object with a version that was not read: fields unknown to its class are missing."""
        if self.tree is None and self.resource_version and not self.has_origin:
            raise BadObject(
                f"{self.view.gvk.kind} {self.name} has a resourceVersion but was not read from a server, so an update "
                "would drop the fields that its class does not define: change the object that was read (replace, "
                "with_spec), or patch it"
            )


def request_body_of(obj: Any) -> RequestBody:
    """The request body of a typed object, an Unstructured or a dict; ConfigError for anything else."""
    found = _sendable(obj.__class__)
    if found is not None:
        meta = obj.metadata
        has_origin = origin_of(obj) is not None
        return RequestBody(found, meta.name, meta.namespace, meta.resource_version, has_origin, None, obj)
    if isinstance(obj, PartialObjectMetadata):
        raise ConfigError(f"{obj.name}: PartialObjectMetadata cannot be written; patch the object, or read all of it")
    if isinstance(obj, Mapping):
        obj = Unstructured(cast("Mapping[str, Any]", obj))
    if not isinstance(obj, Unstructured):
        raise ConfigError(f"a {type(obj).__name__} is not an object: give a typed object, an Unstructured, or a dict")
    meta = obj.metadata
    view: View[Any] = view_of(obj.gvk)
    return RequestBody(view, meta.name, meta.namespace, meta.resource_version, True, obj.tree, obj)


@lru_cache(maxsize=1024)
def _sendable(class_: Any) -> View[Any] | None:
    """The view of a class of typed objects; None for other classes."""
    is_typed = issubclass(class_, Object) and not issubclass(class_, PartialObjectMetadata)
    return view_of(class_) if is_typed else None


def delete_options(
    *,
    propagation: Literal["Background", "Foreground", "Orphan"] | None = None,
    grace: int | None = None,
    uid: str | None = None,
    resource_version: str | None = None,
    dry_run: bool = False,
) -> bytes:
    """The JSON of the DeleteOptions of a request."""
    conditions = Preconditions(uid=uid, resource_version=resource_version)
    options = DeleteOptions(
        grace_period_seconds=grace,
        preconditions=None if uid is None and resource_version is None else conditions,
        propagation_policy=propagation,
        dry_run=("All",) if dry_run else (),
    )
    return codec.encode(options)


class _Named(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None


class _Deleted(msgspec.Struct, rename="camel"):
    """The response to a delete: the object as it is now, or a Status that names what was deleted."""

    kind: str | None = None
    metadata: "_DeletedMeta | None" = None
    details: "_DeletedDetails | None" = None


class _DefinedNames(msgspec.Struct, frozen=True):
    kind: str = ""


class _DefinedSpec(msgspec.Struct, frozen=True):
    group: str = ""
    names: _DefinedNames = _DefinedNames()


class _Defined(msgspec.Struct, frozen=True):
    spec: _DefinedSpec | None = None


class _Written(msgspec.Struct, rename="camel", gc=False):
    """The response to a write: nearly always an object with a resource version."""

    kind: str | None = None
    metadata: Head | None = None


class _DeletedMeta(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None


class _DeletedDetails(msgspec.Struct):
    uid: str | None = None


def read_subresource(view: View[Any], body: bytes, subresource: str | None) -> Any:
    """The object in a response: of the view's kind, or of its own kind for subresources such as scale."""
    if subresource not in {None, "status"} and not view.is_metadata:
        found = _decode(_named, body)
        if GroupVersionKind.of(found.api_version or "", found.kind or "") != view.gvk:
            return Unstructured(codec.decode_tree(body))
    return view.read(body)


def is_gone(body: bytes) -> bool:
    """Whether the response to a delete means that the object is gone, and not only marked for deletion."""
    found = _decode(_deleted, body)
    meta = found.metadata
    if found.kind == "Status" or meta is None or meta.deletion_timestamp is None:
        return True
    return not meta.finalizers and meta.deletion_grace_period_seconds == 0


def write_of(
    gvk: GroupVersionKind, name: str | None, namespace: str | None, body: bytes, *, is_delete: bool = False
) -> Write | None:
    """What the response to a write says about the object; None if it has no resource version."""
    found = _decode(_written, body)
    kind, head = found.kind, found.metadata
    if kind == "Status":
        return Write(gvk, name, namespace, None, _uid_of_status(body), is_gone=True) if is_delete else None
    if head is None:
        raise BadObject(f"the response is a {kind or 'value'} without metadata ({len(body)} bytes)")
    # Any write that removes the last finalizer of an object that is being deleted also deletes it.
    gone = (is_delete or head.deletion_timestamp is not None) and is_gone(body)
    if not head.resource_version and not gone:
        return None
    # A subresource of another kind, such as Scale, has the object's name and version, but its own metadata.
    own = head if kind in {gvk.kind, "PartialObjectMetadata"} else None
    called, place = head.name or name, head.namespace or namespace
    return Write(gvk, called, place, head.resource_version or None, head.uid or None, is_gone=gone, head=own)


def kind_of_definition(body: bytes) -> tuple[str, str] | None:
    """The group and kind of a CustomResourceDefinition in a response; None if it has only the metadata, or a Status."""
    spec = _decode(_defined, body).spec
    return None if spec is None or not spec.group or not spec.names.kind else (spec.group, spec.names.kind)


def _uid_of_status(body: bytes) -> str | None:
    details = _decode(_deleted, body).details
    return None if details is None else details.uid


_written: Final = msgspec.json.Decoder(_Written)
_defined: Final = msgspec.json.Decoder(_Defined)
_deleted: Final = msgspec.json.Decoder(_Deleted)
_named: Final = msgspec.json.Decoder(_Named)


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"the response is not readable ({len(body)} bytes): {error}") from error
