"""Where the certificate of the endpoint comes from: our own small authority, or files that somebody else renews.

Whoever asks for the `current` papers again and again gets new ones in time; the endpoint does, and takes them without a
restart.

How long a certificate is valid, read from the certificate itself.

Where the authority of the webhooks is kept: in this process, or in a Secret that all replicas share.
"""

import asyncio
import os
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from levelset.client.client import Client
from levelset.errors import AlreadyExists, ConfigError, Conflict
from levelset.http import Authority, Identity, der
from levelset.objects.json_tree import is_map
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.unstructured import Unstructured
from levelset.runtime.webhook.client_config import Reach

__all__ = [
    "Certificates",
    "FileCertificates",
    "Keeps",
    "Kept",
    "MemoryKeep",
    "OwnCertificates",
    "Papers",
    "SecretKeep",
    "Validity",
    "validity_of",
]

_VERSION: Final = 0xA0
_SHORT: Final = 0x17


class Validity(NamedTuple):
    """From when until when."""

    begin: datetime
    end: datetime

    def is_due(self, now: datetime, *, last: float) -> bool:
        """Whether the last part of its life, such as a third, has begun."""
        return now >= self.end - (self.end - self.begin) * last


def validity_of(pem: bytes) -> Validity:
    """The validity of the first certificate in a PEM text; ConfigError if there is none that can be read."""
    try:
        certificate = der.from_pem("CERTIFICATE", pem)
        if certificate is None:
            raise ConfigError("There is no certificate in it: it must be PEM, with BEGIN CERTIFICATE.")
        fields = der.parts(der.value_of(der.parts(der.value_of(certificate))[0]))
        if fields[0][0] == _VERSION:  # which the oldest ones do not have
            del fields[0]
        begin, end = der.parts(der.value_of(fields[3]))
        return Validity(_moment(begin), _moment(end))
    except (ValueError, IndexError) as error:
        raise ConfigError(f"The certificate cannot be read: {error}.") from error


def _moment(value: bytes) -> datetime:
    text = der.value_of(value).decode("ascii")
    form = "%y%m%d%H%M%SZ" if value[0] == _SHORT else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text, form).replace(tzinfo=UTC)


Make = Callable[[], Awaitable[Authority]]

_SECRET: Final = GroupVersionKind("", "v1", "Secret")
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_MANAGER: Final = "levelset-webhooks"
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Kept:
    """The authority that signs, and the certificates of all that are to be trusted."""

    authority: Authority
    trusted: bytes


class Keeps(Protocol):
    """Keeps an authority, and replaces it in time."""

    async def current(self, now: datetime, make: Make, *, last: float) -> Kept:
        """The authority that signs now; a new one is made if there is none, or if its last part of life has begun."""
        ...


class MemoryKeep:
    """Keeps the authority as long as the process lives."""

    def __init__(self) -> None:
        self._kept: Kept | None = None

    async def current(self, now: datetime, make: Make, *, last: float) -> Kept:
        """As `Keeps` says."""
        if self._kept is None or _is_due(self._kept, now, last):
            self._kept = _renewed(self._kept, await make(), now)
        return self._kept


class SecretKeep:
    """Keeps the authority in a Secret: `tls.crt` and `tls.key` are its own, `ca.crt` is what to trust."""

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        self._client = client
        self._ref: Ref[Any] = Ref(_SECRET, name, namespace)

    async def current(self, now: datetime, make: Make, *, last: float) -> Kept:
        """As `Keeps` says; whoever is first makes it, and all others take that one."""
        for _ in range(_TRIES):
            found: Unstructured | None = await self._client.find(self._ref)
            kept = None if found is None else self._read(found.tree)
            if kept is not None and not _is_due(kept, now, last):
                return kept
            renewed = _renewed(kept, await make(), now)
            try:
                await self._write(found, renewed)
            except (AlreadyExists, Conflict):
                continue  # another replica was quicker: its authority is as good
            return renewed
        raise ConfigError(f"{self._ref}: too many others write it; the authority of the webhooks cannot be kept there")

    def _read(self, tree: dict[str, Any]) -> Kept:
        data: Any = tree.get("data")
        try:
            parts = {name: b64decode(data[name], validate=True) for name in ("ca.crt", "tls.crt", "tls.key")}
        except (KeyError, TypeError, NoBase64) as error:
            raise ConfigError(f"{self._ref} holds no authority: remove it to have one made") from error
        return Kept(Authority(Identity(parts["tls.crt"], parts["tls.key"])), parts["ca.crt"])

    async def _write(self, found: Unstructured | None, kept: Kept) -> None:
        identity = kept.authority.identity
        parts = {"ca.crt": kept.trusted, "tls.crt": identity.certificate, "tls.key": identity.key}
        data = {name: b64encode(value).decode() for name, value in parts.items()}
        if found is not None and is_map(found.tree.get("metadata")):
            await self._client.update(Unstructured({**found.tree, "data": data}), manager=_MANAGER)
            return
        metadata = {"name": self._ref.name, "namespace": self._ref.namespace}
        tree = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data}
        await self._client.create(tree, manager=_MANAGER)


def _is_due(kept: Kept, now: datetime, last: float) -> bool:
    return validity_of(kept.authority.certificate).is_due(now, last=last)


def _renewed(former: Kept | None, authority: Authority, now: datetime) -> Kept:
    """A new authority; those before it stay trusted until they end."""
    known = [] if former is None else [_BEGIN + one for one in former.trusted.split(_BEGIN)[1:]]
    valid = [one for one in known if validity_of(one).end > now]
    return Kept(authority, b"".join([authority.certificate, *valid]))


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
