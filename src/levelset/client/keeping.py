"""Makes kept objects of bytes, leaving out what nobody will read: the one thing that lists and watches both do."""

from collections.abc import Callable, Sequence
from typing import Final

from levelset.objects.kept import Kept, beginning_of, cut_managed_fields, keep, keep_all, without_managed_fields

__all__ = ["Keeper", "Transform"]

Transform = Callable[[bytes], bytes]
"""Changes the JSON of an object before it is kept, such as by leaving out what nobody reads."""

_MANAGED: Final = b"managedFields"  # found sooner without the quotes, which are everywhere
_UNKNOWN: Final = b"nothing begins so"


class Keeper:
    """Keeps objects in one way: with managed fields or without, and then transformed."""

    __slots__ = ("_beginning", "_managed_fields", "_transform", "is_cutting")

    def __init__(self, *, managed_fields: bool = True, transform: Transform | None = None) -> None:
        self._managed_fields = managed_fields
        self._transform = transform
        self._beginning = _UNKNOWN
        self.is_cutting = False
        """Whether the last object had managed fields that were cut out: most likely the next has some too."""

    def keep(self, raw: bytes) -> Kept:
        """The object to keep for these bytes, which it holds on to; BadObject if they are no object with metadata."""
        if self._transform is not None:
            has_them = not self._managed_fields and _MANAGED in raw
            return keep(self._transform(without_managed_fields(raw) if has_them else raw))
        kept = keep(raw, managed_fields=self._managed_fields)
        if kept.raw is not raw:
            self.is_cutting = True
            self._beginning = beginning_of(raw) or _UNKNOWN
        return kept

    def keep_all(self, raws: Sequence[bytes]) -> list[Kept] | None:
        """What `keep` gives for each of them, in less time; None if it has to be asked about each."""
        return None if self._transform is not None else keep_all(raws, managed_fields=self._managed_fields)

    def cut(self, text: bytes, start: int, stop: int) -> bytes:
        """The bytes of the object in this part of a text, already without what would not be kept, if that is easy.

        To be used while it `is_cutting`.
        """
        found = cut_managed_fields(text, start, stop, self._beginning)
        self.is_cutting = found is not None
        return text[start:stop] if found is None else found
