"""Where the certificate of the endpoint comes from: our own small authority, or files that somebody else renews.

Whoever asks for the `current` papers again and again gets new ones in time; the endpoint does, and takes them without a
restart.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from levelset.client.client import Client
from levelset.errors import ConfigError
from levelset.web import Authority, Identity
from levelset.webhook.keeping import Keeps, MemoryKeep, SecretKeep
from levelset.webhook.reaching import Reach
from levelset.webhook.validity import validity_of

__all__ = ["Certificates", "FileCertificates", "OwnCertificates", "Papers"]

_LAST: Final = 1 / 3
"""The part of its life before whose end a certificate is renewed."""


@dataclass(frozen=True, slots=True)
class Papers:
    """What the endpoint shows, and what an API server has to trust so that it believes it."""

    identity: Identity
    ca: bytes | None
    """As PEM; None if somebody else tells the server whom to trust."""


class Certificates(Protocol):
    """Gives the papers that are valid now."""

    async def current(self, reach: Reach, client: Client | None, /) -> Papers:
        """The papers for a server that is reached so, the same until renewed; ConfigError if there are none."""
        ...


class OwnCertificates:
    """Certificates of our own authority, made at the start and renewed after two thirds of their `days`.

    The authority lives as long as the process, or is kept in a Secret (`secret` is its name, in the namespace of the
    Service, or as namespace/name): then all replicas have the same one, and a restart changes nothing. Each replica
    makes its own certificate. An authority is replaced after two thirds of its `authority_days`; for the rest of its
    life servers trust both.
    """

    def __init__(
        self,
        *,
        secret: str | None = None,
        days: float = 90,
        authority_days: float = 3650,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._secret = secret
        self._days = days
        self._authority_days = authority_days
        self._now = now
        self._keep: Keeps | None = None
        self._papers: Papers | None = None
        self._issuer: bytes | None = None

    async def current(self, reach: Reach, client: Client | None, /) -> Papers:
        """The papers that are valid now; makes what is missing. ConfigError without the extra `tls`."""
        if self._keep is None:
            self._keep = self._open(reach, client)
        kept = await self._keep.current(self._now(), self._make, last=_LAST)
        papers, authority = self._papers, kept.authority
        is_valid = papers is not None and not validity_of(papers.identity.certificate).is_due(self._now(), last=_LAST)
        if papers is None or not is_valid or self._issuer != authority.certificate:
            identity = await asyncio.to_thread(
                authority.issue_server, tuple(reach.names), tuple(reach.addresses), within=self._days
            )
            papers = Papers(identity, kept.trusted)
        elif papers.ca != kept.trusted:
            papers = Papers(papers.identity, kept.trusted)
        self._papers, self._issuer = papers, authority.certificate
        return papers

    def _open(self, reach: Reach, client: Client | None) -> Keeps:
        if self._secret is None:
            return MemoryKeep()
        namespace, _, name = self._secret.rpartition("/")
        namespace = namespace or getattr(reach, "namespace", "")
        if client is None or not namespace:
            raise ConfigError(f"secret={self._secret!r}: to keep an authority there needs a client and a namespace")
        return SecretKeep(client, name, namespace)

    async def _make(self) -> Authority:
        return await asyncio.to_thread(Authority.create, "levelset webhooks", within=self._authority_days)


class FileCertificates:
    """Certificates in a folder, as a mounted Secret has them: `tls.crt`, `tls.key`, and `ca.crt` if there is one.

    Whoever writes there renews them; they are read again as often as somebody asks.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, certificate: str = "tls.crt", key: str = "tls.key", ca: str = "ca.crt"
    ) -> None:
        self._folder = Path(folder)
        self._names = (certificate, key, ca)

    async def current(self, _reach: Reach, _client: Client | None = None, /) -> Papers:
        """What is in the files now; ConfigError if they cannot be read."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> Papers:
        certificate, key, ca = (self._folder / name for name in self._names)
        try:
            identity = Identity(certificate.read_bytes(), key.read_bytes())
            trusted = ca.read_bytes() if ca.exists() else None
        except OSError as error:
            raise ConfigError(
                f"The certificate in {self._folder} cannot be read: {error.filename}: {error.strerror or error}."
            ) from error
        validity_of(identity.certificate)
        return Papers(identity, trusted)
