import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, GroupVersionKind, MergePatch, Ref, Unstructured
from levelset.apiserver import ApiServer
from levelset.errors import ConfigError
from levelset.http import CertificateAuthority, validity_of
from levelset.runtime.webhook import FileCertificates, OwnCertificates, Service, Url
from levelset.runtime.webhook.certificates import SecretAuthorityStore

SERVICE = Service("hooks", "default")
SECRET: Ref[Any] = Ref(GroupVersionKind("", "v1", "Secret"), "hooks-ca", "default")


@asynccontextmanager
async def open_client() -> AsyncGenerator[Client, None]:
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with await Client.connect(server) as client:
            yield client
    finally:
        await server.stop()


async def test_certificates_are_for_all_names_of_the_service_and_stay_the_same() -> None:
    certificates = OwnCertificates()
    bundle = await certificates.current(SERVICE, None)
    assert bundle.ca is not None
    assert await certificates.current(SERVICE, None) is bundle
    assert SERVICE.names == ("hooks.default.svc", "hooks.default.svc.cluster.local", "hooks.default")
    validity = validity_of(bundle.identity.certificate)
    assert 89 < (validity.end - datetime.now(UTC)).days + 1 <= 90


async def test_replicas_with_the_same_secret_share_one_authority() -> None:
    async with open_client() as client:
        replicas = [OwnCertificates(secret="hooks-ca") for _ in range(3)]
        bundle = await asyncio.gather(*(one.current(SERVICE, client) for one in replicas))
        assert len({one.ca for one in bundle}) == 1
        assert len({one.identity.certificate for one in bundle}) == 3
        secret: Unstructured = await client.get(SECRET)
        assert secret.tree["type"] == "kubernetes.io/tls"
        assert sorted(secret.tree["data"]) == ["ca.crt", "tls.crt", "tls.key"]
        restarted = await OwnCertificates(secret="default/hooks-ca").current(Url("https://x.dev"), client)
        assert restarted.ca == bundle[0].ca


async def test_an_authority_in_a_secret_is_renewed_by_one_replica_for_all() -> None:
    later = datetime.now(UTC) + timedelta(days=3000)
    async with open_client() as client:
        first = await OwnCertificates(secret="hooks-ca").current(SERVICE, client)
        renewed = [OwnCertificates(secret="hooks-ca", authority_days=9000, now=lambda: later) for _ in range(2)]
        second, third = [await one.current(SERVICE, client) for one in renewed]
        assert second.ca == third.ca != first.ca
        assert second.ca is not None
        assert first.ca is not None
        assert second.ca.endswith(first.ca)


async def test_an_expired_authority_is_no_longer_trusted() -> None:
    async with open_client() as client:
        first = await OwnCertificates(secret="hooks-ca", authority_days=10).current(SERVICE, client)
        later = datetime.now(UTC) + timedelta(days=11)
        second = await OwnCertificates(secret="hooks-ca", now=lambda: later).current(SERVICE, client)
        assert second.ca is not None
        assert first.ca is not None
        assert first.ca not in second.ca


async def test_a_secret_with_other_content_is_not_overwritten() -> None:
    async with open_client() as client:
        metadata = {"name": "hooks-ca", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"a": "YQ=="}})
        with pytest.raises(ConfigError, match="does not contain an authority: delete it"):
            await OwnCertificates(secret="hooks-ca").current(SERVICE, client)


async def test_a_secret_needs_a_client_and_a_namespace() -> None:
    with pytest.raises(ConfigError, match="needs a client and a namespace"):
        await OwnCertificates(secret="hooks-ca").current(SERVICE, None)


async def test_too_many_conflicts_on_the_secret_raise_a_config_error() -> None:
    later = datetime.now(UTC) + timedelta(days=3000)
    counted = count()
    async with open_client() as client:
        await OwnCertificates(secret="hooks-ca").current(SERVICE, client)

        async def meddle() -> CertificateAuthority:
            await client.patch(SECRET, MergePatch({"metadata": {"labels": {"n": str(next(counted))}}}))
            return CertificateAuthority.create("x")

        with pytest.raises(ConfigError, match="too many conflicting writes"):
            await SecretAuthorityStore(client, "hooks-ca", "default").current(later, meddle, last=1 / 3)
    assert next(counted) == 5


async def test_missing_or_invalid_certificate_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.crt: No such file"):
        await FileCertificates(tmp_path).current(SERVICE)
    for name in ("tls.crt", "tls.key"):
        await asyncio.to_thread((tmp_path / name).write_bytes, b"none")
    with pytest.raises(ConfigError, match="There is no certificate"):
        await FileCertificates(tmp_path).current(SERVICE)
