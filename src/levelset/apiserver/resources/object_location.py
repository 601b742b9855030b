"""The location of an object in storage: the keys of the work queues of the server's own controllers."""

from typing import Final

import msgspec

from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import Object, ServedResource

__all__ = ["REGISTRY", "ObjectLocation", "location_of", "prefix_of", "storage_version_of", "stored_resources"]

REGISTRY: Final = "/registry/"
"""The beginning of the storage keys of all objects."""


# A msgspec Struct, because one is created for every write of a dependent object.
class ObjectLocation(msgspec.Struct, frozen=True, eq=False):
    """One object by its storage key; equal to any other location with that key, in any version."""

    key: str
    served: ServedResource
    namespace: str | None
    name: str

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, ObjectLocation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    # Short: `served` may refer back to the server state, which holds the queues of locations.
    def __repr__(self) -> str:
        return f"ObjectLocation(key={self.key!r})"


def location_of(served: ServedResource, tree: Object) -> ObjectLocation:
    """Returns the location of an object."""
    metadata = tree["metadata"]
    name: str = metadata["name"]
    if not served.namespaced:
        return ObjectLocation(served.prefix + name, served, None, name)
    namespace: str | None = metadata.get("namespace")
    return ObjectLocation(served.key(namespace, name), served, namespace, name)


def prefix_of(key: str) -> str:
    """Returns the storage prefix of the resource that a key in `REGISTRY` belongs to."""
    group_end = key.find("/", len(REGISTRY))
    return key[: key.find("/", group_end + 1) + 1]


def storage_version_of(catalog: Catalog, served: ServedResource) -> ServedResource:
    """Returns the resource in its storage version, which needs no conversion; itself if that one is not served."""
    if served.stored_as_served:
        return served
    return catalog.find(served.group, served.storage_version, served.plural) or served


def stored_resources(catalog: Catalog) -> list[ServedResource]:
    """Returns one listable and deletable resource for each storage prefix, preferably in its storage version."""
    found: dict[str, ServedResource] = {}
    for served in catalog.all():
        if "list" in served.verbs and "delete" in served.verbs:
            known = found.get(served.prefix)
            # A resource that is served in its storage version can be read without a conversion.
            if known is None or (served.stored_as_served and not known.stored_as_served):
                found[served.prefix] = served
    return list(found.values())
