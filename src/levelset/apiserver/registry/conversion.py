"""From what is stored to what is served, and back: an object is kept in one version and read in several.

Between versions of a custom resource only `apiVersion` changes, and what the other version does not know is dropped,
unless somebody converts them (`Served.convert`). An object that was written before its definition took its present
schema is pruned and defaulted when it is read. Some built-in kinds are views of another one: their fields are renamed.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.errors import ServerFailed

__all__ = ["Awaited", "NeedsConversion", "between", "serve", "store"]

_MAY_CHANGE: Final = ("annotations", "labels")


class Awaited(Protocol):
    """Somebody who converts, and must be waited for."""

    async def fulfil(self, needs: "Sequence[NeedsConversion]", /) -> None:
        """Makes these conversions known."""
        ...


class NeedsConversion(Exception):
    """An object must be converted before it can be read or stored; see `ahead` for those who wait for it."""

    def __init__(self, by: Awaited, data: bytes, wanted: str) -> None:
        super().__init__(f"a conversion to {wanted}")
        self.by = by
        self.data = data
        self.wanted = wanted


def serve(served: ServedResource, tree: Object, revision: int) -> None:
    """Turns a stored tree, written at this revision, into one of the served version, in place."""
    stored = tree.get("apiVersion")
    if served.from_stored is not None:
        served.from_stored(tree)
    if not served.custom or stored == served.api_version:
        tree["apiVersion"] = served.api_version
        if served.custom and revision < served.since:
            _load(served.schema, tree)
        return
    if revision < served.since and stored == served.storage_api_version:
        _load(served.storage_schema, tree)
    if served.convert is not None:
        _convert(served.convert, tree, served.api_version)
        _load(served.schema, tree)
        return
    tree["apiVersion"] = served.api_version
    _prune(served.schema, tree)


def store(served: ServedResource, tree: Object) -> None:
    """Turns a tree of the served version into the one that is stored, in place."""
    if served.to_stored is not None:
        served.to_stored(tree)
    if served.custom and served.version != served.storage_version:
        if served.convert is not None:
            tree["apiVersion"] = served.api_version
            _convert(served.convert, tree, served.storage_api_version)
        _prune(served.storage_schema, tree)
    tree["apiVersion"] = served.storage_api_version


def between(served: ServedResource, other: ServedResource, tree: Object) -> None:
    """Turns a tree of one version into one of another version of the same resource, in place."""
    if not served.custom:
        store(served, tree)
        serve(other, tree, 0)
        return
    if served.convert is not None:
        _convert(served.convert, tree, other.api_version)
    tree["apiVersion"] = other.api_version
    _load(other.schema, tree)


def _convert(convert: Callable[[Object, str], Object], tree: Object, wanted: str) -> None:
    name = (tree.get("kind"), tree["metadata"].get("namespace"), tree["metadata"].get("name"))
    try:
        made = convert(tree, wanted)
        found = (made.get("kind"), made["metadata"].get("namespace"), made["metadata"].get("name"))
    except NeedsConversion:
        raise
    except Exception as error:
        # Whatever somebody else's function raises, the client is told whose fault it is.
        raise _failed(name, tree.get("apiVersion"), wanted, str(error) or type(error).__name__) from error
    if made.get("apiVersion") != wanted or found != name:
        raise _failed(name, tree.get("apiVersion"), wanted, f"it gave a {made.get('apiVersion')} {_shown(found)}")
    metadata = {word: value for word, value in tree["metadata"].items() if word not in _MAY_CHANGE}
    metadata |= {word: made["metadata"][word] for word in _MAY_CHANGE if made["metadata"].get(word)}
    tree.clear()
    tree.update({"apiVersion": wanted, "kind": name[0], "metadata": metadata})
    tree.update({word: value for word, value in made.items() if word not in tree})


def _failed(name: tuple[Any, ...], version: Any, wanted: str, problem: str) -> ServerFailed:
    return ServerFailed(f"conversion of {_shown(name)} from {version} to {wanted} failed: {problem}")


def _shown(name: tuple[Any, ...]) -> str:
    return "/".join(str(one) for one in name if one)


def _load(source: Callable[[], Any], tree: Object) -> None:
    schema = source()
    if schema is not None:
        schema.load(tree)


def _prune(source: Callable[[], Any], tree: Object) -> None:
    schema = source()
    if schema is not None:
        schema.prune(tree)
