"""From what is stored to what is served, and back: an object is kept in one version and read in several.

Between versions of a custom resource only `apiVersion` changes, and what the other version does not know is dropped.
An object that was written before its definition took its present schema is pruned and defaulted when it is read. Some
built-in kinds are views of another one: their fields are renamed.
"""

from levelset.apiserver.served import Object, Served

__all__ = ["serve", "store"]


def serve(served: Served, tree: Object, revision: int) -> None:
    """Turns a stored tree, written at this revision, into one of the served version, in place."""
    stored = tree.get("apiVersion")
    if served.from_stored is not None:
        served.from_stored(tree)
    tree["apiVersion"] = served.api_version
    if not served.custom:
        return
    schema = served.schema()
    if stored != served.api_version:
        if revision < served.since and stored == served.storage_api_version:
            _load(served, tree)
        if schema is not None:
            schema.prune(tree)
    elif revision < served.since and schema is not None:
        schema.load(tree)


def store(served: Served, tree: Object) -> None:
    """Turns a tree of the served version into the one that is stored, in place."""
    if served.to_stored is not None:
        served.to_stored(tree)
    if served.custom and served.version != served.storage_version:
        schema = served.storage_schema()
        if schema is not None:
            schema.prune(tree)
    tree["apiVersion"] = served.storage_api_version


def _load(served: Served, tree: Object) -> None:
    schema = served.storage_schema()
    if schema is not None:
        schema.load(tree)
