"""The serving certificates of webhooks: signed by an authority of our own, or read from files that others renew.

`Certificates.current` returns the certificate bundle that is valid now. The endpoint calls it again and again, and uses
a renewed certificate without a restart. An authority of our own is stored in this process, or in a Secret that all
replicas share.
"""

import asyncio
import os
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from levelset.client.client import Client
from levelset.errors import AlreadyExists, ConfigError, Conflict
from levelset.http import CertificateAuthority, Identity, validity_of
from levelset.objects.json_tree import is_map
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.unstructured import Unstructured
from levelset.runtime.webhook.client_config import ClientConfig

__all__ = [
    "AuthorityStore",
    "CertificateBundle",
    "Certificates",
    "FileCertificates",
    "MemoryAuthorityStore",
    "OwnCertificates",
    "SecretAuthorityStore",
    "StoredAuthority",
]

MakeAuthority = Callable[[], Awaitable[CertificateAuthority]]

_RENEW_FRACTION: Final = 1 / 3
"""The last part of its validity in which a certificate is renewed."""
_SECRET: Final = GroupVersionKind("", "v1", "Secret")
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_MANAGER: Final = "levelset-webhooks"
_MAX_ATTEMPTS: Final = 5


class CertificateBundle(msgspec.Struct, frozen=True):
    """The serving certificate with its key, and the CA bundle that the API server must trust."""

    identity: Identity
    ca: bytes | None
    """As PEM; None if the CA bundle is put into the configurations by other means."""


class Certificates(Protocol):
    """Provides the certificate bundle that is valid now."""

    async def current(self, client_config: ClientConfig, client: Client | None, /) -> CertificateBundle:
        """The bundle for a server with this client config, the same until renewed; ConfigError if there is none."""
        ...


class OwnCertificates:
    """Certificates signed by an authority of our own, renewed after two thirds of their `days`.

    The authority is stored in this process, or in a Secret (`secret` is its name, in the namespace of the Service, or
    namespace/name): then all replicas share it, also across restarts. Each replica has its own certificate. The
    authority is replaced after two thirds of its `authority_days`; until the old one expires, both are trusted.
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
        self._store: AuthorityStore | None = None
        self._bundle: CertificateBundle | None = None
        self._issuer: bytes | None = None

    async def current(self, client_config: ClientConfig, client: Client | None, /) -> CertificateBundle:
        """The bundle that is valid now; creates what is missing. ConfigError without the extra `tls`."""
        if self._store is None:
            self._store = self._open(client_config, client)
        stored = await self._store.current(self._now(), self._make, last=_RENEW_FRACTION)
        bundle, authority = self._bundle, stored.authority
        is_valid = bundle is not None and not _is_due(bundle.identity.certificate, self._now(), _RENEW_FRACTION)
        if bundle is None or not is_valid or self._issuer != authority.certificate:
            names, addresses = tuple(client_config.names), tuple(client_config.addresses)
            identity = await asyncio.to_thread(
                authority.issue_server, names, addresses, within=self._days, at=self._now()
            )
            bundle = CertificateBundle(identity, stored.trusted)
        elif bundle.ca != stored.trusted:
            bundle = CertificateBundle(bundle.identity, stored.trusted)
        self._bundle, self._issuer = bundle, authority.certificate
        return bundle

    def _open(self, client_config: ClientConfig, client: Client | None) -> "AuthorityStore":
        if self._secret is None:
            return MemoryAuthorityStore()
        namespace, _, name = self._secret.rpartition("/")
        namespace = namespace or getattr(client_config, "namespace", "")
        if client is None or not namespace:
            raise ConfigError(f"secret={self._secret!r}: storing the authority there needs a client and a namespace")
        return SecretAuthorityStore(client, name, namespace)

    async def _make(self) -> CertificateAuthority:
        return await asyncio.to_thread(
            CertificateAuthority.create, "levelset webhooks", within=self._authority_days, at=self._now()
        )


class FileCertificates:
    """Certificates in a folder, such as a mounted Secret: `tls.crt`, `tls.key`, and `ca.crt` if there is one.

    They are renewed by what writes the folder, and read again at each call.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, certificate: str = "tls.crt", key: str = "tls.key", ca: str = "ca.crt"
    ) -> None:
        self._folder = Path(folder)
        self._names = (certificate, key, ca)

    async def current(self, _client_config: ClientConfig, _client: Client | None = None, /) -> CertificateBundle:
        """The current content of the files; ConfigError if they cannot be read."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> CertificateBundle:
        certificate, key, ca = (self._folder / name for name in self._names)
        try:
            identity = Identity(certificate.read_bytes(), key.read_bytes())
            trusted = ca.read_bytes() if ca.exists() else None
        except OSError as error:
            raise ConfigError(
                f"The certificate in {self._folder} cannot be read: {error.filename}: {error.strerror or error}."
            ) from error
        validity_of(identity.certificate)
        return CertificateBundle(identity, trusted)


class StoredAuthority(msgspec.Struct, frozen=True):
    """The authority that signs, and the certificates of all authorities to trust (PEM)."""

    authority: CertificateAuthority
    trusted: bytes


class AuthorityStore(Protocol):
    """Stores an authority, and replaces it in time."""

    async def current(self, now: datetime, make: MakeAuthority, *, last: float) -> StoredAuthority:
        """The authority that signs now; a new one is made if there is none, or if it is due for renewal."""
        ...


class MemoryAuthorityStore:
    """Stores the authority in this process."""

    def __init__(self) -> None:
        self._stored: StoredAuthority | None = None

    async def current(self, now: datetime, make: MakeAuthority, *, last: float) -> StoredAuthority:
        """See `AuthorityStore`."""
        if self._stored is None or _is_due(self._stored.authority.certificate, now, last):
            self._stored = _renewed(self._stored, await make(), now)
        return self._stored


class SecretAuthorityStore:
    """Stores the authority in a Secret: `tls.crt` and `tls.key` are its own, `ca.crt` is the trust bundle."""

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        self._client = client
        self._ref: Ref[Any] = Ref(_SECRET, name, namespace)

    async def current(self, now: datetime, make: MakeAuthority, *, last: float) -> StoredAuthority:
        """See `AuthorityStore`; the first replica creates it, all others use that one."""
        for _ in range(_MAX_ATTEMPTS):
            found: Unstructured | None = await self._client.find(self._ref)
            stored = None if found is None else self._read(found.tree)
            if stored is not None and not _is_due(stored.authority.certificate, now, last):
                return stored
            renewed = _renewed(stored, await make(), now)
            try:
                await self._write(found, renewed)
            except (AlreadyExists, Conflict):
                continue  # another replica was first: use its authority
            return renewed
        raise ConfigError(f"{self._ref}: too many conflicting writes; the authority cannot be stored there")

    def _read(self, tree: dict[str, Any]) -> StoredAuthority:
        data: Any = tree.get("data")
        try:
            parts = {name: b64decode(data[name], validate=True) for name in ("ca.crt", "tls.crt", "tls.key")}
        except (KeyError, TypeError, NoBase64) as error:
            raise ConfigError(f"{self._ref} does not contain an authority: delete it to have one created") from error
        return StoredAuthority(CertificateAuthority(Identity(parts["tls.crt"], parts["tls.key"])), parts["ca.crt"])

    async def _write(self, found: Unstructured | None, stored: StoredAuthority) -> None:
        identity = stored.authority.identity
        parts = {"ca.crt": stored.trusted, "tls.crt": identity.certificate, "tls.key": identity.key}
        data = {name: b64encode(value).decode() for name, value in parts.items()}
        if found is not None and is_map(found.tree.get("metadata")):
            await self._client.update(Unstructured({**found.tree, "data": data}), manager=_MANAGER)
            return
        metadata = {"name": self._ref.name, "namespace": self._ref.namespace}
        tree = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data}
        await self._client.create(tree, manager=_MANAGER)


def _is_due(certificate: bytes, now: datetime, last: float) -> bool:
    """Whether it has to be replaced: it expires soon, or was issued by a clock that has been set back since."""
    validity = validity_of(certificate)
    return now < validity.begin or validity.is_due(now, last=last)


def _renewed(former: StoredAuthority | None, authority: CertificateAuthority, now: datetime) -> StoredAuthority:
    """A new authority; earlier ones stay trusted until they expire."""
    known = [] if former is None else [_BEGIN + one for one in former.trusted.split(_BEGIN)[1:]]
    valid = [one for one in known if validity_of(one).end > now]
    return StoredAuthority(authority, b"".join([authority.certificate, *valid]))
