"""The server's certificate authority in a file, so that clients go on trusting a server that was restarted."""

import os
from pathlib import Path

from levelset.errors import ConfigError
from levelset.web import Authority, Identity, write_private

__all__ = ["load_authority"]

_BETWEEN = b"-----BEGIN CERTIFICATE-----"


def load_authority(path: str | os.PathLike[str]) -> Authority:
    """The authority in the file, key and certificate as PEM; makes both if there is no file yet. Raises ConfigError."""
    target = Path(path)
    try:
        content = target.read_bytes()
    except FileNotFoundError:
        return _make(target)
    except OSError as error:
        raise ConfigError(f"The authority file {target} cannot be read: {error.strerror or error}.") from error
    key, begin, certificate = content.partition(_BETWEEN)
    if b"PRIVATE KEY" not in key or not begin:
        raise ConfigError(f"The file {target} holds no authority: restore it, or remove it to have a new one made.")
    return Authority(Identity(begin + certificate, key))


def _make(target: Path) -> Authority:
    authority = Authority.create("levelset")
    try:
        write_private(target, authority.identity.key + authority.identity.certificate)
    except OSError as error:
        raise ConfigError(f"The authority file {target} cannot be written: {error.strerror or error}.") from error
    return authority
