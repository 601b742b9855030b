"""Admission of CONNECT: webhooks and policies decide about `exec`, `attach`, `portforward` and `proxy`."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.http import Headers, Request, Response, read_all
from tests.apiserver.support.admission_plugins import RecordingPlugin, adding, patching, rejecting
from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.apiserver.verbs.subresources.stream_client import open_socket
from tests.apiserver.verbs.subresources.test_object_proxy import open_pod
from tests.apiserver.verbs.subresources.test_streams import EXEC, PODS, V4, Ports, running

RUN = f"{PODS}/web/exec?command=a&stderr=true"


def connecting(
    response: Callable[[dict[str, Any]], dict[str, Any]] | None = None, *, mutates: bool = False, plural: str = "pods"
) -> RecordingPlugin:
    """A plugin for CONNECT alone."""
    return RecordingPlugin(response, mutates=mutates, plural=plural, operations=("CONNECT",))


async def get(server: ApiServer, path: str) -> Response:
    path, _, query = path.partition("?")
    made = server.handle(Request("GET", path, query, Headers({}), peer=ApiServer.owner))
    return made if isinstance(made, Response) else await made


async def test_a_plugin_gets_the_options_of_a_command_as_an_object() -> None:
    plugin = connecting(rejecting(message="not here", code=403))
    async with running(admission=[plugin]) as server:
        answer = await get(server, f"{EXEC}&container=a&tty=false")
    (request,) = plugin.requests
    assert request["object"] == {
        "kind": "PodExecOptions",
        "apiVersion": "v1",
        **dict.fromkeys(("stdin", "stdout", "stderr"), True),
        "container": "a",
        "command": ["a", "b"],
    }
    assert (request["operation"], request["subResource"], request["name"]) == ("CONNECT", "exec", "web")
    assert request["kind"] == {"group": "", "version": "v1", "kind": "PodExecOptions"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["oldObject"], request["options"], request["dryRun"]) == (None, None, False)
    assert (request["namespace"], plugin.namespaces[0]["metadata"]["name"]) == ("default", "default")
    assert answer.status == 403
    message = json.loads(await read_all(answer))["message"]
    assert message == 'admission webhook "plugin.example.com" denied the request: not here'


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("attach?stdout=1&tty=", {"kind": "PodAttachOptions", "stdout": True, "tty": True}),
        ("portforward?ports=80&ports=443,8080", {"kind": "PodPortForwardOptions", "ports": [80, 443, 8080]}),
        ("portforward", {"kind": "PodPortForwardOptions"}),
        ("exec", {"kind": "PodExecOptions", "command": None}),
        ("proxy/a/b%20c/?d=e", {"kind": "PodProxyOptions", "path": "/a/b%20c/"}),
        ("proxy", {"kind": "PodProxyOptions"}),
    ],
)
async def test_each_connection_has_options_of_its_own(path: str, options: dict[str, Any]) -> None:
    plugin = connecting(rejecting(message="no"))
    async with running(Ports(), admission=[plugin]) as server:
        await get(server, f"{PODS}/web/{path}")
    (request,) = plugin.requests
    assert request["object"] == {"apiVersion": "v1", **options}


async def test_services_and_nodes_have_options_too() -> None:
    plugins = [connecting(rejecting(message="no"), plural=one) for one in ("services", "nodes")]
    async with running(admission=plugins) as server:
        await get(server, "/api/v1/namespaces/default/services/web:80/proxy/x")
        await get(server, "/api/v1/nodes/here/proxy/x")
    assert [one.requests[0]["object"]["kind"] for one in plugins] == ["ServiceProxyOptions", "NodeProxyOptions"]
    assert [one.requests[0]["name"] for one in plugins] == ["web:80", "here"]


async def test_a_plugin_decides_before_the_object_is_looked_for() -> None:
    async with running(admission=[connecting(rejecting(message="no", code=403))]) as server:
        assert (await get(server, EXEC.replace("/web/", "/missing/"))).status == 403


async def test_what_a_plugin_allows_is_carried_out_with_its_warnings() -> None:
    plugin = connecting(lambda _: {"warnings": ["think twice"]})
    async with running(admission=[plugin]) as server, open_socket(server.url, RUN, V4) as client:
        assert client.head["warning"] == '299 - "think twice"'
        assert (await client.read_channels())[2] == b"a"


def warning(allowed: bool) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda request: {**({} if allowed else rejecting(message="no")(request)), "warnings": ["think twice"]}


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_error_has_the_warnings_of_plugins(allowed: bool) -> None:
    async with running(admission=[connecting(warning(allowed))]) as server:
        answer = await get(server, EXEC.replace("/web/", "/missing/"))
    assert (answer.status >= 400, dict(answer.headers)["Warning"]) == (True, '299 - "think twice"')


async def test_what_a_mutating_plugin_changes_is_what_runs() -> None:
    changing = connecting(patching({"op": "replace", "path": "/command", "value": ["x", "y=z"]}), mutates=True)
    seeing = connecting()
    async with running(admission=[changing, seeing]) as server, open_socket(server.url, RUN, V4) as client:
        assert (await client.read_channels())[2] == b"x y=z"
    assert seeing.requests[0]["object"]["command"] == ["x", "y=z"]


async def test_a_mutating_plugin_may_send_a_request_elsewhere_in_the_same_pod() -> None:
    plugin = connecting(adding("/path", "/other"), mutates=True)
    async with open_pod(admission=[plugin]) as (api, port):
        code, found = await api.request("GET", f"{PODS}/web:{port}/proxy/x")
    assert (code, found["path"]) == (200, "/other")


async def test_a_plugin_that_makes_other_options_of_them_is_refused() -> None:
    plugin = connecting(adding("/kind", "Pod"), mutates=True)
    async with running(admission=[plugin]) as server:
        answer = await get(server, EXEC)
    assert answer.status == 500
    assert "changed the kind of the options" in json.loads(await read_all(answer))["message"]


async def test_a_policy_decides_about_connections() -> None:
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/proxy"], "operations": ["CONNECT"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "!object.path.startsWith('/secret')", "message": "not this one"}],
    }
    bound = {"policyName": "paths.example.com", "validationActions": ["Deny"]}
    async with open_pod() as (api, port):
        await _create(api, f"{group}/validatingadmissionpolicies", "paths.example.com", spec)
        await _create(api, f"{group}/validatingadmissionpolicybindings", "paths", bound)
        code, found = await api.request("GET", f"{PODS}/web:{port}/proxy/secret/x")
        assert (code, found["reason"]) == (422, "Invalid")
        assert "not this one" in found["message"]
        assert (await api.request("GET", f"{PODS}/web:{port}/proxy/public"))[0] == 200


async def _create(api: InProcessServer, path: str, name: str, spec: Any) -> None:
    await api.create(path, {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize("part", ["exec?command=a&stdout=true", "attach?stdout=true", "portforward?ports=80"])
async def test_a_server_without_nodes_admits_connections_too(part: str) -> None:
    plugin = connecting(rejecting(message="not here", code=403))
    async with ApiServer(admission=[plugin]) as server:
        answer = await get(server, f"{PODS}/web/{part}")
    assert (answer.status, len(plugin.requests)) == (403, 1)


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "b"}], **spec}}


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("free/exec?command=a&stdout=true", 400, "pod free does not have a host assigned"),
        ("free/exec", 400, "pod free does not have a host assigned"),
        ("free/attach", 400, "pod free does not have a host assigned"),
        ("free/portforward", 400, "pod free does not have a host assigned"),
        ("free/exec?container=zz", 400, "container zz is not valid for pod free"),
        ("free/portforward?container=zz", 400, "pod free does not have a host assigned"),
        ("missing/exec", 404, 'pods "missing" not found'),
        ("bound/exec", 400, "no access to the node n: a Pod has no file system of its own: run it on this machine"),
        ("bound/attach", 400, "no access to the node n: kubectl logs -f shows what a container writes"),
        ("bound/portforward", 400, "connect to status.podIP of the Pod"),
    ],
)
async def test_a_pod_of_a_server_without_nodes_is_not_reached(path: str, code: int, message: str) -> None:
    path, _, query = path.partition("?")
    async with open_server() as api:
        for one in (pod("free"), pod("bound", nodeName="n")):
            await api.create(PODS, one)
        answers = [await api.send_query(method, f"{PODS}/{path}", query) for method in ("GET", "POST", "PUT")]
    assert [one.status for one in answers] == [code, code, 405]
    for answer in answers[:2]:
        assert message in json.loads(await read_all(answer))["message"]


async def test_discovery_has_the_connections_of_pods() -> None:
    async with open_server() as api:
        _, found = await api.request("GET", "/api/v1")
    rows = {one["name"]: (one["kind"], one["verbs"]) for one in found["resources"]}
    assert rows["pods/exec"] == ("PodExecOptions", ["create", "get"])
    assert rows["pods/attach"] == ("PodAttachOptions", ["create", "get"])
    assert rows["pods/portforward"] == ("PodPortForwardOptions", ["create", "get"])
