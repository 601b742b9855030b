import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, ConfigError, GroupVersionKind, MergePatch, Ref, Unstructured
from levelset.apiserver import ApiServer
from levelset.http import Authority
from levelset.runtime.webhook import FileCertificates, OwnCertificates, Service, Url
from levelset.runtime.webhook.certificates import SecretKeep, validity_of

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


async def test_papers_are_for_all_names_of_the_service_and_stay_the_same() -> None:
    certificates = OwnCertificates()
    papers = await certificates.current(SERVICE, None)
    assert papers.ca is not None
    assert await certificates.current(SERVICE, None) is papers
    assert SERVICE.names == ("hooks.default.svc", "hooks.default.svc.cluster.local", "hooks.default")
    validity = validity_of(papers.identity.certificate)
    assert 89 < (validity.end - datetime.now(UTC)).days + 1 <= 90


async def test_replicas_that_keep_their_authority_in_one_secret_have_the_same_one() -> None:
    async with open_client() as client:
        replicas = [OwnCertificates(secret="hooks-ca") for _ in range(3)]
        papers = await asyncio.gather(*(one.current(SERVICE, client) for one in replicas))
        assert len({one.ca for one in papers}) == 1
        assert len({one.identity.certificate for one in papers}) == 3
        kept: Unstructured = await client.get(SECRET)
        assert kept.tree["type"] == "kubernetes.io/tls"
        assert sorted(kept.tree["data"]) == ["ca.crt", "tls.crt", "tls.key"]
        restarted = await OwnCertificates(secret="default/hooks-ca").current(Url("https://x.dev"), client)
        assert restarted.ca == papers[0].ca


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


async def test_an_authority_that_has_ended_is_trusted_no_longer() -> None:
    async with open_client() as client:
        first = await OwnCertificates(secret="hooks-ca", authority_days=10).current(SERVICE, client)
        later = datetime.now(UTC) + timedelta(days=11)
        second = await OwnCertificates(secret="hooks-ca", now=lambda: later).current(SERVICE, client)
        assert second.ca is not None
        assert first.ca is not None
        assert first.ca not in second.ca


async def test_a_secret_that_holds_something_else_is_not_overwritten() -> None:
    async with open_client() as client:
        metadata = {"name": "hooks-ca", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"a": "YQ=="}})
        with pytest.raises(ConfigError, match="holds no authority: remove it"):
            await OwnCertificates(secret="hooks-ca").current(SERVICE, client)


async def test_a_secret_needs_a_client_and_a_namespace() -> None:
    with pytest.raises(ConfigError, match="needs a client and a namespace"):
        await OwnCertificates(secret="hooks-ca").current(SERVICE, None)


async def test_a_secret_that_never_holds_still_is_given_up() -> None:
    later = datetime.now(UTC) + timedelta(days=3000)
    counted = count()
    async with open_client() as client:
        await OwnCertificates(secret="hooks-ca").current(SERVICE, client)

        async def meddle() -> Authority:
            await client.patch(SECRET, MergePatch({"metadata": {"labels": {"n": str(next(counted))}}}))
            return Authority.create("x")

        with pytest.raises(ConfigError, match="too many others write it"):
            await SecretKeep(client, "hooks-ca", "default").current(later, meddle, last=1 / 3)
    assert next(counted) == 5


async def test_files_that_are_not_there_or_hold_no_certificate_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.crt: No such file"):
        await FileCertificates(tmp_path).current(SERVICE)
    for name in ("tls.crt", "tls.key"):
        await asyncio.to_thread((tmp_path / name).write_bytes, b"none")
    with pytest.raises(ConfigError, match="There is no certificate in it"):
        await FileCertificates(tmp_path).current(SERVICE)


@pytest.mark.parametrize("text", [b"", b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_has_no_validity(text: bytes) -> None:
    with pytest.raises(ConfigError):
        validity_of(text)


def test_the_last_part_of_a_life_begins_when_it_should() -> None:
    validity = validity_of(Authority.create("x", within=300).certificate)
    assert not validity.is_due(validity.begin + timedelta(days=199), last=1 / 3)
    assert validity.is_due(validity.begin + timedelta(days=201), last=1 / 3)
    far = validity_of(Authority.create("x", within=365 * 40).certificate)
    assert far.end.year > 2060
