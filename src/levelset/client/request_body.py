"""Objects on their way to a server: what kind they are, what they are called, and their JSON; pure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal, cast

import msgspec

from levelset.client.object_types import View, view_of
from levelset.errors import BadObject, ConfigError
from levelset.objects import codec
from levelset.objects.cached_object import Head, read_head
from levelset.objects.json_tree import is_map
from levelset.objects.meta import DeleteOptions, Preconditions
from levelset.objects.ref import GroupVersionKind
from levelset.objects.resource import ORIGIN, Object, PartialObjectMetadata
from levelset.objects.unstructured import Unstructured

__all__ = ["Draft", "Write", "delete_options", "draft_of", "is_gone", "read_part", "write_of"]


class Write(msgspec.Struct, frozen=True, gc=False):
    """A write that a server has accepted: what was written, and the version that it has now.

    `is_gone` says that the object is no more; what is only marked for deletion is not gone. Without a name it is
    about many objects of a kind, and without a version nobody knows which one they have.
    """

    gvk: GroupVersionKind
    name: str | None
    namespace: str | None
    resource_version: str | None
    uid: str | None = None
    is_gone: bool = False
    head: Head | None = None
    """The metadata of the object as it is now, where the answer has them."""


class Draft(msgspec.Struct, frozen=True):
    """An object to be sent."""

    view: View[Any]
    name: str
    namespace: str | None
    resource_version: str
    has_origin: bool
    tree: Any
    """The tree, if there is one already; typed objects are written when they are sent."""
    object: Any

    def body(self) -> bytes:
        """The JSON of the object."""
        return codec.encode(self.object) if self.tree is None else codec.encode_tree(self.tree)

    def applied_body(self) -> bytes:
        """The JSON for an apply, which must not say who owns what: that is what the server finds out."""
        if self.tree is None and not self.has_origin and not self.object.metadata.managed_fields:
            return codec.encode_tree(self.object)  # the same, without the way there and back
        tree: Any = codec.to_tree(self.object) if self.tree is None else self.tree
        metadata = tree.get("metadata")
        if is_map(metadata) and "managedFields" in metadata:
            tree = {**tree, "metadata": {key: one for key, one in metadata.items() if key != "managedFields"}}
        return codec.encode_tree(tree)

    def check_whole(self) -> None:
        """Refuses an object that has a version but was not read: it lacks what its class does not know."""
        if self.tree is None and self.resource_version and not self.has_origin:
            raise BadObject(
                f"{self.view.gvk.kind} {self.name} has a resourceVersion but was not read from a server, so that an "
                "update would drop the fields which its class does not know: change the object that was read (replace, "
                "with_spec), or patch it"
            )


def draft_of(obj: Any) -> Draft:
    """The draft of a typed object, an Unstructured or a tree; ConfigError for what cannot be written."""
    found = _sendable(obj.__class__)
    if found is not None:
        meta = obj.metadata
        has_origin = ORIGIN in obj.__dict__
        return Draft(found, meta.name, meta.namespace, meta.resource_version, has_origin, None, obj)
    if isinstance(obj, PartialObjectMetadata):
        raise ConfigError(f"{obj.name}: only the metadata are here; patch the object, or read it whole")
    if isinstance(obj, Mapping):
        obj = Unstructured(cast("Mapping[str, Any]", obj))
    if not isinstance(obj, Unstructured):
        raise ConfigError(f"a {type(obj).__name__} is no object; give a typed one, an Unstructured, or a tree")
    meta = obj.metadata
    view: View[Any] = view_of(obj.gvk)
    return Draft(view, meta.name, meta.namespace, meta.resource_version, True, obj.tree, obj)


@lru_cache(maxsize=1024)
def _sendable(class_: Any) -> View[Any] | None:
    """The view for the typed objects of a class; None if it has none, or they cannot be sent."""
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
    """The JSON of what a delete asks for."""
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
    """What the answer to a delete says: the object as it is, or the Status with what was deleted."""

    kind: str | None = None
    metadata: "_DeletedMeta | None" = None
    details: "_DeletedDetails | None" = None


class _Written(msgspec.Struct, rename="camel", gc=False):
    """What the answer to nearly every write is: an object with a version, that nobody deletes."""

    kind: str | None
    metadata: Head


class _DeletedMeta(msgspec.Struct, rename="camel"):
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None


class _DeletedDetails(msgspec.Struct):
    uid: str | None = None


def read_part(view: View[Any], body: bytes, subresource: str | None) -> Any:
    """What an answer holds: an object of the kind that was asked for, or for other parts whatever it is."""
    if subresource not in {None, "status"} and not view.is_metadata:
        found = _decode(_Named, body)
        if GroupVersionKind.of(found.api_version or "", found.kind or "") != view.gvk:
            return Unstructured(codec.decode_tree(body))
    return view.read(body)


def is_gone(body: bytes) -> bool:
    """Whether the answer to a delete says that the object is no more, and not only marked for deletion."""
    found = _decode(_Deleted, body)
    meta = found.metadata
    if found.kind == "Status" or meta is None or meta.deletion_timestamp is None:
        return True
    return not meta.finalizers and meta.deletion_grace_period_seconds == 0


def write_of(
    gvk: GroupVersionKind, name: str | None, namespace: str | None, body: bytes, *, is_delete: bool = False
) -> Write | None:
    """What the answer to a write says about the object; None if it does not say which version it has."""
    found: _Written | None = None
    if not is_delete:
        try:
            found = _written.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            found = None
    if found is None or found.kind == "Status":
        return _unusual_write(gvk, name, namespace, body, is_delete=is_delete)
    kind, head = found.kind, found.metadata
    if not head.resource_version or head.deletion_timestamp is not None:
        return _unusual_write(gvk, name, namespace, body)
    own = head if kind == gvk.kind or kind == "PartialObjectMetadata" else None  # noqa: PLR1714 -- a set takes longer
    called, place = head.name or name, head.namespace or namespace
    return Write(gvk, called, place, head.resource_version, head.uid or None, head=own)


def _unusual_write(
    gvk: GroupVersionKind, name: str | None, namespace: str | None, body: bytes, *, is_delete: bool = False
) -> Write | None:
    """The same of an answer that may be a Status, or an object without a version, or on its way out."""
    found = _decode(_Deleted, body)
    # Whoever takes the last finalizer off an object that is being deleted removes it, whatever the verb.
    is_marked = found.metadata is not None and found.metadata.deletion_timestamp is not None
    gone = (is_delete or is_marked) and is_gone(body)
    if found.kind == "Status":
        uid = found.details.uid if found.details else None
        return Write(gvk, name, namespace, None, uid, is_gone=True) if is_delete else None
    head = read_head(body)
    if not head.resource_version and not gone:
        return None
    called, place = head.name or name, head.namespace or namespace
    # A part of another kind, such as a Scale, has the object's name and version, but metadata of its own.
    own = head if found.kind in {gvk.kind, "PartialObjectMetadata"} else None
    return Write(gvk, called, place, head.resource_version or None, head.uid or None, is_gone=gone, head=own)


_written: Final = msgspec.json.Decoder(_Written)


def _decode(kind: Any, body: bytes) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"the answer cannot be read ({len(body)} bytes): {error}") from error
