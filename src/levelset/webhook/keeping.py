"""Where the authority of the webhooks is kept: in this process, or in a Secret that all replicas share."""

from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from levelset.client.client import Client
from levelset.errors import AlreadyExists, ConfigError, Conflict
from levelset.objects.identity import GroupVersionKind, Ref
from levelset.objects.trees import is_map
from levelset.objects.unstructured import Unstructured
from levelset.web import Authority, Identity
from levelset.webhook.validity import validity_of

__all__ = ["Keeps", "Kept", "MemoryKeep", "SecretKeep"]

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
