"""Changes to objects before anybody keeps them: fields left out, or whatever a typed function does.

A transform takes the JSON of an object and gives other JSON. It is applied once to each object that a watch brings,
before its head is read, so what it leaves out takes no memory anywhere. It must give the same for the same, and leave
the name, namespace, uid and resourceVersion alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from levelset.client.lists import Transform
from levelset.client.object_types import Kind, view_of
from levelset.errors import BadObject, ConfigError
from levelset.objects import codec
from levelset.objects.cached_object import read_head
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.unstructured import Unstructured

__all__ = ["composed", "guarded", "transforming", "without_fields"]

K = TypeVar("K")

_NEEDED: Final = frozenset({"name", "namespace", "uid", "resourceVersion"})


def without_fields(*paths: str) -> Transform:
    """A transform that leaves fields out: `without_fields("metadata.managedFields", "data")`.

    A path goes through lists into each of their elements (`spec.containers.env`); what is not there is no matter.
    ConfigError for fields that a cache needs.
    """
    split = [path.split(".") for path in paths]
    for path in split:
        if path in (["metadata"], ["apiVersion"], ["kind"]) or (path[0] == "metadata" and path[1:2][0] in _NEEDED):
            raise ConfigError(f"{'.'.join(path)} cannot be left out: without it an object cannot be found again")
    names = [f'"{path[-1]}"'.encode() for path in split]

    def transform(raw: bytes) -> bytes:
        if not any(name in raw for name in names):
            return raw
        tree = codec.decode_tree(raw)
        for path in split:
            _drop(tree, path)
        return codec.encode_tree(tree)

    return transform


def transforming(kind: Kind[K], function: Callable[[K], K]) -> Transform:
    """A transform out of a function on objects of a kind; what their class does not know stays as it is."""
    view = view_of(kind)

    def transform(raw: bytes) -> bytes:
        made: Any = function(view.read(raw))
        return codec.encode_tree(made.tree) if isinstance(made, Unstructured) else codec.encode(made)

    return transform


def composed(transforms: Sequence[Transform]) -> Transform | None:
    """All of them, one after the other, as one; None if there are none."""
    if len(transforms) < 2:
        return transforms[0] if transforms else None

    def transform(raw: bytes) -> bytes:
        for one in transforms:
            raw = one(raw)
        return raw

    return transform


def guarded(transform: Transform, told: Callable[[Exception], None]) -> Transform:
    """A transform that cannot fail: an object that it cannot change is kept as it is, and that is told.

    Dropping the object instead would make the cache wrong, which is worse than too large.
    """

    def safe(raw: bytes) -> bytes:
        try:
            return _same(raw, transform(raw))
        except Exception as error:  # noqa: BLE001 -- whatever a user's function raises
            problem = BadObject(f"the transform failed, so an object is kept as it came: {error!r}")
            problem.__cause__ = error
            told(problem)
            return raw

    return safe


def _same(raw: bytes, made: bytes) -> bytes:
    """What was made of it; refuses what is no JSON of the same object, which a cache could not keep, or not find."""
    if made is raw:
        return raw
    if not isinstance(made, bytes):  # a forgotten return
        raise BadObject(f"it gave a {type(made).__name__} and no bytes")
    if _identity(made) != _identity(raw):
        raise BadObject("it changed the name, namespace, uid or resourceVersion")
    return made


def _identity(raw: bytes) -> tuple[object, ...]:
    head = read_head(raw)
    return head.name, head.namespace, head.uid, head.resource_version


def _drop(tree: Any, path: Sequence[str]) -> None:
    if is_list(tree):
        for element in tree:
            _drop(element, path)
    elif is_map(tree):
        if len(path) == 1:
            tree.pop(path[0], None)
        elif path[0] in tree:
            _drop(tree[path[0]], path[1:])
