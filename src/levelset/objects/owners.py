"""Owners: who an object belongs to, and is deleted with."""

from functools import lru_cache
from typing import Any, TypeVar

from levelset.errors import BadOwner
from levelset.objects.definition import definition_of
from levelset.objects.meta import OwnerReference
from levelset.objects.resource import Object

__all__ = ["controller_of", "is_owned_by", "owner_reference", "remove_owner", "set_controller", "set_owner"]

O = TypeVar("O", bound=Object)  # noqa: E741  # the letter the type checker shows


def set_controller(obj: O, owner: Object, *, block_owner_deletion: bool = True) -> O:
    """A copy that is controlled by `owner`; BadOwner if another controller has it already."""
    present = controller_of(obj) if obj.metadata.owner_references else None
    if present is not None and present.uid != owner.metadata.uid:
        raise BadOwner(
            f"{obj.ref} is controlled by {present.kind}/{present.name} already and cannot get {owner.ref} too; "
            f"use set_owner for an owner that does not control"
        )
    return _with_owner(obj, owner, owner_reference(owner, controller=True, block_owner_deletion=block_owner_deletion))


def set_owner(obj: O, owner: Object, *, block_owner_deletion: bool | None = None) -> O:
    """A copy that is owned by `owner` among others; one that controls it already goes on controlling it."""
    present = next((one for one in obj.metadata.owner_references if one.uid == owner.metadata.uid), None)
    controls = present.controller if present else None
    return _with_owner(
        obj, owner, owner_reference(owner, controller=controls, block_owner_deletion=block_owner_deletion)
    )


def remove_owner(obj: O, owner: Object) -> O:
    """A copy that `owner` does not own."""
    kept = tuple(one for one in obj.metadata.owner_references if one.uid != owner.metadata.uid)
    return obj.with_metadata(owner_references=kept)


def controller_of(obj: Object) -> OwnerReference | None:
    """The owner that controls the object, or None."""
    for one in obj.metadata.owner_references:
        if one.controller:
            return one
    return None


def is_owned_by(obj: Object, owner: Object) -> bool:
    """Whether `owner`, this very object and not a namesake, is among the owners."""
    return any(one.uid == owner.metadata.uid for one in obj.metadata.owner_references)


def owner_reference(
    owner: Object, *, controller: bool | None = None, block_owner_deletion: bool | None = None
) -> OwnerReference:
    """The reference that points at `owner`; BadOwner if no server has given it a uid yet."""
    meta = owner.metadata
    if not meta.uid:
        raise BadOwner(f"{owner.ref} has no uid yet; create it first and use what the server answers")
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=meta.name,
        uid=meta.uid,
        controller=controller,
        block_owner_deletion=block_owner_deletion,
    )


def _with_owner(obj: O, owner: Object, reference: OwnerReference) -> O:
    _check_namespaces(obj, owner)
    present = obj.metadata.owner_references
    owners: tuple[OwnerReference, ...]
    if not present:
        owners = (reference,)
    elif any(one.uid == reference.uid for one in present):
        owners = tuple(reference if one.uid == reference.uid else one for one in present)
    else:
        owners = (*present, reference)
    return obj.with_metadata(owner_references=owners)


def _check_namespaces(obj: Object, owner: Object) -> None:
    """An owner in a namespace owns only what is in the same one: the collector would delete anything else."""
    kind: Any = type(obj)
    owners_kind: Any = type(owner)
    is_own, is_others = _are_namespaced(kind, owners_kind)
    if not is_others:
        return
    if not is_own:
        raise BadOwner(f"{owner.ref} lives in a namespace and cannot own the cluster-scoped {obj.ref}")
    if owner.metadata.namespace != obj.metadata.namespace:
        raise BadOwner(f"{owner.ref} cannot own {obj.ref} in another namespace")


@lru_cache(maxsize=1024)
def _are_namespaced(one: Any, other: Any) -> tuple[bool, bool]:
    return definition_of(one).namespaced, definition_of(other).namespaced
