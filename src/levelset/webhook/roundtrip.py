"""Tells whether conversions lose anything: from one version to another and back, an object must be what it was.

```python
def test_no_version_loses_anything() -> None:
    check_round_trip([converts(Website, OldWebsite, to_hub=upgrade, from_hub=downgrade)])
```
"""

from collections.abc import Iterable, Sequence
from typing import Any

from levelset.errors import LevelsetError
from levelset.objects import codec
from levelset.objects.definition import definition_of
from levelset.objects.resource import Object
from levelset.objects.trees import format_path, get_at, parse_pointer
from levelset.patch import diff_operations
from levelset.webhook.conversion import Conversions, Converts
from levelset.webhook.samples import make_samples

__all__ = ["Lossy", "check_round_trip"]

_SHOWN = 5


class Lossy(AssertionError):
    """An object has come back from another version as something else, or has not come back at all."""


def check_round_trip(
    converters: Converts | Iterable[Converts],
    samples: Iterable[Object] | None = None,
    *,
    count: int = 100,
    seed: int = 0,
) -> int:
    """Takes objects of every version to every other one and back; how many ways were tried. Raises Lossy.

    Without `samples` it makes `count` of each version from what the classes say of their fields, the same ones each
    time unless the `seed` differs. With a library for property tests, give what that has made as samples.
    """
    pairs = [converters] if isinstance(converters, Converts) else list(converters)
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
        raise ValueError("there is nothing to try: give converters, and samples of their classes")
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
        raise Lossy(f"{way}: {error}\nthe object: {_shown(tree)}") from error
    # As the class sees it: a default that was written down is the same as one that was not.
    if back != one:
        operations = diff_operations(tree, _plain(back))
        told = [_told(tree, one) for one in operations[:_SHOWN]]
        more = [f"and {len(operations) - _SHOWN} more"] if len(operations) > _SHOWN else []
        lines = "\n  ".join([*told, *more])
        raise Lossy(f"{way} is not what it was:\n  {lines}\nthe object: {_shown(tree)}\nin between: {_shown(middle)}")


def _plain(one: Object) -> dict[str, Any]:
    """What the class says of the object, without anything else that it was read with."""
    tree: dict[str, Any] = codec.decode_tree(codec.encode_tree(one))
    return tree


def _told(tree: dict[str, Any], operation: dict[str, Any]) -> str:
    tokens = parse_pointer(operation["path"])
    path = format_path(tokens)
    match operation["op"]:
        case "add":
            return f"{path}: nothing became {operation['value']!r}"
        case "remove":
            return f"{path}: {get_at(tree, tokens)!r} became nothing"
        case _:
            return f"{path}: {get_at(tree, tokens)!r} became {operation['value']!r}"


def _shown(tree: dict[str, Any]) -> str:
    return codec.encode_tree(tree).decode()
