"""The metadata of a whole object, as a server would send them alone."""

from typing import Final

import msgspec
from msgspec import Raw

from levelset.errors import BadObject
from levelset.objects.kept import Kept, kept_of

__all__ = ["as_metadata"]

_BEFORE: Final = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


class _Whole(msgspec.Struct, gc=False):
    metadata: Raw


_wholes: Final = msgspec.json.Decoder(_Whole)


def as_metadata(kept: Kept) -> Kept:
    """What is kept of the same object when only its metadata are asked for."""
    try:
        metadata = _wholes.decode(kept.raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadObject(f"{kept.name}: this is no object with metadata: {error}") from error
    return kept_of(kept, b"%b%b}" % (_BEFORE, bytes(metadata)))
