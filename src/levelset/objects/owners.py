"""Owner references: set, remove and find the owners of an object, typed or as a tree. Pure functions."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from levelset.errors import BadOwner
from levelset.objects import codec
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.kind_definition import definition_of
from levelset.objects.meta import OwnerReference
from levelset.objects.resource import Object
from levelset.objects.unstructured import Unstructured

__all__ = [
    "as_object",
    "controller_of",
    "is_child",
    "is_owned_by",
    "owned",
    "owner_reference",
    "remove_owner",
    "set_controller",
    "set_owner",
]

O = TypeVar("O", bound=Object)  # noqa: E741  # the letter the type checker shows


def set_controller(obj: O, owner: Object, *, block_owner_deletion: bool = True) -> O:
    """A copy with `owner` as its controller; BadOwner if it has another controller already."""
    present = controller_of(obj) if obj.metadata.owner_references else None
    if present is not None and present.uid != owner.metadata.uid:
        raise BadOwner(
            f"{obj.ref} is controlled by {present.kind}/{present.name} already and cannot get {owner.ref} too; "
            f"use set_owner to add an owner that is not the controller"
        )
    return _with_owner(obj, owner, owner_reference(owner, controller=True, block_owner_deletion=block_owner_deletion))


def set_owner(obj: O, owner: Object, *, block_owner_deletion: bool | None = None) -> O:
    """A copy with `owner` added to its owners; if it is the controller already, it stays the controller."""
    present = next((one for one in obj.metadata.owner_references if one.uid == owner.metadata.uid), None)
    controls = present.controller if present else None
    return _with_owner(
        obj, owner, owner_reference(owner, controller=controls, block_owner_deletion=block_owner_deletion)
    )


def remove_owner(obj: O, owner: Object) -> O:
    """A copy without the reference to `owner`."""
    others = tuple(one for one in obj.metadata.owner_references if one.uid != owner.metadata.uid)
    return obj.with_metadata(owner_references=others)


def controller_of(obj: Object) -> OwnerReference | None:
    """The reference to the controller of the object, or None."""
    for one in obj.metadata.owner_references:
        if one.controller:
            return one
    return None


def is_owned_by(obj: Object, owner: Object) -> bool:
    """Whether `owner` is among the owners; compared by uid, so a recreated object of the same name is not."""
    return any(one.uid == owner.metadata.uid for one in obj.metadata.owner_references)


def owner_reference(
    owner: Object, *, controller: bool | None = None, block_owner_deletion: bool | None = None
) -> OwnerReference:
    """The owner reference to `owner`; BadOwner if it has no uid yet."""
    meta = owner.metadata
    if not meta.uid:
        raise BadOwner(f"{owner.ref} has no uid yet; create it first and use the object that the API server returns")
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
    """A namespaced owner may own only objects in its namespace: the garbage collector would delete any other."""
    kind: Any = type(obj)
    owners_kind: Any = type(owner)
    is_own, is_others = _are_namespaced(kind, owners_kind)
    if not is_others:
        return
    if not is_own:
        raise BadOwner(f"{owner.ref} is namespaced and cannot own the cluster-scoped {obj.ref}")
    if owner.metadata.namespace != obj.metadata.namespace:
        raise BadOwner(f"{owner.ref} cannot own {obj.ref} in another namespace")


@lru_cache(maxsize=1024)
def _are_namespaced(one: Any, other: Any) -> tuple[bool, bool]:
    return definition_of(one).namespaced, definition_of(other).namespaced


C = TypeVar("C", bound=Object | Unstructured)


def as_object(child: Any) -> Any:
    """A typed object or an Unstructured as it is; any other mapping as an Unstructured."""
    if isinstance(child, Object):  # the usual case, and the fastest check
        return child
    return Unstructured(cast("Mapping[str, Any]", child)) if isinstance(child, Mapping) else child


def owned(child: C, owner: Object | Unstructured, *, controls: bool = True) -> C:
    """A copy of a child with an owner reference, and in the namespace of its owner if it has none.

    BadOwner if it has another controller, or if the owner is in another namespace or has no uid yet.
    """
    if isinstance(child, Object) and isinstance(owner, Object):
        made: Any = _adopted(child, owner) if controls and not child.metadata.owner_references else None
        if made is None:
            placed: Any = _placed(child, owner)
            made = set_controller(placed, owner) if controls else set_owner(placed, owner)
        return made  # type: ignore[no-any-return]
    tree = codec.to_tree(child)
    made = {**tree, "metadata": _owned_metadata(dict(tree.get("metadata") or {}), owner, _shown(child), controls)}
    return cast("C", Unstructured(made) if isinstance(child, Unstructured) else codec.from_tree(type(child), made))


def is_child(metadata_owners: Any, owner: Object | Unstructured) -> bool:
    """Whether the owner is among these owner references."""
    return any(one.uid == owner.metadata.uid for one in metadata_owners)


def _adopted(child: Object, owner: Object) -> Object | None:
    """The fast path of `_placed` and `set_controller` for a child without owners; None if it does not apply.

    It applies to nearly every child: namespaced as its owner is, and in the same namespace or without one yet.
    """
    meta, place = child.metadata, owner.metadata.namespace
    if place is None or not owner.metadata.uid or (meta.namespace is not None and meta.namespace != place):
        return None
    definition, owners_definition = getattr(child, "__definition__", None), getattr(owner, "__definition__", None)
    if definition is None or owners_definition is None:
        return None
    if definition.scope != "Namespaced" or owners_definition.scope != "Namespaced":
        return None
    reference = owner_reference(owner, controller=True, block_owner_deletion=True)
    return child.__replace__(metadata=msgspec.structs.replace(meta, namespace=place, owner_references=(reference,)))


def _placed(child: Object, owner: Object) -> Object:
    if child.metadata.namespace is not None:
        return child
    place = owner.metadata.namespace
    return child.with_metadata(namespace=place) if place is not None and definition_of(child).namespaced else child


def _shown(child: Object | Unstructured) -> str:
    """The child as text; one with only a generateName has no ref yet."""
    return f"{child.kind}/{child.name or child.metadata.generate_name}"


def _owned_metadata(
    metadata: dict[str, Any], owner: Object | Unstructured, shown: str, controls: bool
) -> dict[str, Any]:
    if not owner.metadata.uid:
        raise BadOwner(f"{owner.ref} has no uid yet; create it first and use the object that the API server returns")
    if owner.namespace is not None:
        if metadata.get("namespace") not in (None, "", owner.namespace):
            raise BadOwner(f"{owner.ref} cannot own {shown} in another namespace")
        metadata["namespace"] = owner.namespace
    present = metadata.get("ownerReferences")
    others = [one for one in present if is_map(one)] if is_list(present) else []
    uid = owner.metadata.uid
    rival = next((one for one in others if one.get("controller") and one.get("uid") != uid), None)
    if controls and rival is not None:
        raise BadOwner(f"{shown} is controlled by {rival.get('kind')}/{rival.get('name')} already, not by {owner.ref}")
    reference: dict[str, Any] = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": uid}
    if controls:
        reference |= {"controller": True, "blockOwnerDeletion": True}
    return {**metadata, "ownerReferences": [*(one for one in others if one.get("uid") != uid), reference]}
