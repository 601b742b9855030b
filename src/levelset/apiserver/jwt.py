"""Signed claims in the form of JSON Web Tokens, of the one kind that this server makes: HS256 with its own secret.

Nothing in a token says how it is to be checked: a header that names another algorithm is refused before anything else
is looked at.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Any, Final, cast

import msgspec

__all__ = ["read_token", "sign_token"]

_HEADER: Final = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=")
_LONGEST: Final = 16 * 1024


def sign_token(claims: dict[str, Any], key: bytes) -> str:
    """The claims as a token that nobody can make, or change, without the key."""
    signed = _HEADER + b"." + _packed(msgspec.json.encode(claims))
    return (signed + b"." + _packed(_signature(signed, key))).decode("ascii")


def read_token(token: str, key: bytes) -> dict[str, Any] | None:
    """The claims of a token that was signed with this key; None for anything else."""
    if len(token) > _LONGEST or not token.isascii():
        return None
    signed, _, signature = token.encode("ascii").rpartition(b".")
    header, _, payload = signed.partition(b".")
    if header != _HEADER or not hmac.compare_digest(_packed(_signature(signed, key)), signature):
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
    except (binascii.Error, msgspec.DecodeError, ValueError):
        return None
    return cast("dict[str, Any]", claims) if isinstance(claims, dict) else None


def _signature(signed: bytes, key: bytes) -> bytes:
    return hmac.digest(key, signed, hashlib.sha256)


def _packed(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
