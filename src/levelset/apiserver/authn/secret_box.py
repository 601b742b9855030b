"""Encryption of the server's own keys in a storage that others can read, with a key from a file (Fernet).

Several servers on one etcd share their certificate authority, the owner's token and the key that signs service account
tokens: as files that all of them have, or in etcd, encrypted with one key file. None of them is in etcd as plain text.
"""

import asyncio
import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from levelset.errors import ConfigError, ServerFailed
from levelset.http import write_private
from levelset.objects import decode_tree, encode_tree
from levelset.storage import Item, Mismatch, Storage, warn_if_exposed

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

__all__ = ["SecretBox", "load_or_create_secret"]

_SECRETS: Final = "/levelset/secrets/"
_DERIVATION: Final = b"levelset service account signing key"


class SecretBox:
    """Encrypts and decrypts secrets; the first of its keys encrypts, all of them decrypt."""

    def __init__(self, keys: "MultiFernet", source: str) -> None:
        self._keys = keys
        self._source = source

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "SecretBox":
        """Reads the keys, one on each line, from a file; creates it with a new key if it does not exist (0600).

        Raises ConfigError. To replace a key, put a new line before the old one, and restart the servers one by one.
        """
        fernet = _fernet()
        target = Path(path)
        try:
            lines = target.read_text("ascii").split()
        except FileNotFoundError:
            lines = [fernet.Fernet.generate_key().decode()]
            _create(target, f"{lines[0]}\n".encode())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"The key file {target} cannot be read: {error}.") from error
        warn_if_exposed("the key of all secrets", target)
        try:
            keys = fernet.MultiFernet([fernet.Fernet(line) for line in lines])
        except ValueError as error:
            example = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"
            raise ConfigError(f"The key file {target} has no valid keys: make one with {example}.") from error
        return cls(keys, f"the key file {target}")

    @classmethod
    def derived_from(cls, private_key: bytes) -> "SecretBox":
        """A box whose key is derived from a private key that all servers have."""
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - only servers that share a storage need it
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

        key = HKDF(SHA256(), 32, salt=None, info=_DERIVATION).derive(private_key)
        fernet = _fernet()
        source = "the key of the certificate authority"
        return cls(fernet.MultiFernet([fernet.Fernet(base64.urlsafe_b64encode(key))]), source)

    def seal(self, name: str, secret: bytes) -> bytes:
        """The secret as a stored object, encrypted."""
        head = {"apiVersion": "levelset/v1", "kind": "EncryptedSecret", "metadata": {"name": name}}
        return encode_tree({**head, "token": self._keys.encrypt(secret).decode("ascii")})

    def open(self, name: str, value: bytes) -> bytes:
        """The secret in a stored object; raises ServerFailed if another key has encrypted it, or it is damaged."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - as above

        tree: Any = decode_tree(value)
        try:
            return self._keys.decrypt(str(tree["token"]))
        except (InvalidToken, KeyError, TypeError):
            text = f"the stored secret {name!r} cannot be decrypted with {self._source}: give all servers the same key"
            raise ServerFailed(text) from None


async def load_or_create_secret(storage: Storage, box: SecretBox, name: str, create: Callable[[], bytes]) -> bytes:
    """The secret of this name in the storage, which the first server creates; raises ServerFailed."""
    key = f"{_SECRETS}{name}"
    found: Item | None = await storage.get(key)
    if found is None:
        secret = await asyncio.to_thread(create)
        try:
            await storage.put(key, box.seal(name, secret), expected=0)
        except Mismatch as error:  # another server has created it at the same time
            found = error.current
        else:
            return secret
    assert found is not None  # a create fails only if there is one
    return box.open(name, found.value)


def _create(target: Path, content: bytes) -> None:
    try:
        write_private(target, content)
    except OSError as error:
        raise ConfigError(f"The key file {target} cannot be written: {error.strerror or error}.") from error


def _fernet() -> Any:
    try:
        from cryptography import fernet  # noqa: PLC0415 - an extra, which only some servers need
    except ImportError as error:
        raise ConfigError("Encrypted secrets need cryptography: install levelset[tls].") from error
    return fernet
