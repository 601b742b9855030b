"""The encoders library: base64."""

import base64
import binascii

from levelset.cel.errors import EvaluationError
from levelset.cel.types import declare

__all__ = ["OVERLOADS"]


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4) if "=" not in text else text, validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationError("illegal base64 data") from None


OVERLOADS = declare(
    [
        ("base64.decode: (string) bytes", _decode),
        ("base64.encode: (bytes) string", lambda value: base64.b64encode(value).decode()),
    ],
    charge="traverse",
)
