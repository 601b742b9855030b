"""Where an object is: what the server's own controllers keep in their queues."""

import msgspec

from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import Object, ServedResource

__all__ = ["Spot", "spot_of", "stored_kind", "stored_kinds"]


class Spot(msgspec.Struct, frozen=True, eq=False):
    """One object by its place in the store; in whichever version it is served makes no difference.

    A value that is made for every write of a dependent. What is served may know the world, in which spots are kept.
    """

    key: str
    served: ServedResource
    namespace: str | None
    name: str

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Spot) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Spot(key={self.key!r})"


def spot_of(served: ServedResource, tree: Object) -> Spot:
    """The place of an object."""
    metadata = tree["metadata"]
    name: str = metadata["name"]
    if not served.namespaced:
        return Spot(served.prefix + name, served, None, name)
    namespace: str | None = metadata.get("namespace")
    return Spot(served.key(namespace, name), served, namespace, name)


def stored_kind(catalog: Catalog, served: ServedResource) -> ServedResource:
    """The same custom resource in the version that is stored, if that one is served: nobody has to convert it."""
    if served.stored_as_served:
        return served
    return catalog.find(served.group, served.storage_version, served.plural) or served


def stored_kinds(catalog: Catalog) -> list[ServedResource]:
    """One resource for each place in the store, whatever the versions and views it is served in."""
    found: dict[str, ServedResource] = {}
    for served in catalog.all():
        if "list" in served.verbs and "delete" in served.verbs:
            known = found.get(served.prefix)
            # One that is read just as it is stored needs nobody to convert it.
            if known is None or (served.stored_as_served and not known.stored_as_served):
                found[served.prefix] = served
    return list(found.values())
