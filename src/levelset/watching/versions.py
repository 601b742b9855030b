"""Resource versions, and whether what came is of the kind that was asked for.

A resource version is the server's own text. Where two of them are whole numbers, as those of Kubernetes are, the
smaller one is older; anything else can only be the same or not.
"""

from typing import Final

import msgspec

from levelset.client.kinds import View
from levelset.objects.identity import GroupVersionKind

__all__ = ["Sieve", "is_older", "newest"]

_METADATA: Final = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")
_NEAR: Final = 256


def is_older(version: str, than: str) -> bool:
    """Whether a version is certainly older than another."""
    if len(version) == len(than):
        # Also right for numbers, which are compared digit by digit then; for others there is no order.
        return version < than and _is_number(version) and _is_number(than)
    return _is_number(version) and _is_number(than) and int(version) < int(than)


def newest(known: str, seen: str) -> str:
    """The version to go on from, after one was seen: it never goes back."""
    return known if is_older(seen, known) else seen


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()


class _Named(msgspec.Struct, rename="camel", gc=False):
    kind: str | None = None
    api_version: str | None = None


_named: Final = msgspec.json.Decoder(_Named)


class Sieve:
    """Tells the objects of one kind from others, as a rule without decoding them."""

    __slots__ = ("_gvk", "_mark", "beginning")

    def __init__(self, view: View[object]) -> None:
        self._gvk = _METADATA if view.is_metadata else view.gvk
        self._mark = f'"kind":"{self._gvk.kind}"'.encode()
        self.beginning = b"none yet"
        """How the last object of the kind began: a server writes all of them alike, so the next will too."""

    def holds(self, raw: bytes) -> bool:
        """Whether this is an object of the kind; one that does not say is taken at its word."""
        if raw.startswith(self.beginning):
            return True
        if not self._says(raw):
            return False
        end = raw.find(self._mark, 0, _NEAR) + len(self._mark)
        # The kind itself must be part of it, and nothing deeper inside, such as the kind of an owner.
        if end >= len(self._mark) and raw.count(b"{", 0, end) == 1:
            self.beginning = raw[:end]
        return True

    def stray(self, raw: bytes) -> str:
        """What it is instead, in words."""
        named = _read(raw)
        return f"{named.kind} of {named.api_version}" if named.kind else "something without a kind"

    def _says(self, raw: bytes) -> bool:
        named = _read(raw)
        group = (named.api_version or "").rpartition("/")[0]
        return not named.kind or (named.kind == self._gvk.kind and (group == self._gvk.group or not named.api_version))


def _read(raw: bytes) -> _Named:
    try:
        return _named.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Named(kind="an object whose kind is no text")
