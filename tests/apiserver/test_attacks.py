"""The server as somebody sees it who wants more than they were given: refused with a Status, and written down."""

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
from levelset.apiserver.authn.users import Caller
from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Limits, Peer, Request, Response
from tests.apiserver.box import widgets
from tests.apiserver.clock import VirtualLoop
from tests.apiserver.roles import Town, open_town, rule

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
HIDDEN = "aGlkZGVuLXZhbHVl"
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": HIDDEN}}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
USERS = {"jane-token": Caller("jane", ("system:authenticated",)), "bob-token": Caller("bob", ("team",))}


async def settle(town: Town) -> None:
    """Jane may do with ConfigMaps whatever she likes, and look at namespaces; there is a secret that is not hers."""
    await town.own("POST", SECRETS, SECRET)
    await town.own("POST", MAPS, MAP)
    rights = "get list create update patch delete deletecollection"
    await town.allow("jane", rule(rights, "configmaps configmaps/status"), rule("get", "namespaces"))


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
async def test_credentials_that_are_none_open_nothing(headers: Any) -> None:
    async with open_town(token="owner-token", tokens=USERS) as town:
        status, tree = await town.ask(None, "GET", MAPS, headers=headers)
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
async def test_no_other_header_makes_anybody_somebody(headers: dict[str, str]) -> None:
    async with open_town(token="owner-token") as town:
        status, tree = await town.ask(None, "GET", MAPS, headers=headers, access_token="owner-token")
        assert status == 403
        assert 'User "system:anonymous"' in tree["message"]


async def test_the_credentials_of_one_user_open_nothing_of_anothers() -> None:
    async with open_town(token="owner-token", tokens=USERS) as town:
        await settle(town)
        jane, bob = ({"Authorization": f"Bearer {name}-token"} for name in ("jane", "bob"))
        assert (await town.ask(None, "GET", MAPS, headers=jane))[0] == 200
        assert (await town.ask(None, "GET", MAPS, headers=bob))[0] == 403
        both = {**bob, "Impersonate-User": "jane"}
        assert (await town.ask(None, "GET", MAPS, headers=both))[0] == 403
        # A certificate does not count besides a token: the weaker of two identities cannot borrow from the stronger.
        request = Request("GET", SECRETS, headers=Headers(jane), peer=ApiServer.owner)
        assert (await town.answer(request)).status == 403


async def test_a_certificate_without_a_name_is_nobodys() -> None:
    async with open_town() as town:
        response = await town.answer(Request("GET", MAPS, peer=Peer("", ("system:masters",))))
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
async def test_no_way_of_writing_a_path_leads_around_a_rule(path: str) -> None:
    async with open_town() as town:
        await settle(town)
        for method in ("GET", "POST", "PUT", "DELETE"):
            status, tree = await town.ask("jane", method, path, SECRET)
            assert 400 <= status < 500, tree
            assert HIDDEN not in json.dumps(tree)
            assert not isinstance(tree, dict) or tree["kind"] == "Status"
        assert (await town.own("GET", f"{SECRETS}/s"))["data"] == {"k": HIDDEN}
        assert len((await town.own("GET", SECRETS))["items"]) == 1


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
def test_no_path_whatever_shows_or_changes_a_secret(tries: list[tuple[list[str], bool, str]]) -> None:
    async def intrude() -> None:
        async with open_town() as town:
            await settle(town)
            for words, whole, method in tries:
                before = ["api", "v1", "namespaces", "default"] if whole else []
                response = await town.answer(
                    Request(method, "/" + "/".join([*before, *words]), "", Headers(), b"{}", Peer("jane"))
                )
                assert isinstance(response.body, bytes)  # no watch, for which there is no right
                assert HIDDEN.encode() not in response.body
            assert (await town.own("GET", f"{SECRETS}/s"))["data"] == {"k": HIDDEN}

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
async def test_a_body_that_is_made_to_hurt_is_refused(name: str, caplog: pytest.LogCaptureFixture) -> None:
    kind, body = BODIES[name]
    async with open_town() as town:
        await settle(town)
        tries = [("POST", MAPS, kind), ("PUT", f"{MAPS}/a", kind), ("DELETE", f"{MAPS}/a", kind)]
        patch = kind.replace("application/", "application/merge-patch+")
        tries += [("PATCH", f"{MAPS}/a", patch), ("PATCH", f"{MAPS}/a", "application/apply-patch+yaml")]
        for method, path, media in tries:
            request = Request(method, path, "fieldManager=m", Headers({"content-type": media}), body, Peer("jane"))
            response = await town.answer(request)
            if (method, name) == ("DELETE", "a form"):
                continue  # options are optional, and are read as JSON if nothing else is said
            assert 400 <= response.status < 500, (method, media, response.body)
            assert isinstance(response.body, bytes)
            assert json.loads(response.body)["kind"] == "Status"
        assert "request failed" not in caplog.text


async def test_small_patches_make_no_object_of_any_size() -> None:
    async with open_town() as town:
        await town.own("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        path = "/apis/example.com/v1/namespaces/default/widgets"
        await town.own("POST", path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}})
        headers = Headers({"content-type": "application/merge-patch+json"})
        statuses: list[int] = []
        for number in range(3):
            body = json.dumps({"spec": {f"k{number}": "x" * 2_000_000}}).encode()
            request = Request("PATCH", f"{path}/a", "", headers, body, ApiServer.owner)
            statuses.append((await town.answer(request)).status)
        assert statuses == [200, 200, 413]
        assert (await town.own("PATCH", f"{path}/a", {"spec": {"k0": None}}, headers=headers))["spec"].keys() == {"k1"}


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
async def test_a_query_that_is_made_to_hurt_is_answered_at_once(query: str) -> None:
    async with open_town() as town:
        await settle(town)
        response = await town.answer(Request("GET", MAPS, query, Headers(), b"", Peer("jane")))
        assert response.status < 500 or response.status == 504, response.body


async def test_what_everybody_may_send_is_short() -> None:
    async with open_town() as town:
        spec = {"resourceAttributes": {"verb": "get", "resource": "x" * 200_000}}
        tree = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        status, found = await town.ask("jane", "POST", path, tree)
        assert (status, found["reason"]) == (413, "RequestEntityTooLarge")


async def test_guessing_fills_no_memory() -> None:
    async with open_town(token="owner-token") as town:
        access, rbac = town.server.world.access, town.server.world.rbac
        assert access is not None
        assert rbac is not None
        for number in range(5000):
            headers = Headers({"Authorization": f"Bearer guess-{number}"})
            await town.answer(Request("GET", MAPS, headers=headers))
            await town.answer(Request("GET", f"/api/v1/namespaces/n{number}/pods/p{number}", peer=Peer(f"u{number}")))
        assert len(access._known) <= 64
        assert len(rbac._grants) <= 4096
        assert len(town.server._app._routes) <= 4096


@asynccontextmanager
async def listening(tmp_path: Path) -> AsyncGenerator[tuple[ApiServer, Any], None]:
    """A server on a socket, and a function that sends it bytes and gives all that comes back."""
    limits = Limits(head_within=0.05, body_within=0.05, every=0.01, linger_within=0.05)
    options: dict[str, Any] = {"rbac": True, "tls": False, "token": "owner-token", "limits": limits}
    async with ApiServer(audit=AuditLog(tmp_path / "log"), **options) as server:
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
        (408, b"POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"),
        (413, b"POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"),
        (431, OPEN + b"X: " + b"a" * 70_000 + b"\r\n\r\n"),
    ],
    ids=range(11),
)
async def test_what_is_no_clean_request_is_refused_with_a_status_and_written_down(
    tmp_path: Path, status: int, data: bytes
) -> None:
    async with listening(tmp_path) as (_, send):
        found = await send(data)
    head, _, body = found.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), found
    assert found.count(b"HTTP/1.1 ") == 1  # what was hidden in it was not answered
    assert json.loads(body)["code"] == status
    text = await asyncio.to_thread((tmp_path / "log").read_text)
    assert f'"responseStatus":{{"code":{status}}}' in text


async def test_a_body_hides_no_second_request(tmp_path: Path) -> None:
    async with listening(tmp_path) as (_, send):
        length = b"Content-Length: %d\r\n" % len(SMUGGLED)
        found: bytes = await send(OPEN.replace(b"GET", b"POST") + length + b"\r\n" + SMUGGLED)
    assert found.count(b"HTTP/1.1 ") == 1
    assert not found.startswith(b"HTTP/1.1 200")


async def test_an_answer_is_a_status_even_when_nobody_is_known(tmp_path: Path) -> None:
    async with listening(tmp_path) as (server, _):
        made = server.handle(Request("GET", MAPS, headers=Headers({"Authorization": "Bearer no"})))
        assert isinstance(made, Response)
        assert dict(made.headers)["WWW-Authenticate"].startswith("Bearer")
