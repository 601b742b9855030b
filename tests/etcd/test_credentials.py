"""TLS with certificates at both ends, and users of etcd with a password."""

import asyncio
import http.client
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from levelset.errors import ConfigError
from levelset.http import CertificateAuthority
from levelset.storage import EtcdStorage
from tests.etcd.etcd_cluster import EtcdCluster, start_cluster


def write_certificates(folder: Path) -> dict[str, Path]:
    authority = CertificateAuthority.create("etcd")
    server, client = authority.issue_server(["localhost"], ["127.0.0.1"]), authority.issue_client("levelset")
    files = {
        "ca.pem": authority.certificate,
        "server.pem": server.certificate,
        "server.key": server.key,
        "client.pem": client.certificate,
        "client.key": client.key,
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in files}


async def test_the_connection_is_encrypted_and_both_ends_show_certificates(binary: Path, tmp_path: Path):
    files = await asyncio.to_thread(write_certificates, tmp_path)
    options = [
        *("--cert-file", str(files["server.pem"]), "--key-file", str(files["server.key"])),
        *("--trusted-ca-file", str(files["ca.pem"]), "--client-cert-auth"),
    ]
    async with start_cluster(binary, options) as cluster:
        trusted: dict[str, Any] = {"cacert": files["ca.pem"], "compaction": None, "timeout": 3.0}
        async with EtcdStorage(
            cluster.endpoints, cert=files["client.pem"], key=files["client.key"], **trusted
        ) as storage:
            await storage.put("/a", b"1", expected=0)
        with pytest.raises(ConfigError, match="cannot be opened"):
            async with EtcdStorage(cluster.endpoints, **{**trusted, "timeout": 1.0}):
                pass


def gateway(cluster: EtcdCluster, path: str, body: dict[str, Any]) -> None:
    """Calls etcd over its JSON gateway: users are not part of what the storage needs."""
    with closing(http.client.HTTPConnection("127.0.0.1", cluster.members[0].port, timeout=10)) as connection:
        connection.request("POST", f"/v3/auth/{path}", json.dumps(body))
        response = connection.getresponse()
        assert response.status == 200, response.read()
        response.read()


def add_users(cluster: EtcdCluster) -> None:
    gateway(cluster, "user/add", {"name": "root", "password": "r"})
    gateway(cluster, "user/grant", {"user": "root", "role": "root"})
    gateway(cluster, "user/add", {"name": "levelset", "password": "secret"})
    gateway(cluster, "role/add", {"name": "levelset"})
    # /levelset up to /levelseu, in base64.
    permission = {"permType": "READWRITE", "key": "L2xldmVsc2V0", "range_end": "L2xldmVsc2V1"}
    gateway(cluster, "role/grant", {"name": "levelset", "perm": permission})
    gateway(cluster, "user/grant", {"user": "levelset", "role": "levelset"})
    gateway(cluster, "enable", {})


async def test_a_user_logs_in_and_again_when_the_token_has_ended(binary: Path):
    # Tokens live for a second; the watch is longer.
    async with start_cluster(binary, ["--auth-token-ttl", "1"]) as cluster:
        await asyncio.to_thread(add_users, cluster)
        options: dict[str, Any] = {"user": "levelset", "password": "secret", "compaction": None}
        async with EtcdStorage(cluster.endpoints, **options) as storage:
            async with storage.watch("/", after=storage.revision) as watch:
                await storage.put("/a", b"1", expected=0)
                await asyncio.sleep(3)
                await storage.put("/b", b"1", expected=0)
                await storage.wait_current()
                assert [change.key for change in watch.batch_nowait()] == ["/a", "/b"]
            assert storage.find_write_problem() is None


async def test_a_wrong_password_and_a_missing_one_are_refused_at_the_start(binary: Path):
    async with start_cluster(binary, []) as cluster:
        await asyncio.to_thread(add_users, cluster)
        wrong: dict[str, Any] = {"user": "levelset", "password": "wrong"}
        for options in (wrong, {}):
            with pytest.raises(ConfigError, match=r"Check the URLs, the certificates and the user"):
                async with EtcdStorage(cluster.endpoints, compaction=None, timeout=2.0, **options):
                    pass


async def test_what_a_user_may_not_write_is_refused_with_the_reason(binary: Path):
    async with start_cluster(binary, []) as cluster:
        await asyncio.to_thread(add_users, cluster)
        with pytest.raises(ConfigError, match="permission denied"):
            async with EtcdStorage(cluster.endpoints, prefix="/other", user="levelset", password="secret"):
                pass


def test_a_certificate_without_its_key_is_refused():
    with pytest.raises(ConfigError, match="needs both files"):
        EtcdStorage("https://127.0.0.1:2379", cert="client.pem")
