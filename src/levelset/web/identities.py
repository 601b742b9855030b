"""Certificates as values: what one is asked to say, and the certificate with its key."""

from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from levelset.web.files import write_private

__all__ = ["Identity", "Use", "Wish"]


class Use(Enum):
    """What a certificate is for."""

    AUTHORITY = auto()
    SERVER = auto()
    CLIENT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a certificate shall say; `within` is days."""

    use: Use
    name: str
    within: float
    organizations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """A certificate (with those that vouch for it) and its private key, both as PEM."""

    certificate: bytes
    key: bytes

    def save(self, certificate: str | Path, key: str | Path) -> None:
        """Writes both as private files, each whole or not at all."""
        write_private(key, self.key)
        write_private(certificate, self.certificate)

    def __repr__(self) -> str:
        # The generated one would put the private key into logs.
        return f"Identity({len(self.certificate)} bytes of certificates)"
