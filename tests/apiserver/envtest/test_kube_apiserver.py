"""The API server with the files of envtest: certificates of its authorities, users and groups, and no controllers."""

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from levelset.apiserver import ApiServer
from levelset.apiserver.envtest.kube_apiserver import build_server, main
from levelset.apiserver.envtest.kube_apiserver_flags import ServerFlags
from levelset.errors import ConfigError
from levelset.http import CertificateAuthority, write_private


class Reply(NamedTuple):
    status: int
    body: Any


class Suite:
    """What envtest prepares in --cert-dir: an authority of the server, and one of its users."""

    def __init__(self, folder: Path) -> None:
        self.serving, self.users = CertificateAuthority.create("serving"), CertificateAuthority.create("users")
        self.serving.issue_server().save(folder / "apiserver.crt", folder / "apiserver.key")
        (folder / "users.crt").write_bytes(self.users.certificate)
        self.flags = ServerFlags(
            port=0,
            certificate=folder / "apiserver.crt",
            key=folder / "apiserver.key",
            client_authority=folder / "users.crt",
            service_accounts=False,
        )

    def user(self, name: str, *groups: str) -> ssl.SSLContext:
        return self.serving.client_context(self.users.issue_client(name, groups))


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return Suite(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def admin(suite: Suite) -> ssl.SSLContext:
    return suite.user("admin", "system:masters")


@asynccontextmanager
async def running(flags: ServerFlags, *, controllers: bool = False) -> AsyncGenerator[ApiServer]:
    async with await build_server(flags, controllers=controllers) as server:
        yield server


async def call(server: ApiServer, user: ssl.SSLContext, method: str, path: str, body: Any = None) -> Reply:
    def send() -> Reply:
        connection = http.client.HTTPSConnection(server.url.partition("//")[2], timeout=10, context=user)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            read = answer.read()
            return Reply(answer.status, json.loads(read) if read.startswith(b"{") else read.decode())
        finally:
            connection.close()

    return await asyncio.to_thread(send)


async def test_users_and_groups_are_those_of_client_certificates(suite: Suite, admin: ssl.SSLContext) -> None:
    async with running(suite.flags) as server:
        assert (await call(server, admin, "GET", "/api/v1/namespaces/default")).status == 200
        jane = await asyncio.to_thread(suite.user, "jane", "readers")
        found = await call(server, jane, "GET", "/api/v1/namespaces/default")
        assert (found.status, 'User "jane" cannot get' in found.body["message"]) == (403, True)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        shown = await call(server, jane, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
        assert shown.body["status"]["userInfo"]["groups"] == ["readers", "system:authenticated"]


async def test_the_health_check_needs_no_credentials(suite: Suite) -> None:
    anyone = await asyncio.to_thread(suite.serving.client_context)
    async with running(suite.flags) as server:
        for path in ("/healthz", "/readyz", "/livez"):
            assert await call(server, anyone, "GET", path) == (200, "ok")
        assert (await call(server, anyone, "GET", "/api/v1/namespaces")).status == 403
    async with running(replace(suite.flags, anonymous=False)) as server:
        assert (await call(server, anyone, "GET", "/api/v1/namespaces")).status == 401


async def test_without_controllers_nothing_is_collected_and_namespaces_stay(
    suite: Suite, admin: ssl.SSLContext
) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "11111111-2222-3333-4444-555555555555"}
    owned = {"metadata": {"name": "owned", "ownerReferences": [owner]}}
    async with running(suite.flags) as server:
        await call(server, admin, "POST", "/api/v1/namespaces", {"metadata": {"name": "short"}})
        await call(server, admin, "POST", "/api/v1/namespaces/short/configmaps", owned)
        await call(server, admin, "DELETE", "/api/v1/namespaces/short")
        await server.idle()
        found = await call(server, admin, "GET", "/api/v1/namespaces/short")
        assert found.body["status"]["phase"] == "Terminating"
        assert (await call(server, admin, "GET", "/api/v1/namespaces/short/configmaps/owned")).status == 200
        assert (await call(server, admin, "GET", "/api/v1/serviceaccounts")).body["items"] == []
        pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
        assert (await call(server, admin, "POST", "/api/v1/namespaces/default/pods", pod)).status == 201
        service = await call(server, admin, "GET", "/api/v1/namespaces/default/services/kubernetes")
        assert service.body["spec"]["clusterIP"] == "10.0.0.1"


async def test_with_controllers_a_deleted_namespace_goes(suite: Suite, admin: ssl.SSLContext) -> None:
    async with running(suite.flags, controllers=True) as server:
        await call(server, admin, "POST", "/api/v1/namespaces", {"metadata": {"name": "short"}})
        await call(server, admin, "DELETE", "/api/v1/namespaces/short")
        await server.idle()
        assert (await call(server, admin, "GET", "/api/v1/namespaces/short")).status == 404


async def test_the_users_of_a_token_file_are_accepted(suite: Suite, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    await asyncio.to_thread(write_private, tokens, b'secret,ci,1,"system:masters"\n')
    async with running(replace(suite.flags, tokens=tokens)) as server:
        assert server.state.authenticator is not None
        found = server.state.authenticator.authenticate_token("secret")
        assert (found and found.name, found and found.is_master) == ("ci", True)


async def test_a_missing_certificate_is_created_in_its_folder(suite: Suite, tmp_path: Path) -> None:
    flags = replace(suite.flags, certificate=tmp_path / "new/apiserver.crt", key=tmp_path / "new/apiserver.key")
    await build_server(flags)
    assert (await asyncio.to_thread(flags.certificate.read_bytes)).startswith(b"-----BEGIN CERTIFICATE")


async def test_a_file_that_cannot_be_read_is_an_error_that_names_its_flag(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--client-ca-file: .*missing.crt cannot be read"):
        await build_server(replace(suite.flags, client_authority=tmp_path / "missing.crt"))
    await asyncio.to_thread((tmp_path / "empty.crt").touch)
    with pytest.raises(ConfigError, match=r"--client-ca-file: .*empty.crt has no certificates"):
        await build_server(replace(suite.flags, client_authority=tmp_path / "empty.crt"))


def test_the_program_says_which_flag_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--basic-auth-file=x"]) == 1
    assert "Error: unknown flag: --basic-auth-file" in capsys.readouterr().err
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("Kubernetes v1.")
