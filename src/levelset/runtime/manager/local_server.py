"""An API server in this process, for `run --local` and `open_local`, which kubectl can reach, too.

```python
async with open_local(websites) as local:
    await local.client.create(site)
```

`open_local` is `run --local` for tests and scripts: server, CRDs, manager and controllers for the length of a block.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from levelset.client import WarningLog
from levelset.client.client import Client
from levelset.objects.kind_definition import definition_of
from levelset.runtime.manager.crd_install import install_crds, kinds_to_serve
from levelset.runtime.manager.manager import Manager
from levelset.runtime.manager.system import Part, System, open_parts
from levelset.runtime.webhook.webhook_set import Webhooks

if TYPE_CHECKING:
    from levelset.apiserver.server import ApiServer
    from levelset.http import CertificateFiles
    from levelset.storage import Storage

__all__ = ["LocalServer", "LocalSystem", "open_in_process_server", "open_local", "open_local_server"]

KUBECONFIG: Final = "levelset.kubeconfig"
_COMPACTION_SECONDS: Final = 300.0  # as kube-apiserver
_PLACEHOLDER: Final = "<placeholder>"
"""The token in the kubeconfig of a server whose clients know theirs."""


class LocalSystem(msgspec.Struct, frozen=True):
    """A server, its client, and a manager that runs the parts; `kubeconfig` only if the server listens."""

    server: "ApiServer"
    client: Client
    manager: Manager
    kubeconfig: Path | None


@asynccontextmanager
async def open_local(
    *parts: Part,
    listen: bool = False,
    kubeconfig: str | None = None,
    data: str | None = None,
    port: int | None = None,
    certificate: "CertificateFiles | None" = None,
    token: str | None = None,
    **options: Any,
) -> AsyncGenerator[LocalSystem, None]:
    """Starts a server in this process, installs the CRDs of all kinds in use, and runs the parts; all are synced.

    For scripts and tests that need a whole system; a program uses `run(..., local=True)`.
    With `listen`, other processes can reach it by the file `kubeconfig`; `certificate` and `token` are those of
    `open_local_server`. The `options` are those of `Manager`.
    """
    async with open_parts(*parts) as whole:
        opened = (
            open_local_server(kubeconfig, data=data, port=port, system=whole, certificate=certificate, token=token)
            if listen
            else open_in_process_server(data, system=whole)
        )
        on_warning = WarningLog(expected=whole.expected_warnings)
        async with opened as local, await Client.connect(local.server, on_warning=on_warning) as client:
            webhooks = Webhooks(options.pop("webhooks", ()), whole.webhooks)
            await install_crds(client, kinds_to_serve(whole, webhooks))
            manager = Manager(client, webhooks=webhooks, **options)
            hosted = [manager.add(one) for one in whole.controllers]
            manager.panels = whole.panels
            if whole.setup is not None:
                whole.setup(manager)
            async with manager:
                async with asyncio.TaskGroup() as group:
                    for one in hosted:
                        group.create_task(_ready(one))
                yield LocalSystem(local.server, client, manager, local.kubeconfig)


class LocalServer(msgspec.Struct, frozen=True):
    """A server, and its kubeconfig file if it listens."""

    server: "ApiServer"
    kubeconfig: Path | None


@asynccontextmanager
async def open_local_server(
    kubeconfig: str | None = None,
    *,
    data: str | None = None,
    durability: Literal["full", "normal"] = "full",
    port: int | None = None,
    rbac: bool = False,
    system: System | None = None,
    certificate: "CertificateFiles | None" = None,
    token: str | None = None,
    kubernetes_version: str | None = None,
) -> AsyncGenerator[LocalServer, None]:
    """Starts a server that listens, and writes its kubeconfig, for the length of a block.

    Objects are in memory, or in the file `data` together with the server's secrets. ConfigError if the kubeconfig file
    exists and was not written by levelset. It serves with the `certificate`, if given, at the host that this is for;
    otherwise with one of its own or, without the extra `tls`, plain HTTP; always on the loopback interface. A `token`
    of the caller is not written to the kubeconfig, which has a placeholder; `kubernetes_version` is what the server
    reports, such as "1.34". With `rbac`, all users but the owner are authorized by RBAC. The `system` provides the
    address range of Services and the sources of pod logs.
    """
    # Imported late: the server takes a while to load, and most programs connect to an existing one.
    from levelset.apiserver.data_directory import MEMORY, check_data_path, load_secrets, open_storage  # noqa: PLC0415
    from levelset.apiserver.kubeconfig_file import (  # noqa: PLC0415
        ConnectionInfo,
        check_kubeconfig,
        claim_kubeconfig,
        release_kubeconfig,
    )

    path, where = Path(kubeconfig or KUBECONFIG), data or MEMORY
    await asyncio.to_thread(check_kubeconfig, path)
    await asyncio.to_thread(check_data_path, where)
    storage = await open_storage(where, durability)
    try:
        (first, *more), authority = await asyncio.to_thread(load_secrets, where)
        serving: dict[str, Any] = {"authority": authority, "tls": find_spec("cryptography") is not None}
        if certificate is not None:
            loaded = await asyncio.to_thread(certificate.load)
            serving = {"authority": authority, "host": loaded.host, "tls": loaded.context, "ca": loaded.ca}
        options: dict[str, Any] = {
            **serving,
            "token": token or first,
            "tokens": more,
            "rbac": rbac,
            "cluster_defaults": True,
            "compaction": _COMPACTION_SECONDS,
            "kubernetes_version": kubernetes_version,
        }
        async with _server(storage, system, port=port or 0, **options) as server:
            connection = ConnectionInfo(server.url, _PLACEHOLDER if token else server.token, server.ca)
            await asyncio.to_thread(claim_kubeconfig, path, connection)
            try:
                yield LocalServer(server, path)
            finally:
                await asyncio.to_thread(release_kubeconfig, path, connection)
    finally:
        await storage.close()


@asynccontextmanager
async def open_in_process_server(
    data: str | None = None, *, system: System | None = None
) -> AsyncGenerator[LocalServer, None]:
    """Starts a server that does not listen, for clients in this process, for the length of a block."""
    from levelset.apiserver.data_directory import MEMORY, check_data_path, open_storage  # noqa: PLC0415  # as above

    await asyncio.to_thread(check_data_path, data or MEMORY)
    storage = await open_storage(data or MEMORY)
    try:
        server = _server(storage, system)
        await server.start(listen=False)
        try:
            yield LocalServer(server, None)
        finally:
            await server.stop()
    finally:
        await storage.close()


def _server(storage: "Storage", system: System | None, **options: Any) -> "ApiServer":
    from levelset.apiserver.server import ApiServer  # noqa: PLC0415  # as above
    from levelset.codegen.crd import crd_of  # noqa: PLC0415  # as above

    if system is None:
        return ApiServer(storage, **options)
    if system.service_addresses is not None:
        options["service_addresses"] = system.service_addresses
    server = ApiServer(storage, **options)
    for kind, source in system.logs.items():
        gvk = definition_of(kind).gvk
        server.serve_logs(gvk.group, gvk.kind, source)
    for kind, sources in system.streams.items():
        gvk = definition_of(kind).gvk
        server.serve_streams(gvk.group, gvk.kind, sources)
    for kind, computed in system.computed.items():
        server.serve_computed(crd_of(kind, reads_source=False, is_computed=True), computed)
    return server


async def _ready(hosted: Any) -> None:
    await (await hosted.wait_running()).wait_ready()
