"""Makes kept objects of bytes, leaving out what nobody will read: the one thing that lists and watches both do."""

from collections.abc import Callable
from typing import Final

from levelset.objects.kept import Kept, keep, read_head, without_managed_fields

__all__ = ["Keeper", "Transform"]

Transform = Callable[[bytes], bytes]
"""Changes the JSON of an object before it is kept, such as by leaving out what nobody reads."""

_MANAGED: Final = b"managedFields"  # found sooner without the quotes, which are everywhere


class Keeper:
    """Keeps objects in one way: with managed fields or without, and then transformed."""

    __slots__ = ("_managed_fields", "_transform")

    def __init__(self, *, managed_fields: bool = True, transform: Transform | None = None) -> None:
        self._managed_fields = managed_fields
        self._transform = transform

    def keep(self, raw: bytes) -> Kept:
        """The object to keep for these bytes, which it holds on to; BadObject if they are no object with metadata."""
        # To look for the name takes half of what it takes to decode the metadata, and many objects do not have it.
        has_them = not self._managed_fields and _MANAGED in raw
        if self._transform is None:
            return keep(raw, managed_fields=False) if has_them else Kept(read_head(raw), raw)
        return keep(self._transform(without_managed_fields(raw) if has_them else raw))
