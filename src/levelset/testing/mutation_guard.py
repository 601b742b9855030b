"""Detects code that mutates objects of a shared cache.

Typed objects are frozen, but a list or a dict inside of one is not: `site.metadata.labels["a"] = "b"` changes what all
other readers see, and is never sent to the server. The guard compares the decoded objects of a cache with the bytes
they were decoded from:

```python
with mutation_guard(cluster):
    await reconcile(site, ctx)
```
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from levelset.errors import BadObject
from levelset.objects import codec, json_tree
from levelset.objects.cached_object import CachedObject
from levelset.patch import diff_operations

__all__ = ["Mutated", "Mutation", "MutationGuard", "SharedObjects", "mutation_guard"]


class SharedObjects(Protocol):
    """A cache that shares decoded objects between readers: a Store, or a Cluster with all its stores."""

    def decoded_objects(self) -> Iterable[tuple[CachedObject, Any]]:
        """The decoded objects that the next reader would get, each with the cached bytes."""
        ...


class Mutation(msgspec.Struct, frozen=True):
    """A mutated object, and the fields that differ, such as `metadata.labels.a`."""

    name: str
    fields: Sequence[str]

    def __str__(self) -> str:
        return f"{self.name} at {', '.join(self.fields)}"


class Mutated(AssertionError):
    """A shared object was mutated; `mutations` lists the objects and fields.

    What to do: change a copy: `replace(obj, ...)`, `with_spec(...)`, or build a new object.
    """

    def __init__(self, mutations: Sequence[Mutation]) -> None:
        what = "; ".join(map(str, mutations))
        remedy = "make a changed copy instead (replace, with_spec, with_status, with_metadata)"
        super().__init__(f"objects of a shared cache were mutated: {what}. Other readers now see wrong data: {remedy}")
        self.mutations = mutations


class MutationGuard:
    """Finds cached objects that differ from the bytes they were decoded from."""

    def __init__(self, *shares: SharedObjects) -> None:
        self._shares = shares

    def find(self) -> list[Mutation]:
        """The mutations so far."""
        found = (_compare(cached, obj) for one in self._shares for cached, obj in one.decoded_objects())
        return [mutation for mutation in found if mutation is not None]

    def check(self) -> None:
        """Raises Mutated if an object was mutated."""
        if found := self.find():
            raise Mutated(found)


@contextmanager
def mutation_guard(*shares: SharedObjects) -> Generator[MutationGuard, None, None]:
    """Raises Mutated at the end of the block if an object of these stores or clusters was mutated.

    An error of the block itself takes precedence. An object that was replaced by a newer version meanwhile is not
    checked; call `guard.check()` to check earlier.
    """
    guard = MutationGuard(*shares)
    yield guard
    guard.check()


def _compare(cached: CachedObject, obj: Any) -> Mutation | None:
    before = codec.decode_tree(cached.raw)
    try:
        after = codec.to_tree(obj)
    except BadObject as error:
        return Mutation(_name(obj, cached), (f"a field that can no longer be encoded as JSON ({error})",))
    fields = dict.fromkeys(_field(operation["path"]) for operation in diff_operations(before, after))
    return Mutation(_name(obj, cached), tuple(fields)) if fields else None


def _field(pointer: str) -> str:
    tokens = json_tree.parse_pointer(pointer)
    return json_tree.format_path(int(token) if token.isdecimal() else token for token in tokens) or "its root"


def _name(obj: Any, cached: CachedObject) -> str:
    kind = getattr(obj, "kind", "") or type(obj).__name__
    return "/".join(part for part in (kind, cached.namespace, cached.name) if part)
