"""Conversion between versions of a kind as values: `converts(Website, OldWebsite, to_hub=..., from_hub=...)`.

One version is the hub, usually the stored one; every other version has functions to and from the hub, so that n
versions need n - 1 pairs. `convert_all` turns the `request` of a ConversionReview into its `response`: all objects, or
a failure. `check_round_trip` is a test helper that finds conversions that lose data:

```python
def test_no_version_loses_anything() -> None:
    check_round_trip([converts(Website, OldWebsite, to_hub=upgrade, from_hub=downgrade)])
```
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from levelset.errors import BadObject, ConfigError, LevelsetError
from levelset.objects import codec
from levelset.objects.json_tree import format_path, get_at, is_map, parse_pointer
from levelset.objects.kind_definition import definition_of
from levelset.objects.ref import GroupVersionKind, parse_api_version
from levelset.objects.resource import Object
from levelset.patch import diff_operations
from levelset.runtime.webhook.admission import Webhook
from levelset.runtime.webhook.sample_objects import make_samples

__all__ = ["Conversion", "Conversions", "LossyConversion", "check_round_trip", "convert_all", "converts"]

H = TypeVar("H", bound=Object)
O = TypeVar("O", bound=Object)  # noqa: E741  # the letter the type checker shows

_MAY_CHANGE: Final = ("annotations", "labels")


class Conversion(Webhook, frozen=True, eq=False):
    """The functions from one version of a kind to the hub and back; made by `converts`."""

    hub: type[Object]
    other: type[Object]
    to_hub: Callable[[Any], Any]
    from_hub: Callable[[Any], Any]

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind in the version that is not the hub."""
        return definition_of(self.other).gvk

    def __repr__(self) -> str:
        return f"converts({definition_of(self.hub).gvk}, {self.gvk.version})"


def converts(hub: type[H], other: type[O], *, to_hub: Callable[[O], H], from_hub: Callable[[H], O]) -> Conversion:
    """A conversion between the hub and another version of a kind.

    Both functions get an object and return one of the other class. They must be pure and synchronous: an API server
    converts at every read. Of the returned metadata only labels and annotations are used; the rest stays as it was.
    `check_round_trip` tests that nothing is lost.
    """
    mine, theirs = definition_of(hub).gvk, definition_of(other).gvk
    if (mine.group, mine.kind) != (theirs.group, theirs.kind):
        raise ConfigError(f"{mine} and {theirs} are two kinds; only versions of one kind can be converted")
    if mine.version == theirs.version:
        raise ConfigError(
            f"{hub.__name__} and {other.__name__} are the same version, {mine}; there is nothing to convert"
        )
    for word, function in (("to_hub", to_hub), ("from_hub", from_hub)):
        if inspect.iscoroutinefunction(function):
            raise ConfigError(
                f"converts({mine}): {word} must not be a coroutine function; a conversion is a pure function"
            )
    return Conversion(hub, other, to_hub, from_hub)


class Conversions:
    """The conversions of a program by kind; ConfigError if a kind has two hubs, or a version is given twice."""

    def __init__(self, pairs: Iterable[Conversion] = ()) -> None:
        self._hubs: dict[tuple[str, str], type[Object]] = {}
        self._pairs: dict[tuple[str, str], dict[str, Conversion]] = {}
        for pair in pairs:
            self._add(pair)

    def _add(self, pair: Conversion) -> None:
        named = (pair.gvk.group, pair.gvk.kind)
        hub = self._hubs.setdefault(named, pair.hub)
        if hub is not pair.hub:
            raise ConfigError(f"{pair.gvk.kind} has two hubs, {hub.__name__} and {pair.hub.__name__}; choose one")
        known = self._pairs.setdefault(named, {})
        if pair.gvk.api_version in known:
            raise ConfigError(f"{pair.gvk} has two conversions; pass only one of them")
        known[pair.gvk.api_version] = pair

    @property
    def kinds(self) -> Mapping[tuple[str, str], Sequence[type[Object]]]:
        """The classes of all versions by group and kind, the hub first."""
        return {
            named: (hub, *(pair.other for pair in self._pairs[named].values())) for named, hub in self._hubs.items()
        }

    def convert(self, tree: Mapping[str, Any], wanted: str) -> dict[str, Any]:
        """The object in another version, as a new tree; BadObject if it cannot be converted."""
        found, kind = str(tree.get("apiVersion")), str(tree.get("kind"))
        if found == wanted:
            return dict(tree)
        group = _group(found)
        if group != _group(wanted):
            raise BadObject(f"{kind} cannot be converted from {found} to {wanted}: the groups differ")
        named = (group, kind)
        if named not in self._hubs:
            raise BadObject(f"there is no conversion for {kind} of {group or 'the core group'}")
        obj = codec.from_tree(self._class(named, found), tree)
        return _merged(tree, self._through_hub(named, obj, wanted))

    def _through_hub(self, named: tuple[str, str], obj: Object, wanted: str) -> Object:
        hub = self._hubs[named]
        middle = obj if isinstance(obj, hub) else _called(self._pairs[named][obj.api_version].to_hub, obj, hub)
        target = self._class(named, wanted)
        return middle if target is hub else _called(self._pairs[named][wanted].from_hub, middle, target)

    def _class(self, named: tuple[str, str], version: str) -> type[Object]:
        hub = self._hubs[named]
        if definition_of(hub).gvk.api_version == version:
            return hub
        pair = self._pairs[named].get(version)
        if pair is None:
            known = ", ".join([definition_of(hub).gvk.api_version, *self._pairs[named]])
            raise BadObject(f"{named[1]} has no version {version}; there are {known}", field="apiVersion")
        other: type[Object] = pair.other
        return other


def _called(function: Callable[[Any], Any], obj: Object, wanted: type[Object]) -> Object:
    name = getattr(function, "__name__", repr(function))
    try:
        made = function(obj)
    except LevelsetError:
        raise
    except Exception as error:
        # Whatever a user's function raises ends this conversion, with a one-line message.
        raise BadObject(f"{name} failed with {type(error).__name__}: {error}") from error
    if not isinstance(made, wanted):
        raise BadObject(f"{name} returned a {type(made).__name__}; it must return a {wanted.__name__}")
    return made


def _merged(before: Mapping[str, Any], made: Object) -> dict[str, Any]:
    """The converted object with its original metadata, except for labels and annotations."""
    tree: dict[str, Any] = codec.to_tree(made)
    _keep_explicit(before, made, tree)
    made_metadata: dict[str, Any] = tree.get("metadata") or {}
    original: Any = before.get("metadata")
    metadata = {name: value for name, value in original.items() if name not in _MAY_CHANGE} if is_map(original) else {}
    metadata |= {name: made_metadata[name] for name in _MAY_CHANGE if made_metadata.get(name)}
    first = {"apiVersion": tree["apiVersion"], "kind": tree["kind"], "metadata": metadata}
    return {**first, **{name: value for name, value in tree.items() if name not in first}}


def _keep_explicit(before: Mapping[str, Any], made: msgspec.Struct, tree: dict[str, Any]) -> None:
    """Puts fields back that were given with the value of their default, which encoding leaves out."""
    for one in msgspec.structs.fields(made):
        name, value = one.encode_name, getattr(made, one.name)
        if name not in before or name == "metadata":
            continue
        given = before[name]
        if isinstance(value, msgspec.Struct) and is_map(given):
            inner = tree.get(name, {})
            _keep_explicit(given, value, inner)
            if inner:
                tree[name] = inner
        elif name not in tree and value is not None and msgspec.to_builtins(value) == given:
            tree[name] = given


def _group(api_version: str) -> str:
    return parse_api_version(api_version)[0]


_log: Final = logging.getLogger("levelset.runtime.webhook")

_BATCH: Final = 100


async def convert_all(conversions: Conversions, request: Mapping[str, Any]) -> dict[str, Any]:
    """The `response` to the `request` of a ConversionReview; a failure names the first object that failed."""
    wanted = request["desiredAPIVersion"]
    made: list[dict[str, Any]] = []
    for index, tree in enumerate(request["objects"]):
        if index % _BATCH == _BATCH - 1:
            await asyncio.sleep(0)  # a long list must not block other reviews
        try:
            made.append(conversions.convert(tree, wanted))
        except LevelsetError as error:
            place = _place(tree)
            _log.error(
                "conversion failed", exc_info=error, extra={"object": place, "wanted": wanted, "uid": request["uid"]}
            )
            message = f"{place} (objects[{index}]) cannot be converted to {wanted}: {error}"
            return {"uid": request["uid"], "convertedObjects": [], "result": {"status": "Failure", "message": message}}
    return {"uid": request["uid"], "convertedObjects": made, "result": {"status": "Success"}}


def _place(tree: Mapping[str, Any]) -> str:
    metadata: Mapping[str, Any] = tree["metadata"]
    named = (tree["kind"], metadata.get("namespace"), metadata.get("name") or metadata.get("generateName"))
    return "/".join(str(one) for one in named if one)


_SHOWN = 5


class LossyConversion(AssertionError):
    """A round trip through another version changed an object, or failed.

    What to do: keep what the other version cannot express, for example in an annotation, and restore it on the way
    back.
    """


def check_round_trip(
    converters: Conversion | Iterable[Conversion],
    samples: Iterable[Object] | None = None,
    *,
    count: int = 100,
    seed: int = 0,
) -> int:
    """Converts objects of every version to every other one and back; returns the number of round trips.

    Raises LossyConversion if an object changes. Without `samples`, `count` objects of each version are generated from
    the fields of the classes, always the same for a `seed`. With a property testing library, pass its objects as
    samples.
    """
    pairs = [converters] if isinstance(converters, Conversion) else list(converters)
    conversions = Conversions(pairs)
    tried = 0
    for classes in conversions.kinds.values():
        given = [one for one in samples if type(one) in classes] if samples is not None else _made(classes, count, seed)
        for one in given:
            for other in classes:
                if other is not type(one):
                    _check(conversions, one, definition_of(other).gvk.api_version)
                    tried += 1
    if not tried:
        raise ValueError("nothing to convert: pass conversions, and samples of their classes")
    return tried


def _made(classes: Sequence[type[Object]], count: int, seed: int) -> list[Object]:
    return [one for kind in classes for one in make_samples(kind, count=count, seed=seed)]


def _check(conversions: Conversions, one: Object, wanted: str) -> None:
    tree = _plain(one)
    way = f"{tree['kind']} from {tree['apiVersion']} to {wanted} and back"
    try:
        middle = conversions.convert(tree, wanted)
        back = codec.from_tree(type(one), conversions.convert(middle, tree["apiVersion"]))
    except LevelsetError as error:
        raise LossyConversion(f"{way}: {error}\nthe object: {_shown(tree)}") from error
    # Compared as objects: an explicit default is the same as an absent one.
    if back != one:
        operations = diff_operations(tree, _plain(back))
        changes = [_describe(tree, one) for one in operations[:_SHOWN]]
        more = [f"and {len(operations) - _SHOWN} more"] if len(operations) > _SHOWN else []
        lines = "\n  ".join([*changes, *more])
        raise LossyConversion(
            f"{way} changed the object:\n  {lines}\nthe object: {_shown(tree)}\nin between: {_shown(middle)}"
        )


def _plain(one: Object) -> dict[str, Any]:
    """The tree of the declared fields, without unknown fields that it was read with."""
    tree: dict[str, Any] = codec.decode_tree(codec.encode_tree(one))
    return tree


def _describe(tree: dict[str, Any], operation: dict[str, Any]) -> str:
    tokens = parse_pointer(operation["path"])
    path = format_path(tokens)
    match operation["op"]:
        case "add":
            return f"{path}: absent became {operation['value']!r}"
        case "remove":
            return f"{path}: {get_at(tree, tokens)!r} became absent"
        case _:
            return f"{path}: {get_at(tree, tokens)!r} became {operation['value']!r}"


def _shown(tree: dict[str, Any]) -> str:
    return codec.encode_tree(tree).decode()
