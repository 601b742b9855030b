import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset.apiserver import User
from levelset.http import Headers, Request, Response, Server, read_all
from tests.apiserver.support.in_process_server import InProcessServer, open_server

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"


async def _pieces() -> AsyncGenerator[bytes, None]:
    for one in (b"one ", b"two ", b"three"):
        yield one


def _backend(request: Request) -> Response:
    """Shows what it was sent; some paths answer in a way of their own."""
    if request.path == "/redirect":
        return Response(302, (("Location", "/elsewhere?x=1"), ("Access-Control-Allow-Origin", "*")))
    if request.path == "/abroad":
        return Response(302, (("Location", "https://example.com/elsewhere"),))
    if request.path == "/stream":
        return Response(200, (("Content-Type", "text/plain"),), _pieces())
    if request.path == "/missing":
        return Response(404, (("Content-Type", "text/plain"),), b"nothing here")
    seen = {"method": request.method, "path": request.path, "query": request.query, "body": request.body.decode()}
    return Response(
        200, (("Content-Type", "application/json"),), json.dumps(seen | {"headers": dict(request.headers)}).encode()
    )


@asynccontextmanager
async def open_pod(**options: Any) -> AsyncGenerator[tuple[InProcessServer, int]]:
    """A server with the Pod `web` at loopback, and the port that it serves."""
    backend = Server(_backend, host="127.0.0.1", port=0)
    await backend.start()
    port = int(backend.url.rpartition(":")[2])
    try:
        async with open_server(**options) as api:
            ports = [{"containerPort": port}]
            spec = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "ports": ports}]}
            await api.create(PODS, {"metadata": {"name": "web"}, "spec": spec})
            await _set_address(api, "web", "127.0.0.1")
            yield api, port
    finally:
        await backend.stop()


async def _set_address(api: InProcessServer, name: str, address: str) -> None:
    status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    kind = "application/merge-patch+json"
    code, tree = await api.request("PATCH", f"{PODS}/{name}/status", status, kind=kind)
    assert code == 200, tree


async def test_a_request_reaches_the_first_port_of_a_pod_without_credentials():
    async with open_pod() as (api, _):
        fields = {"cookie": "c", "x-own": "y", "host": "api", "authorization": f"Bearer {api.server.token}"}
        request = Request("POST", f"{PODS}/web/proxy/a%2Fb/c/", "d=e%20f", Headers(fields), b"text")
        made = api.server.handle(request)
        response = made if isinstance(made, Response) else await made
        found = json.loads(await read_all(response))
    assert [found[one] for one in ("method", "path", "query", "body")] == ["POST", "/a%2Fb/c/", "d=e%20f", "text"]
    assert (found["headers"]["x-own"], found["headers"]["host"]) == ("y", "api")
    assert found["headers"]["x-forwarded-uri"] == f"{PODS}/web/proxy/a%2Fb/c/"
    assert not {"authorization", "cookie"} & found["headers"].keys()


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "POST", "OPTIONS"])
async def test_every_method_is_forwarded(method: str):
    async with open_pod() as (api, port):
        code, found = await api.request(method, f"{PODS}/http:web:{port}/proxy/x")
    assert (code, found["method"], found["path"]) == (200, method, "/x")


async def test_a_response_is_streamed_with_its_status():
    async with open_pod() as (api, _):
        response = await api.send("GET", f"{PODS}/web/proxy/stream")
        assert (response.status, await read_all(response)) == (200, b"one two three")
        response = await api.send("GET", f"{PODS}/web/proxy/missing")
        assert (response.status, await read_all(response)) == (404, b"nothing here")
        response = await api.send("HEAD", f"{PODS}/web/proxy/x")
        assert (response.status, await read_all(response)) == (200, b"")


async def test_the_root_is_redirected_to_its_path_with_a_slash():
    async with open_pod() as (api, _):
        response = await api.send("GET", f"{PODS}/web/proxy", a="b")
        assert (response.status, dict(response.headers)["Location"]) == (301, f"{PODS}/web/proxy/?a=b")
        assert (await api.request("GET", f"{PODS}/web/proxy/"))[1]["path"] == "/"
        assert (await api.request("POST", f"{PODS}/web/proxy"))[1]["path"] == "/"


async def test_a_redirect_leads_through_the_proxy_again_unless_it_is_of_another_host():
    async with open_pod() as (api, _):
        response = await api.send("GET", f"{PODS}/web/proxy/redirect")
        headers = {name.lower(): value for name, value in response.headers}
        assert (response.status, headers["location"]) == (302, f"{PODS}/web/proxy/elsewhere?x=1")
        assert "access-control-allow-origin" not in headers
        response = await api.send("GET", f"{PODS}/web/proxy/abroad")
        assert {name.lower(): value for name, value in response.headers}["location"] == "https://example.com/elsewhere"


async def test_a_service_is_reached_at_a_pod_of_its_namespace_only():
    async with open_pod() as (api, port):
        await api.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": [{"name": "http", "port": 80}]}})
        code, status = await api.request("GET", f"{SERVICES}/web:80/proxy/x")
        assert (code, status["message"]) == (503, 'no endpoints available for service "web:80"')
        await _create_slice(api, port, {"kind": "Pod", "namespace": "default", "name": "other"})
        assert (await api.request("GET", f"{SERVICES}/web:80/proxy/x"))[0] == 503
        await api.request("DELETE", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web")
        await _create_slice(api, port, {"kind": "Pod", "namespace": "default", "name": "web"})
        for name in ("web:80", "web:http", "http:web:http"):
            code, found = await api.request("GET", f"{SERVICES}/{name}/proxy/x")
            assert (code, found["path"]) == (200, "/x")
        code, status = await api.request("GET", f"{SERVICES}/web:81/proxy/x")
        assert (code, status["message"]) == (503, 'no service port 81 found for service "web"')


async def _create_slice(api: InProcessServer, port: int, target: Any) -> None:
    tree = {
        "metadata": {"name": "web", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": port}],
        "endpoints": [{"addresses": ["127.0.0.1"], "targetRef": target}],
    }
    await api.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", tree)


async def test_a_node_is_reached_at_its_preferred_address():
    async with open_pod() as (api, port):
        await api.create("/api/v1/nodes", {"metadata": {"name": "n"}})
        assert (await api.request("GET", f"/api/v1/nodes/n:{port}/proxy/x"))[0] == 500
        addresses = [{"type": "ExternalIP", "address": "203.0.113.1"}, {"type": "InternalIP", "address": "127.0.0.1"}]
        status = {"status": {"addresses": addresses}}
        await api.request("PATCH", "/api/v1/nodes/n/status", status, kind="application/merge-patch+json")
        assert (await api.request("GET", f"/api/v1/nodes/n:{port}/proxy/x"))[1]["path"] == "/x"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("none", 404, 'pods "none" not found'),
        ("a:b:c", 400, 'invalid pod request "a:b:c"'),
        ("http:web:80:1", 400, 'invalid pod request "http:web:80:1"'),
        ("http::80", 400, 'invalid pod request "http::80"'),
        ("bare", 400, "address not allowed"),
        ("near", 400, "address not allowed"),
        ("web:1", 503, "error trying to reach service: dial tcp 127.0.0.1:1: connect: "),
    ],
)
async def test_what_cannot_be_reached_is_refused_with_the_reason(name: str, code: int, message: str):
    async with open_pod() as (api, _):
        for other in ("bare", "near"):
            await api.create(PODS, {"metadata": {"name": other}, "spec": {"containers": [{"name": "a", "image": "i"}]}})
        await _set_address(api, "near", "169.254.169.254")
        found, status = await api.request("GET", f"{PODS}/{name}/proxy/x")
        assert (found, status["message"][: len(message)]) == (code, message)


async def test_a_path_behind_the_proxy_is_never_taken_for_anotheropen_pod():
    async with open_pod() as (api, _):
        for rest in ("web/proxy", "other/proxy", "other/status", "other"):
            code, found = await api.request("GET", f"{PODS}/web/proxy/{rest}")
            assert (code, found["path"]) == (200, f"/{rest}")
        code, status = await api.request("GET", f"{PODS}/other/proxy/web/proxy")
        assert (code, status["message"]) == (404, 'pods "other" not found')


async def test_a_user_needs_permission_for_the_subresource_of_thatopen_pod():
    users = {"of-a-reader": User("reader", ())}
    async with open_pod(rbac=True, tokens=users) as (api, _):
        rule = {"apiGroups": [""], "resources": ["pods/proxy"], "resourceNames": ["web"], "verbs": ["get"]}
        roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        await api.create(f"{roles}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
        binding: dict[str, Any] = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}}
        binding["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}]
        await api.create(f"{roles}/rolebindings", {"metadata": {"name": "r"}, **binding})
        for method, name, expected in (("GET", "web", 200), ("POST", "web", 403), ("GET", "web:80", 403)):
            headers = Headers({"authorization": "Bearer of-a-reader"})
            made = api.server.handle(Request(method, f"{PODS}/{name}/proxy/x", "", headers))
            response = made if isinstance(made, Response) else await made
            assert response.status == expected
            await read_all(response)
