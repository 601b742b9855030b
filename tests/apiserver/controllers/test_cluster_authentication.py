"""The ConfigMap `extension-apiserver-authentication` has the authorities of client certificates, as in a cluster."""

import asyncio
from datetime import timedelta
from typing import Any

from levelset.apiserver import ApiServer
from levelset.apiserver.controllers.cluster_authentication import join_certificates
from levelset.http import CertificateAuthority, server_context
from levelset.http.certificate_authority import validity_of
from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import InProcessServer

MAPS = "/api/v1/namespaces/kube-system/configmaps"
PATH = f"{MAPS}/extension-apiserver-authentication"


async def _data(api: InProcessServer) -> Any:
    status, tree = await api.request("GET", PATH)
    assert status == 200, tree
    return tree["data"]


async def test_the_authority_of_client_certificates_is_published() -> None:
    storage = MemoryStorage()
    async with ApiServer(storage, cluster_defaults=True) as server:
        assert server.ca is not None
        assert await _data(InProcessServer(server, storage)) == {"client-ca-file": server.ca.decode()}
        _, tree = await InProcessServer(server, storage).request("GET", PATH)
        assert [one["manager"] for one in tree["metadata"]["managedFields"]] == ["kube-apiserver"]


async def test_the_authorities_of_a_given_context_are_published_also_without_controllers() -> None:
    own, clients = CertificateAuthority.create("own"), CertificateAuthority.create("clients")
    identity = own.issue_server(["localhost"], ["127.0.0.1"])
    context = await asyncio.to_thread(server_context, identity, clients.certificate)
    storage = MemoryStorage()
    async with ApiServer(storage, tls=context, ca=own.certificate, cluster_defaults=True, controllers=False) as server:
        data = await _data(InProcessServer(server, storage))
    assert data == {"client-ca-file": clients.certificate.decode()}


async def test_a_server_that_accepts_no_client_certificates_publishes_nothing() -> None:
    own, storage = CertificateAuthority.create("own"), MemoryStorage()
    context = await asyncio.to_thread(server_context, own.issue_server(["localhost"], ["127.0.0.1"]))
    for tls in (False, context):
        async with ApiServer(storage, tls=tls, cluster_defaults=True) as server:
            assert (await InProcessServer(server, storage).request("GET", PATH))[0] == 404


async def test_it_is_created_again_when_it_is_deleted_and_repaired_when_it_is_changed() -> None:
    storage = MemoryStorage()
    async with ApiServer(storage, cluster_defaults=True) as server:
        api = InProcessServer(server, storage)
        expected = await _data(api)
        assert (await api.request("DELETE", PATH))[0] == 200
        await server.idle()
        assert await _data(api) == expected
        _, tree = await api.request("GET", PATH)
        await api.request("PUT", PATH, {**tree, "data": {"other": "value"}})
        await server.idle()
        assert await _data(api) == expected


async def test_a_restart_with_another_authority_publishes_both() -> None:
    storage = MemoryStorage()
    first, second = CertificateAuthority.create("first"), CertificateAuthority.create("second")
    for authority in (first, second, second):
        async with ApiServer(storage, authority=authority, cluster_defaults=True) as server:
            data = await _data(InProcessServer(server, storage))
    assert data == {"client-ca-file": (first.certificate + second.certificate).decode()}


async def test_what_is_published_of_a_front_proxy_stays() -> None:
    storage, proxy = MemoryStorage(), CertificateAuthority.create("proxy").certificate.decode()
    data = {"requestheader-client-ca-file": proxy, "requestheader-allowed-names": '["front-proxy"]', "other": "gone"}
    async with ApiServer(storage, cluster_defaults=True) as server:
        api = InProcessServer(server, storage)
        expected = {**await _data(api), "requestheader-client-ca-file": proxy}
        _, tree = await api.request("GET", PATH)
        await api.request("PUT", PATH, {**tree, "data": data})
        await server.idle()
        assert await _data(api) == {**expected, "requestheader-allowed-names": '["front-proxy"]'}


def test_certificates_that_have_expired_are_left_out_five_minutes_later() -> None:
    old, own = (CertificateAuthority.create(name).certificate.decode() for name in ("old", "own"))
    end = validity_of(old.encode()).end
    assert join_certificates(old, own, now=end + timedelta(minutes=4)) == old + own
    assert join_certificates(old, own, now=end + timedelta(minutes=6)) == own
    assert join_certificates(f"{own}garbage", own, now=end) == own
