"""Publishes the authorities of client certificates in the ConfigMap `extension-apiserver-authentication`.

Extension API servers read it from kube-system to authenticate their clients. It is kube-apiserver's part: created again
when it is deleted, and joined with the valid certificates that other servers have published.
"""

import re
import ssl
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.errors import AlreadyExists, ConfigError
from levelset.http.certificate_authority import validity_of

__all__ = ["ClusterAuthenticationController", "join_certificates"]

_NAMESPACE: Final = "kube-system"
_NAME: Final = "extension-apiserver-authentication"
_CLIENTS: Final = "client-ca-file"
_PROXY: Final = "requestheader-"
_PROXY_AUTHORITY: Final = "requestheader-client-ca-file"
_SLACK: Final = timedelta(minutes=5)
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class ClusterAuthenticationController:
    """Writes the ConfigMap when the server starts, and whenever another writer has changed or deleted it."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._authorities = ""
        self.queue: KeyQueue[str] = KeyQueue("cluster authentication", self._reconcile)

    async def start(self, authorities: str, *, leads: bool = True) -> None:
        """Publishes these authorities (PEM), and follows writes from then on; does nothing if there are none.

        Unless it `leads`, another server writes the ConfigMap.
        """
        self._authorities = authorities
        if not authorities:
            return
        self._state.add_resource_listener(self._config_maps().prefix, self._on_write)
        if leads:
            await self._reconcile(_NAME)
        self.queue.start()

    async def resume(self) -> None:
        """Writes the ConfigMap from now on."""
        await self.queue.resume([_NAME] if self._authorities else [])

    def _on_write(self, _served: ServedResource, before: Object | None, _after: Object | None) -> None:
        metadata: Object = {} if before is None else before["metadata"]
        if (metadata.get("namespace"), metadata.get("name")) == (_NAMESPACE, _NAME):
            self.queue.add(_NAME)

    async def _reconcile(self, name: str) -> None:
        served = self._config_maps()

        def change(old: Object) -> Object | None:
            data = self._joined(map_member(old, "data"))
            return None if data == map_member(old, "data") else {**old, "data": data}

        if await create_and_update.mutate(self._state, served, _NAMESPACE, name, change) is not None:
            return
        metadata = {"name": name, "namespace": _NAMESPACE}
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self._joined({})}
        try:
            await create_and_update.create(self._state, served, _NAMESPACE, tree)
        except AlreadyExists:  # another server has been faster
            self.queue.add(name)

    def _joined(self, data: Object) -> Object:
        """The content of the ConfigMap; what another server has published of its front proxy stays."""
        has_proxy = bool(data.get(_PROXY_AUTHORITY))
        others = {key: value for key, value in data.items() if key.startswith(_PROXY) and has_proxy}
        published = data.get(_CLIENTS) or ""
        return {**others, _CLIENTS: join_certificates(published, self._authorities, now=self._state.now())}

    def _config_maps(self) -> ServedResource:
        found = self._state.catalog.find("", "v1", "configmaps")
        assert found is not None  # built in
        return found


def join_certificates(published: str, own: str, *, now: datetime) -> str:
    """The certificates (PEM) that were published and have not expired, and then the own ones, each once."""
    ours = list(_certificates(own))
    others = (one for one in _certificates(published) if one in ours or _is_valid(one, now))
    return "".join(dict.fromkeys((*others, *ours)))


def _certificates(pem: str) -> Iterable[str]:
    """The certificates of a PEM text, each as OpenSSL writes it; what is not base64 is left out."""
    for found in _CERTIFICATE.finditer(pem):
        try:
            yield ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(found[0]))
        except ValueError:
            continue


def _is_valid(pem: str, now: datetime) -> bool:
    try:
        return validity_of(pem.encode()).end > now - _SLACK
    except ConfigError:
        return False
