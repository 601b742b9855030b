"""Decoded objects that are read again and again, so that all readers share one frozen object."""

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
        self._entries: dict[str, tuple[Kept, K]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[tuple[Kept, K]]:
        """What is remembered, least recently used first."""
        return list(self._entries.values())

    def read(self, key: str, kept: Kept, *, remember: bool = True) -> K:
        """The object; the same one as last time if it has not changed. BadObject names it if its class refuses it."""
        found = self._entries.pop(key, None)
        if found is None or found[0] is not kept:
            made = self._decode(key, kept)
            if not remember or self.limit == 0:
                return made
            if len(self._entries) >= self.limit:
                del self._entries[next(iter(self._entries))]
            found = (kept, made)
        self._entries[key] = found
        return found[1]

    def _decode(self, key: str, kept: Kept) -> K:
        try:
            return self._view.read(kept.raw)
        except BadObject as error:
            raise BadObject(f"{self._view.gvk.kind}/{key}: {error}", field=error.field) from error
