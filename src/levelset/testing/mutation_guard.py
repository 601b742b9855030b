"""Catches code that writes into objects of a cache, which everybody reads.

Typed objects are frozen, but a list or a dict inside of one is not: `site.metadata.labels["a"] = "b"` changes what all
other readers see, and no server ever hears of it. The guard compares what a cache shares with the bytes it was read
from:

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
from levelset.objects.cached_object import Kept
from levelset.patch import diff_operations

__all__ = ["Mutated", "Mutation", "MutationGuard", "Shares", "mutation_guard"]


class Shares(Protocol):
    """What shares decoded objects between readers: a Store, or a Cluster with all its stores."""

    def remembered(self) -> Iterable[tuple[Kept, Any]]:
        """The decoded objects that the next reader would get, each with what it was read from."""
        ...


class Mutation(msgspec.Struct, frozen=True):
    """One object that somebody wrote into, and the fields that differ, such as `metadata.labels.a`."""

    name: str
    fields: Sequence[str]

    def __str__(self) -> str:
        return f"{self.name} at {', '.join(self.fields)}"


class Mutated(AssertionError):
    """Somebody wrote into a shared object; `mutations` says into which, and where."""

    def __init__(self, mutations: Sequence[Mutation]) -> None:
        what = "; ".join(map(str, mutations))
        way = "make a changed copy instead (replace, with_spec, with_status, with_metadata)"
        super().__init__(f"written into objects that the cache shares: {what}. What others read is wrong now: {way}")
        self.mutations = mutations


class MutationGuard:
    """Looks for objects that are no longer what they were read from."""

    def __init__(self, *shares: Shares) -> None:
        self._shares = shares

    def find(self) -> list[Mutation]:
        """What was written into so far."""
        found = (_compare(kept, obj) for one in self._shares for kept, obj in one.remembered())
        return [mutation for mutation in found if mutation is not None]

    def check(self) -> None:
        """Raises Mutated if something was written into."""
        if found := self.find():
            raise Mutated(found)


@contextmanager
def mutation_guard(*shares: Shares) -> Generator[MutationGuard, None, None]:
    """Raises Mutated at the end of the block if an object of these stores or clusters was written into.

    An error that the block itself raises goes first. An object that is no longer shared, because the server has sent a
    newer one, harms nobody and is not looked at; `guard.check()` looks earlier.
    """
    guard = MutationGuard(*shares)
    yield guard
    guard.check()


def _compare(kept: Kept, obj: Any) -> Mutation | None:
    before = codec.decode_tree(kept.raw)
    try:
        after = codec.to_tree(obj)
    except BadObject as error:
        return Mutation(_name(obj, kept), (f"a place that can no longer be written as JSON ({error})",))
    fields = dict.fromkeys(_place(operation["path"]) for operation in diff_operations(before, after))
    return Mutation(_name(obj, kept), tuple(fields)) if fields else None


def _place(pointer: str) -> str:
    tokens = json_tree.parse_pointer(pointer)
    return json_tree.format_path(int(token) if token.isdecimal() else token for token in tokens) or "its root"


def _name(obj: Any, kept: Kept) -> str:
    kind = getattr(obj, "kind", "") or type(obj).__name__
    return "/".join(part for part in (kind, kept.namespace, kept.name) if part)
