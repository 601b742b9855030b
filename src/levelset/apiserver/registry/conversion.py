"""Conversion between the stored version of an object and the versions that it is served in.

Between versions of a custom resource only `apiVersion` changes, and fields that the target version does not declare are
dropped, unless there is a converter (`ServedResource.convert`). An object that was stored before its CRD got its
current schema is pruned and defaulted when it is read. For built-in kinds see `builtin/conversions.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.errors import ServerFailed

__all__ = ["AsyncConverter", "ConversionRequired", "convert_between", "to_served", "to_stored"]

_CONVERTIBLE_METADATA: Final = ("annotations", "labels")


class AsyncConverter(Protocol):
    """A converter that has to be awaited: a conversion webhook."""

    async def convert_all(self, required: "Sequence[ConversionRequired]", /) -> None:
        """Makes the results of these conversions available to the next synchronous call."""
        ...


class ConversionRequired(Exception):
    """A webhook must convert the object before it can be read or stored.

    `conversion_webhook.run_with_conversions` awaits the webhook and retries.
    """

    def __init__(self, converter: AsyncConverter, data: bytes, api_version: str) -> None:
        super().__init__(f"a conversion to {api_version}")
        self.converter = converter
        self.data = data
        self.api_version = api_version


def to_served(served: ServedResource, tree: Object, revision: int) -> None:
    """Converts a stored tree, written at this revision, to the served version, in place."""
    stored = tree.get("apiVersion")
    if served.from_stored is not None:
        served.from_stored(tree)
    if not served.custom or stored == served.api_version:
        tree["apiVersion"] = served.api_version
        if served.custom and revision < served.since:
            _prune_and_default(served.schema, tree)
        return
    if revision < served.since and stored == served.storage_api_version:
        _prune_and_default(served.storage_schema, tree)
    if served.convert is not None:
        _convert(served.convert, tree, served.api_version)
    tree["apiVersion"] = served.api_version
    _prune(served.schema, tree)


def to_stored(served: ServedResource, tree: Object) -> None:
    """Converts a tree of the served version to the storage version, in place."""
    if served.to_stored is not None:
        served.to_stored(tree)
    if served.custom and served.version != served.storage_version:
        if served.convert is not None:
            tree["apiVersion"] = served.api_version
            _convert(served.convert, tree, served.storage_api_version)
        # Upstream sets the defaults of the storage version when it reads; here most reads copy the stored bytes.
        _prune_and_default(served.storage_schema, tree)
    tree["apiVersion"] = served.storage_api_version


def convert_between(served: ServedResource, other: ServedResource, tree: Object) -> None:
    """Converts a tree of one version to another version of the same resource, in place."""
    if not served.custom:
        to_stored(served, tree)
        to_served(other, tree, 0)
        return
    if served.convert is not None:
        _convert(served.convert, tree, other.api_version)
    tree["apiVersion"] = other.api_version
    _prune_and_default(other.schema, tree)


def _convert(convert: Callable[[Object, str], Object], tree: Object, api_version: str) -> None:
    name = (tree.get("kind"), tree["metadata"].get("namespace"), tree["metadata"].get("name"))
    try:
        converted = convert(tree, api_version)
        metadata = converted["metadata"]
        converted_name = (converted.get("kind"), metadata.get("namespace"), metadata.get("name"))
    except ConversionRequired:
        raise
    except Exception as error:
        # The converter is foreign code and may raise anything: the client gets an error that the conversion failed.
        raise _failed(name, tree.get("apiVersion"), api_version, str(error) or type(error).__name__) from error
    if converted.get("apiVersion") != api_version or converted_name != name:
        problem = f"the converter returned {converted.get('apiVersion')} {_joined(converted_name)}"
        raise _failed(name, tree.get("apiVersion"), api_version, problem)
    metadata = {word: value for word, value in tree["metadata"].items() if word not in _CONVERTIBLE_METADATA}
    metadata |= {word: converted["metadata"][word] for word in _CONVERTIBLE_METADATA if converted["metadata"].get(word)}
    tree.clear()
    tree.update({"apiVersion": api_version, "kind": name[0], "metadata": metadata})
    tree.update({word: value for word, value in converted.items() if word not in tree})


def _failed(name: tuple[Any, ...], version: Any, api_version: str, problem: str) -> ServerFailed:
    return ServerFailed(f"conversion of {_joined(name)} from {version} to {api_version} failed: {problem}")


def _joined(name: tuple[Any, ...]) -> str:
    return "/".join(str(one) for one in name if one)


def _prune_and_default(source: Callable[[], Any], tree: Object) -> None:
    schema = source()
    if schema is not None:
        schema.load(tree)


def _prune(source: Callable[[], Any], tree: Object) -> None:
    schema = source()
    if schema is not None:
        schema.prune(tree)
