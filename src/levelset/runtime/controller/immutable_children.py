"""`ImmutableChildren`: children that never change once created, named `(parent)-(hash)-(sequence)`. Pure.

The hash is that of the parent's data that matters for the child, so a name says whether a child is current: no child is
ever updated, and there is nothing to compare field by field and no write conflict. When the data changes, children with
other names are created and those with the old hash are deleted.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from levelset.objects.codec import encode
from levelset.objects.resource import Object
from levelset.objects.unstructured import Unstructured

__all__ = ["ImmutableChildren", "data_hash"]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # that of Kubernetes' own hashes: no vowels, so no words
_DIGITS: Final = 10
_MAX_NAME: Final = 63  # of a label's value, of a host name, and of the kinds with short names (Jobs, Services)

C = TypeVar("C", bound=Object | Unstructured)


class ImmutableChildren:
    """The names of a parent's current children, and which children are missing or stale.

    `data` is what the children depend on: a spec, a part of it, or a tuple of values. `count` is how many there are.

    ```python
    runs = ImmutableChildren(job, job.spec, count=job.spec.workers)
    children = await ctx.children(Pod)
    for name in runs.missing(children):
        await ctx.create(worker(job, name), owner=job)
    for pod in runs.stale(children):
        await ctx.delete(pod)
    ```

    The same data has the same hash in every process and version: members of maps are sorted, and fields with their
    default are left out, so that a new field with a default replaces no child. A name has at most 63 characters; the
    name of a parent that is too long for that is cut, and then part of the hash.
    """

    def __init__(self, parent: Object | Unstructured, data: object, *, count: int = 1) -> None:
        if count < 0:
            raise ValueError(f"count={count}: must be 0 or more children")
        most = _MAX_NAME - _DIGITS - 2 - len(str(max(count - 1, 0)))
        is_cut = len(parent.name) > most
        self.hash = data_hash((parent.name, data) if is_cut else data)
        self._prefix = f"{parent.name[:most].rstrip('-.')}-{self.hash}-"
        self.names: tuple[str, ...] = tuple(f"{self._prefix}{sequence}" for sequence in range(count))
        """The names of the current children, by sequence number."""
        self._names = frozenset(self.names)

    def is_current(self, child: Object | Unstructured) -> bool:
        """Whether a child has the hash of the data, and a sequence number below the count."""
        return child.name in self._names

    def current(self, children: Iterable[C]) -> list[C]:
        """The children that are current, by sequence number; those that are being deleted are not among them."""
        found = {one.name: one for one in children if not _is_deleted(one)}
        return [found[name] for name in self.names if name in found]

    def missing(self, children: Iterable[Object | Unstructured]) -> tuple[str, ...]:
        """The names of the children to create; not those of children that are still being deleted."""
        there = {one.name for one in children}
        return tuple(name for name in self.names if name not in there)

    def stale(self, children: Iterable[C]) -> list[C]:
        """The children to delete: of other data, or with a sequence number that is no longer needed."""
        return [one for one in children if not self.is_current(one) and not _is_deleted(one)]


def data_hash(data: object) -> str:
    """A hash of a value that can be written as JSON, of ten characters that may be part of a name."""
    canonical = msgspec.json.encode(msgspec.json.decode(encode(data)), order="sorted")
    number = int.from_bytes(hashlib.sha256(canonical).digest(), "big")
    digits: list[str] = []
    for _ in range(_DIGITS):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def _is_deleted(child: Object | Unstructured) -> bool:
    return child.metadata.deletion_timestamp is not None
