"""Attacks on the server: forged credentials, path tricks, malicious bodies, malformed HTTP."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from levelset.apiserver.audit_log import AuditLog
from levelset.apiserver.authn.users import User
from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Limits, Peer, Request, Response
from levelset.testing.virtual_time import VirtualLoop
from tests.apiserver.support.in_process_server import widgets
from tests.apiserver.support.rbac_server import RbacServer, open_rbac_server, rule

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
HIDDEN = "aGlkZGVuLXZhbHVl"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": HIDDEN}}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
USERS = {"jane-token": User("jane", ("system:authenticated",)), "bob-token": User("bob", ("team",))}


async def settle(api: RbacServer) -> None:
    """Grants jane full access to ConfigMaps and read access to namespaces; creates a Secret that she may not read."""
    await api.request_as_owner("POST", SECRETS, SECRET)
    await api.request_as_owner("POST", MAPS, MAP)
    rights = "get list create update patch delete deletecollection"
    await api.grant("jane", rule(rights, "configmaps configmaps/status"), rule("get", "namespaces"))


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer"},
        {"Authorization": ""},
        {"Authorization": "bearer jane-toke"},
        {"Authorization": "Bearer jane-token2"},
        {"Authorization": "Bearer JANE-TOKEN"},
        {"Authorization": "Bearer jane-token, Bearer owner-token"},
        {"Authorization": "Basic b3duZXI6b3duZXItdG9rZW4="},
        {"Authorization": "Token owner-token"},
        {"Authorization": "owner-token"},
        {"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0."},
        {"Authorization": "Bearer " + "a" * 60_000},
        [("Authorization", "Bearer jane-token"), ("Authorization", "Bearer owner-token")],
        [("Authorization", "Bearer wrong"), ("authorization", "Bearer owner-token")],
    ],
)
async def test_invalid_credentials_are_unauthorized(headers: Any) -> None:
    async with open_rbac_server(token="owner-token", tokens=USERS) as api:
        status, tree = await api.request(None, "GET", MAPS, headers=headers)
        assert (status, tree["reason"], tree["kind"]) == (401, "Unauthorized", "Status")


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Remote-User": "root", "X-Remote-Group": "system:masters"},
        {"X-Forwarded-User": "root", "Remote-User": "root"},
        {"Cookie": "token=owner-token"},
        {"Proxy-Authorization": "Bearer owner-token"},
        {"Impersonate_User": "root", "Impersonate_Group": "system:masters"},
        {"X-HTTP-Method-Override": "GET", "X-Original-URL": "/version", "X-Rewrite-URL": "/version"},
        {"Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.b3duZXItdG9rZW4"},
    ],
)
async def test_no_other_header_authenticates(headers: dict[str, str]) -> None:
    async with open_rbac_server(token="owner-token") as api:
        status, tree = await api.request(None, "GET", MAPS, headers=headers, access_token="owner-token")
        assert status == 403
        assert 'User "system:anonymous"' in tree["message"]


async def test_the_credentials_of_a_user_grant_nothing_of_another() -> None:
    async with open_rbac_server(token="owner-token", tokens=USERS) as api:
        await settle(api)
        jane, bob = ({"Authorization": f"Bearer {name}-token"} for name in ("jane", "bob"))
        assert (await api.request(None, "GET", MAPS, headers=jane))[0] == 200
        assert (await api.request(None, "GET", MAPS, headers=bob))[0] == 403
        both = {**bob, "Impersonate-User": "jane"}
        assert (await api.request(None, "GET", MAPS, headers=both))[0] == 403
        # With a token, the certificate is ignored: two identities are never combined.
        request = Request("GET", SECRETS, headers=Headers(jane), peer=ApiServer.owner)
        assert (await api.send(request)).status == 403


async def test_a_certificate_without_a_common_name_is_anonymous() -> None:
    async with open_rbac_server() as api:
        response = await api.send(Request("GET", MAPS, peer=Peer("", ("system:masters",))))
        assert response.status == 403


TRICKS = [
    f"{MAPS}/../secrets/s",
    f"{MAPS}/%2e%2e/secrets/s",
    f"{MAPS}/%2E%2E%2Fsecrets%2Fs",
    f"{MAPS}%2f..%2fsecrets/s",
    f"{MAPS}/a/../../secrets/s",
    f"{MAPS}/a/status/../../../secrets/s",
    "/api/v1/namespaces/default/%73ecrets/s",
    "/api/v1/namespaces/default/secrets//s",
    "/api/v1/namespaces//default/secrets/s",
    "//api/v1/namespaces/default/secrets/s",
    "/api//v1/namespaces/default/secrets/s",
    "/api/v1/namespaces/default/secrets/s/",
    "/api/v1/namespaces/default/secrets/s//",
    "/API/V1/namespaces/default/secrets/s",
    "/api/v1/namespaces/default/Secrets/s",
    "/api/v1/namespaces/default/secrets./s",
    "/api/v1/namespaces/default/secrets/s.",
    "/api/v1/namespaces/default/secrets%00/s",
    "/api/v1/namespaces/default/secrets%20/s",
    "/api/v1/namespaces/default/secrets;a=b/s",
    "/api/v1/namespaces/default/configmaps;/../secrets/s",
    "/api/v1/namespaces/default/ｓｅｃｒｅｔｓ/s",
    "/api/v1/namespaces/default/secret%C5%BF/s",
    "/api/v1/./namespaces/default/secrets/s",
    "/api/v1/namespaces/./default/secrets/s",
    "/api/v1/namespaces/default/secrets/%252e",
    "/healthz/../api/v1/namespaces/default/secrets/s",
    "/version/%2e%2e/api/v1/namespaces/default/secrets/s",
    "/healthz%2f..%2fapi/v1/namespaces/default/secrets/s",
    "/apis//v1/namespaces/default/secrets/s",
    "/apis/%20/v1/namespaces/default/secrets/s",
    "/api/v1/watch/namespaces/default/secrets/s",
    "/api/v1/watch/namespaces/default/secrets",
    "/api/v1/proxy/namespaces/default/secrets/s",
    "/registry/core/secrets/default/s",
    "\\api\\v1\\namespaces\\default\\secrets\\s",
    "/api/v1/secrets",
    "/api/v1/namespaces/*/secrets",
    "/api/v1/namespaces/default%2fsecrets/configmaps",
]


@pytest.mark.parametrize("path", TRICKS)
async def test_no_spelling_of_a_path_bypasses_rbac(path: str) -> None:
    async with open_rbac_server() as api:
        await settle(api)
        for method in ("GET", "POST", "PUT", "DELETE"):
            status, tree = await api.request("jane", method, path, SECRET)
            assert 400 <= status < 500, tree
            assert HIDDEN not in json.dumps(tree)
            assert not isinstance(tree, dict) or tree["kind"] == "Status"
        assert (await api.request_as_owner("GET", f"{SECRETS}/s"))["data"] == {"k": HIDDEN}
        assert len((await api.request_as_owner("GET", SECRETS))["items"]) == 1


WORDS = ["api", "apis", "v1", "namespaces", "default", "configmaps", "secrets", "s", "a", "status", "watch", "..", "."]
WORDS += [
    "",
    "%2e%2e",
    "%2f",
    "%73ecrets",
    "secret%73",
    "scale",
    "log",
    "healthz",
    "version",
    "*",
    "%00",
    "..%2fsecrets",
]
PATHS = st.lists(st.sampled_from(WORDS), max_size=7)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(PATHS, st.booleans(), st.sampled_from(["GET", "PUT", "DELETE"])), min_size=20, max_size=40))
def test_no_path_exposes_or_changes_a_secret_without_permission(tries: list[tuple[list[str], bool, str]]) -> None:
    async def intrude() -> None:
        async with open_rbac_server() as api:
            await settle(api)
            for words, whole, method in tries:
                before = ["api", "v1", "namespaces", "default"] if whole else []
                response = await api.send(
                    Request(method, "/" + "/".join([*before, *words]), "", Headers(), b"{}", Peer("jane"))
                )
                assert isinstance(response.body, bytes)  # not a watch, which jane may not open
                assert HIDDEN.encode() not in response.body
            assert (await api.request_as_owner("GET", f"{SECRETS}/s"))["data"] == {"k": HIDDEN}

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(intrude())


DEEP = 100_000
BODIES: dict[str, tuple[str, bytes]] = {
    "deep lists": ("application/json", b"[" * DEEP),
    "deep maps": ("application/json", b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    "deep yaml": ("application/yaml", b"[" * DEEP),
    "deep yaml blocks": ("application/yaml", b"- " * 20_000 + b"a"),
    "laughs": (
        "application/yaml",
        b"a0: &a0 [x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)),
    ),
    "a long text said often": ("application/yaml", b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a," * 10_000 + b"]"),
    "yaml that builds objects": ("application/yaml", b"!!python/object/apply:os.system ['true']"),
    "a yaml ring": ("application/yaml", b"&a [*a]"),
    "half a character": ("application/json", b'{"metadata":{"name":"\\ud800"}}'),
    "a number without end": ("application/json", b'{"data":' + b"9" * 1_000_000 + b"}"),
    "a huge exponent": ("application/json", b'{"metadata":{"generation":1e999999999}}'),
    "bytes that are no text": ("application/json", b"\xff\xfe\x00"),
    "protobuf that is none": ("application/vnd.kubernetes.protobuf", b"k8s\x00" + b"\x0a\xff\xff\xff\xff\x0f" * 1000),
    "cbor": ("application/cbor", b"\xd9\xd9\xf7" + b"\x81" * DEEP),
    "a form": ("application/x-www-form-urlencoded", b"a=b"),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_malicious_body_is_rejected(name: str, caplog: pytest.LogCaptureFixture) -> None:
    kind, body = BODIES[name]
    async with open_rbac_server() as api:
        await settle(api)
        tries = [("POST", MAPS, kind), ("PUT", f"{MAPS}/a", kind), ("DELETE", f"{MAPS}/a", kind)]
        patch = kind.replace("application/", "application/merge-patch+")
        tries += [("PATCH", f"{MAPS}/a", patch), ("PATCH", f"{MAPS}/a", "application/apply-patch+yaml")]
        for method, path, media in tries:
            request = Request(method, path, "fieldManager=m", Headers({"content-type": media}), body, Peer("jane"))
            response = await api.send(request)
            if (method, name) == ("DELETE", "a form"):
                continue  # the options body of a delete is optional, and JSON by default
            assert 400 <= response.status < 500, (method, media, response.body)
            assert isinstance(response.body, bytes)
            assert json.loads(response.body)["kind"] == "Status"
        assert "request failed" not in caplog.text


async def test_a_series_of_small_patches_cannot_exceed_the_object_size_limit() -> None:
    async with open_rbac_server() as api:
        await api.request_as_owner("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        path = "/apis/example.com/v1/namespaces/default/widgets"
        await api.request_as_owner(
            "POST", path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
        )
        headers = Headers({"content-type": "application/merge-patch+json"})
        statuses: list[int] = []
        for number in range(3):
            body = json.dumps({"spec": {f"k{number}": "x" * 2_000_000}}).encode()
            request = Request("PATCH", f"{path}/a", "", headers, body, ApiServer.owner)
            statuses.append((await api.send(request)).status)
        assert statuses == [200, 200, 413]
        assert (await api.request_as_owner("PATCH", f"{path}/a", {"spec": {"k0": None}}, headers=headers))[
            "spec"
        ].keys() == {"k1"}


@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=" + ",".join(f"k{n}!=v" for n in range(3500)),
        "labelSelector=" + "a%20in%20(" + ",".join(f"v{n}" for n in range(5000)) + ")",
        "labelSelector=" + "(" * 30_000,
        "labelSelector=" + "!" * 30_000,
        "fieldSelector=" + ",".join("metadata.name!=a" for _ in range(1900)),
        "fieldSelector=" + "\\" * 30_000,
        "limit=" + "9" * 30_000,
        "resourceVersion=" + "9" * 30_000,
        "continue=" + "A" * 30_000,
        "timeoutSeconds=" + "9" * 30_000,
        "timeout=" + "9" * 30_000 + "s",
        "&".join(f"a{n}=b" for n in range(5000)),
    ],
    ids=range(12),
)
async def test_a_malicious_query_is_rejected_quickly(query: str) -> None:
    async with open_rbac_server() as api:
        await settle(api)
        response = await api.send(Request("GET", MAPS, query, Headers(), b"", Peer("jane")))
        assert response.status < 500 or response.status == 504, response.body


async def test_bodies_of_self_reviews_are_limited() -> None:
    async with open_rbac_server() as api:
        spec = {"resourceAttributes": {"verb": "get", "resource": "x" * 200_000}}
        tree = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        status, found = await api.request("jane", "POST", path, tree)
        assert (status, found["reason"]) == (413, "RequestEntityTooLarge")


async def test_guessed_tokens_fill_no_cache() -> None:
    async with open_rbac_server(token="owner-token") as api:
        authenticator, rbac = api.server.state.authenticator, api.server.state.rbac
        assert authenticator is not None
        assert rbac is not None
        for number in range(5000):
            headers = Headers({"Authorization": f"Bearer guess-{number}"})
            await api.send(Request("GET", MAPS, headers=headers))
            await api.send(Request("GET", f"/api/v1/namespaces/n{number}/pods/p{number}", peer=Peer(f"u{number}")))
        assert len(authenticator._cached_headers) <= 64
        assert len(rbac._grants) <= 4096
        assert len(api.server._app._routes) <= 4096


@asynccontextmanager
async def listening(tmp_path: Path, *, within: float = 60.0) -> AsyncGenerator[tuple[ApiServer, Any], None]:
    """A server on a socket that waits so many seconds, and a function that sends bytes and returns the response."""
    limits = Limits(head_within=within, body_within=within, every=0.01, linger_within=60.0)
    options: dict[str, Any] = {"rbac": True, "tls": False, "token": "owner-token", "limits": limits}
    async with ApiServer(audit_log=AuditLog(tmp_path / "log"), **options) as server:
        host, port = server.url.removeprefix("http://").split(":")

        async def send(data: bytes) -> bytes:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(data)
            found = await reader.read()
            writer.close()
            return found

        yield server, send


SMUGGLED = b"GET /api/v1/secrets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer owner-token\r\n\r\n"
OPEN = b"GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("status", "data"),
    [
        (
            400,
            b"POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            + SMUGGLED,
        ),
        (400, b"POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 80\r\n\r\n" + SMUGGLED),
        (400, b"POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n" + SMUGGLED),
        (400, b"POST /version HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED),
        (400, OPEN + b"X: a\r\n Authorization: Bearer owner-token\r\n\r\n"),
        (400, OPEN + b"X: a\x00b\r\n\r\n"),
        (400, OPEN + b"Bad Name: a\r\n\r\n"),
        (408, b"GET /version HTTP/1.1\r\nHost: a\r\nX-Slow: "),
        (408, b"GET /version HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"),
        (413, b"POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"),
        (431, OPEN + b"X: " + b"a" * 70_000 + b"\r\n\r\n"),
    ],
    ids=range(11),
)
async def test_malformed_http_is_rejected_with_a_status_and_logged(tmp_path: Path, status: int, data: bytes) -> None:
    async with listening(tmp_path, within=0.05 if status == 408 else 60.0) as (_, send):
        found = await send(data)
    head, _, body = found.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), found
    assert found.count(b"HTTP/1.1 ") == 1  # the hidden request got no response
    assert json.loads(body)["code"] == status
    text = await asyncio.to_thread((tmp_path / "log").read_text)
    assert f'"responseStatus":{{"code":{status}}}' in text


async def test_request_smuggling_is_impossible(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, send):
        length = b"Content-Length: %d\r\n" % len(SMUGGLED)
        found: bytes = await send(OPEN.replace(b"GET", b"POST") + length + b"\r\n" + SMUGGLED)
    assert found.count(b"HTTP/1.1 ") == 1
    assert not found.startswith(b"HTTP/1.1 200")


async def test_unauthenticated_requests_get_a_status(tmp_path: Path) -> None:
    async with listening(tmp_path) as (server, _):
        made = server.handle(Request("GET", MAPS, headers=Headers({"Authorization": "Bearer no"})))
        assert isinstance(made, Response)
        assert dict(made.headers)["WWW-Authenticate"].startswith("Bearer")
