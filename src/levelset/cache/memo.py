"""Decoded objects that are read again and again, so that all readers share one frozen object."""

from collections import OrderedDict
from typing import Generic, TypeVar

from levelset.client.kinds import View
from levelset.errors import BadObject
from levelset.objects.kept import Kept
from levelset.objects.unstructured import Unstructured

__all__ = ["Memo"]

K = TypeVar("K")


class Memo(Generic[K]):
    """Reads kept objects, and remembers the last `limit` of what it read.

    An `Unstructured` is never remembered: its tree is the caller's to change, so every caller gets one of his own.
    """

    __slots__ = ("_entries", "_view", "limit")

    def __init__(self, view: View[K], limit: int) -> None:
        self.limit = 0 if view.class_ is Unstructured else limit
        self._view = view
        # The first of a plain dict is found ever more slowly, the more of its first ones have been dropped.
        self._entries: OrderedDict[str, tuple[Kept, K]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[tuple[Kept, K]]:
        """What is remembered, least recently used first."""
        return list(self._entries.values())

    def read(self, key: str, kept: Kept, *, remember: bool = True) -> K:
        """The object; the same one as last time if it has not changed. BadObject names it if its class refuses it."""
        entries = self._entries
        found = entries.get(key)
        if found is not None:
            if found[0] is kept:
                entries.move_to_end(key)
                return found[1]
            del entries[key]
        made = self._decode(key, kept)
        if remember and self.limit:
            if len(entries) >= self.limit:
                entries.popitem(last=False)
            entries[key] = (kept, made)
        return made

    def _decode(self, key: str, kept: Kept) -> K:
        try:
            return self._view.read(kept.raw)
        except BadObject as error:
            raise BadObject(f"{self._view.gvk.kind}/{key}: {error}", field=error.field) from error
