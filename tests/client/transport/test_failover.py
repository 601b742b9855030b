"""Clients of several servers on one storage: they go on with another one when theirs is gone."""

import asyncio
import socket
from pathlib import Path

import pytest

from levelset.apiserver import ApiServer, ConnectionInfo, write_kubeconfig
from levelset.client import Client, Config, Token
from levelset.client.config.loader import load_config
from levelset.client.transport.pool import PoolLimits
from levelset.client.transport.sockets import SocketTransport
from levelset.errors import ConfigError, Unreachable
from levelset.http import CertificateAuthority
from levelset.kinds.core_v1 import ConfigMap
from levelset.objects import ObjectMeta
from levelset.storage import MemoryStorage

_GONE = "http://127.0.0.1:9"


async def test_a_client_goes_on_with_another_server_and_a_watch_resumes_there():
    authority, storage = CertificateAuthority.create("test"), MemoryStorage()
    one, other = (ApiServer(storage, token="t", authority=authority) for _ in range(2))
    await one.start()
    async with other:
        config = Config(server=one.url, servers=(other.url,), ca=authority.certificate, credentials=Token("t"))
        async with await Client.connect(config) as client:
            made = await client.create(ConfigMap(metadata=ObjectMeta(name="a")))
            await one.stop()
            assert (await client.get(ConfigMap, "a")).metadata.uid == made.metadata.uid
            await client.create(ConfigMap(metadata=ObjectMeta(name="b")))
            version = made.metadata.resource_version
            async with client.watch(ConfigMap, resource_version=version) as batches, asyncio.timeout(120):
                (event,) = await anext(aiter(batches))
            assert event.cached is not None
            assert event.cached.name == "b"


async def test_when_no_server_is_there_the_error_names_all_of_them():
    config = Config(server=_GONE, servers=("http://127.0.0.1:7",))
    async with await Client.connect(config) as client:
        with pytest.raises(Unreachable, match=r"127.0.0.1:9 .*; .*127.0.0.1:7 "):
            await client.get(ConfigMap, "a", namespace="default")


async def test_a_server_that_hangs_is_left_before_the_time_to_connect_is_over():
    async with ApiServer(token="t") as server:
        silent = socket.create_server(("127.0.0.1", 0))  # the system accepts connections, and nothing answers
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        config = Config(server=url, servers=(server.url,), ca=server.ca, credentials=Token("t"))
        client = Client(SocketTransport(config, limits=PoolLimits(connect_within=2.0)), namespace="default")
        async with client:
            await client.create(ConfigMap(metadata=ObjectMeta(name="a")))
        silent.close()


def test_further_servers_differ_only_in_host_and_port():
    for bad in ("https://b:1", "http://b:1/prefix", "b:1", "http://u@b:1"):
        with pytest.raises(ConfigError):
            Config(server="http://a:1", servers=(bad,))


def test_a_kubeconfig_has_the_further_servers_as_an_extension(tmp_path: Path):
    path = tmp_path / "config"
    write_kubeconfig(
        path, ConnectionInfo("https://a:1", "t", b"-----BEGIN CERTIFICATE-----", ("https://b:1", "https://c:1"))
    )
    assert "levelset.dev/servers" in path.read_text()
    assert load_config(path).servers == ("https://b:1", "https://c:1")
