"""The validating webhooks: invalid objects are rejected with the field and the next step, by a real server."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from levelset import Client, MergePatch, Object, Ref, open_local
from levelset.errors import ApiError, Invalid
from levelset.objects import definition_of
from levelset.runtime.manager import System
from levelset_dcp import kinds
from levelset_dcp.admission import ShutdownGate, webhooks

API = "usvc-dev.developer.microsoft.com/v1"
ALL = [
    one
    for name in kinds.__all__
    if isinstance(one := getattr(kinds, name), type) and issubclass(one, Object) and one is not Object
]


def system(shutdown_gate: ShutdownGate | None = None) -> System:
    return System(name="dcp", kinds=ALL, webhooks=webhooks(shutdown_gate or ShutdownGate()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncGenerator[Client, None]:
    """A client of one server for all tests whose objects are refused."""
    async with open_local(system()) as local:
        yield local.client


shared = pytest.mark.asyncio(loop_scope="module")


def manifest(kind: str, spec: dict[str, Any], name: str = "one", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


SHORT = {
    "executables": "exe",
    "executablereplicasets": "exers",
    "containers": "ctr",
    "containerexecs": "ctrexec",
    "containernetworks": "ctrnet",
    "containernetworkconnections": "ctrnetconn",
    "containernetworktunnelproxies": "cntp",
    "containervolumes": "ctrvol",
    "endpoints": "end",
    "services": "dcpsvc",  # upstream has svc, which here is that of the built-in Services: kubectl would warn
}


def test_every_kind_has_its_plural_and_short_name() -> None:
    found = {definition_of(one).plural: definition_of(one) for one in ALL}
    assert {plural: one.short_names[0] for plural, one in found.items()} == SHORT
    assert {one.scope for one in found.values()} == {"Cluster"}
    assert all(one.columns for one in found.values())


PROBE = {"name": "p", "type": "HTTP", "httpProbe": {"url": "http://a"}, "schedule": {"interval": "5s"}}
EXE = {"executablePath": "/bin/true"}
PEM = {"thumbprint": "abc", "contents": "x"}
LAYER = {"digest": "a", "source": "/layer.tar", "sha256": "0" * 64}


def probe(**schedule: str) -> dict[str, Any]:
    return {"healthProbes": [{**PROBE, "schedule": {"interval": "5s", **schedule}}]}


def runs(program: dict[str, Any]) -> dict[str, Any]:
    template = {"executableTemplate": {"spec": {**EXE, **program}}}
    return {
        "healthProbes": [
            {"name": "p", "type": "Executable", "schedule": {"interval": "5s"}, "executableProbe": template}
        ]
    }


def files(entry: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"image": "a", "createFiles": [{"destination": "/a", "entries": [{"name": "b", **entry}], **others}]}


def nested(entry: dict[str, Any]) -> dict[str, Any]:
    return files({"type": "directory", "entries": [{"name": "c", **entry}]})


def layers(layer: dict[str, Any]) -> dict[str, Any]:
    return {"image": "a", "imageLayers": [layer]}


def certificates(**others: Any) -> dict[str, Any]:
    return {"image": "a", "pemCertificates": {"certificates": [PEM], **others}}


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("Executable", {}, "spec.executablePath"),
        ("Executable", {"executablePath": ""}, "spec.executablePath"),
        ("Executable", {**EXE, "executionType": "Odd"}, "spec.executionType"),
        (
            "Executable",
            {**EXE, "fallbackExecutionTypes": ["Process"]},
            "must not have duplicates",
        ),
        (
            "Executable",
            {**EXE, "mode": "persistent", "executionType": "IDE"},
            "mode persistent requires the type",
        ),
        ("Executable", {**EXE, "mode": "cleanup", "terminal": {}}, "mode cleanup does not support a terminal"),
        ("Executable", {**EXE, "monitorPid": 3}, "spec.monitorTimestamp: is required with monitorPid"),
        ("Executable", {**EXE, "monitorPid": 0}, "spec.monitorPid"),
        ("Executable", {**EXE, "healthProbes": [PROBE, PROBE]}, "duplicate probe 'p'"),
        ("Executable", {**EXE, "healthProbes": [{**PROBE, "name": "_p"}]}, "spec.healthProbes[0].name"),
        ("Executable", {**EXE, "healthProbes": [{**PROBE, "type": "Executable"}]}, "an HTTP probe has httpProbe"),
        ("Executable", {**EXE, "healthProbes": [{**PROBE, "schedule": {"interval": "soon"}}]}, "schedule.interval"),
        ("Executable", {**EXE, "pemCertificates": {"certificates": []}}, "spec.pemCertificates.certificates"),
        ("Executable", {**EXE, "terminal": {"socketMode": "connect"}}, "connect needs udsPath"),
        ("ExecutableReplicaSet", {"template": {"spec": {**EXE, "stop": True}}}, "spec.template.spec.stop"),
        ("Container", {}, "spec.image: an image or spec.build is required"),
        ("Container", {"image": "a", "containerName": "-x"}, "spec.containerName"),
        ("Container", {"mode": "existing"}, "spec.containerName: is required by mode existing"),
        ("Container", {"image": "a b"}, "spec.image: must not contain white space"),
        ("Container", {"image": "a\nRUN id"}, "spec.image: must not contain white space"),
        ("Container", {"image": "a", "labels": [{"key": "k"}]}, "spec.labels[0].value"),
        ("Container", {"image": "a", "labels": [{"key": "k", "value": ""}]}, "spec.labels[0].value"),
        (
            "Container",
            {"build": {"context": ".", "labels": [{"key": "k", "value": ""}]}},
            "spec.build.labels[0].value",
        ),
        (
            "Container",
            {"image": "a", "containerName": "lasting", "persistent": True, "terminal": {}},
            "spec.terminal: mode persistent does not support a terminal",
        ),
        ("Container", {"image": "a", "terminal": {"socketMode": "connect"}}, "connect needs udsPath"),
        ("Container", {"image": "a", **probe(interval="0s")}, "spec.healthProbes[0].schedule.interval: must be longer"),
        ("Container", {"image": "a", "healthProbes": [PROBE, PROBE]}, "duplicate probe 'p'"),
        ("Executable", {**EXE, **probe(interval="0s")}, "spec.healthProbes[0].schedule.interval: must be longer"),
        ("Executable", {**EXE, **probe(timeout="0ms")}, "spec.healthProbes[0].schedule.timeout: must be longer"),
        (
            "ExecutableReplicaSet",
            {"template": {"spec": {**EXE, **probe(interval="0s")}}},
            "spec.template.spec.healthProbes[0].schedule.interval",
        ),
        (
            "Executable",
            {**EXE, **runs({"executablePath": ""})},
            "executableTemplate.spec.executablePath",
        ),
        ("Executable", {**EXE, **runs({"stop": True})}, "executableTemplate.spec.stop: is not supported"),
        ("Executable", {**EXE, **runs({"envFiles": ["a"]})}, "executableTemplate.spec.envFiles: is not supported"),
        ("Executable", {**EXE, **runs({"healthProbes": [PROBE]})}, "executableTemplate.spec.healthProbes"),
        ("Executable", {**EXE, **runs({"terminal": {}})}, "executableTemplate.spec.terminal: is not supported"),
        ("Container", files({"name": "../etc/up"}), "spec.createFiles[0].entries[0].name: a name without a path"),
        ("Container", files({"name": ".."}), "spec.createFiles[0].entries[0].name: a name without a path"),
        ("Container", files({"type": "symlink", "target": "/"}), "spec.createFiles[0].entries[0].type"),
        ("Container", files({"owner": -1}), "spec.createFiles[0].entries[0].owner"),
        ("Container", files({"group": -1}), "spec.createFiles[0].entries[0].group"),
        ("Container", files({"mode": 1 << 31}), "spec.createFiles[0].entries[0].mode: must have no type bits"),
        ("Container", files({"source": "/x", "contents": "y"}), "entries[0].contents: only one of"),
        ("Container", files({"contents": "x", "rawContents": "eA=="}), "entries[0].rawContents: only one of"),
        ("Container", files({"entries": [{"name": "c"}]}), "entries[0].entries: only a directory"),
        ("Container", files({"type": "directory", "source": "/x"}), "entries[0].source: a directory has no"),
        ("Container", files({}, destination="a"), "spec.createFiles[0].destination: an absolute path"),
        ("Container", files({}, umask=1 << 31), "spec.createFiles[0].umask: must have no type bits"),
        ("Container", files({}, defaultOwner=-1), "spec.createFiles[0].defaultOwner"),
        ("Container", files({}, defaultGroup=-1), "spec.createFiles[0].defaultGroup"),
        ("Container", files({}, entries=[]), "spec.createFiles[0].entries"),
        ("Container", nested({"name": "../up"}), "spec.createFiles[0].entries[0].entries[0].name: a name without"),
        ("Container", nested({"owner": -1}), "spec.createFiles[0].entries[0].entries[0]"),
        ("Container", nested({"type": "odd"}), "spec.createFiles[0].entries[0].entries[0]"),
        ("Container", nested({"contents": 3}), "spec.createFiles[0].entries[0].entries[0]"),
        ("Container", layers({"digest": "a"}), "spec.imageLayers[0]: source or rawContents is required"),
        ("Container", layers({**LAYER, "rawContents": "eA=="}), "spec.imageLayers[0].rawContents: only one of"),
        ("Container", layers({**LAYER, "sha256": ""}), "spec.imageLayers[0].sha256: is required with source"),
        ("Container", layers({**LAYER, "sha256": "00"}), "spec.imageLayers[0].sha256: 64 hexadecimal digits"),
        (
            "Container",
            layers({"digest": "a", "rawContents": "eA==", "sha256": "0" * 64}),
            "spec.imageLayers[0].sha256: is only for source",
        ),
        ("Container", layers({"digest": "a", "rawContents": "no!"}), "spec.imageLayers[0].rawContents: base64"),
        ("Container", certificates(destination="certs"), "spec.pemCertificates.destination: an absolute path"),
        (
            "Container",
            certificates(overwriteBundlePaths=["/a", "b"]),
            "spec.pemCertificates.overwriteBundlePaths[1]: an absolute path",
        ),
        ("ContainerVolume", {}, "spec.name"),
        ("ContainerVolume", {"name": " "}, "spec.name"),
        ("ContainerExec", {"containerName": "a", "command": ""}, "spec.command"),
        ("ContainerExec", {"containerName": "", "command": "a"}, "spec.containerName"),
        ("Service", {"port": 70000}, "spec.port"),
        ("Endpoint", {"serviceName": "a", "address": "b", "port": 0}, "spec.port"),
    ],
)
@shared
async def test_an_invalid_spec_is_rejected_with_its_field(
    kind: str, spec: dict[str, Any], message: str, client: Client
) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(manifest(kind, spec))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("[", "invalid JSON"),
        ("{}", "a list is expected"),
        ('["a"]', "[0]: an object is expected"),
        ("[{}]", "[0].serviceName: the name of a Service is expected"),
        ('[{"serviceName": "a", "port": "b"}]', "[0].port: a number from 1 to 65535 is expected"),
        ('[{"serviceName": "a", "address": 1}]', "[0].address: a text is expected"),
    ],
)
@shared
async def test_an_invalid_service_producer_annotation_is_rejected(
    annotation: str, message: str, client: Client
) -> None:
    with pytest.raises(Invalid, match="annotation service-producer") as refused:
        await client.create(manifest("Executable", EXE, annotations={"service-producer": annotation}))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {"start": False}, "spec.start: cannot be unset"),
        ({"stop": True}, {"stop": False}, "spec.stop: cannot be unset"),
        ({}, {"mode": "persistent"}, "spec.mode: is immutable"),
        ({}, {"healthProbes": [PROBE]}, "spec.healthProbes: is immutable"),
        ({}, {"ambientEnvironment": {"behavior": "DoNotInherit"}}, "spec.ambientEnvironment: is immutable"),
    ],
)
async def test_immutable_fields_cannot_be_changed(first: dict[str, Any], second: dict[str, Any], message: str) -> None:
    async with open_local(system()) as local:
        await local.client.create(manifest("Executable", {**EXE, **first}))
        with pytest.raises(Invalid) as refused:
            await change(local.client, second)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [
        {"containerName": "b"},
        {"command": "b"},
        {"args": ["b"]},
        {"env": [{"name": "b"}]},
        {"envFiles": ["b"]},
        {"workingDirectory": "b"},
    ],
    ids=lambda one: next(iter(one)),
)
@shared
async def test_a_command_cannot_be_changed(change: dict[str, Any], client: Client) -> None:
    name = next(iter(change)).lower()
    await client.create(manifest("ContainerExec", {"containerName": "a", "command": "a"}, name))
    with pytest.raises(Invalid, match=f"spec.{next(iter(change))}: is immutable"):
        await client.patch(Ref(kinds.ContainerExec, name), MergePatch({"spec": change}))


async def test_the_arguments_of_a_command_may_be_long() -> None:
    spec = {"containerName": "a", "command": "sh", "args": ["-c", "x" * 100_000], "env": [{"name": "A", "value": ""}]}
    async with open_local(system()) as local:
        await local.client.create(manifest("ContainerExec", spec))


TUNNEL = {"name": "t", "serverServiceName": "a", "clientServiceName": "b"}
TUNNEL_PROXY = {"containerNetworkName": "net", "aliases": ["a", "b"], "tunnels": [TUNNEL]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containerNetworkName": "other"}, "spec.containerNetworkName: is immutable"),
        ({"baseImage": "other"}, "spec.baseImage: is immutable"),
        ({"aliases": ["a"]}, "spec.aliases: is immutable"),
        ({"tunnels": [{**TUNNEL, "serverServiceName": "c"}]}, "spec.tunnels[0]: is immutable"),
    ],
)
async def test_a_tunnel_proxy_cannot_be_redefined(spec: dict[str, Any], message: str) -> None:
    async with open_local(system()) as local:
        await local.client.create(manifest("ContainerNetworkTunnelProxy", TUNNEL_PROXY))
        with pytest.raises(Invalid) as refused:
            await local.client.patch(Ref(kinds.ContainerNetworkTunnelProxy, "one"), MergePatch({"spec": spec}))
    assert message in str(refused.value)


async def test_tunnels_can_be_added_and_removed_and_aliases_reordered() -> None:
    one = Ref(kinds.ContainerNetworkTunnelProxy, "one")
    async with open_local(system()) as local:
        await local.client.create(manifest("ContainerNetworkTunnelProxy", TUNNEL_PROXY))
        both = [{**TUNNEL, "name": "u"}, TUNNEL]
        await local.client.patch(one, MergePatch({"spec": {"tunnels": both, "aliases": ["b", "a"]}}))
        await local.client.patch(one, MergePatch({"spec": {"tunnels": both[:1]}}))


async def test_a_valid_container_is_accepted() -> None:
    spec = {
        **files({"mode": 0o100644, "rawContents": "eA=="}),
        **layers({**LAYER, "sha256": "SHA256:" + "aB" * 32}),
        **certificates(destination="/certs", overwriteBundlePaths=["/etc/ssl/all.pem"]),
        **probe(interval="1m30s", timeout="500ms", initialDelay="0s"),
        "labels": [{"key": "a", "value": "b"}],
    }
    async with open_local(system()) as local:
        await local.client.create(manifest("Container", spec))


async def change(client: Client, spec: dict[str, Any]) -> None:
    await client.patch(Ref(kinds.Executable, "one"), MergePatch({"spec": spec}))


async def test_mutable_fields_can_be_changed() -> None:
    async with open_local(system()) as local:
        await local.client.create(manifest("Executable", {**EXE, "start": False}))
        await change(local.client, {"start": True, "args": ["a"]})
        await change(local.client, {"stop": True})
        made = await local.client.get(Ref(kinds.Executable, "one"))
    assert (made.spec.start, made.spec.stop, made.spec.args, made.spec.mode) == (True, True, ("a",), "session")


async def test_nothing_is_created_while_the_session_shuts_down() -> None:
    shutdown_gate = ShutdownGate()
    async with open_local(system(shutdown_gate)) as local:
        await local.client.create(manifest("Executable", EXE))
        shutdown_gate.is_closed = True
        with pytest.raises(ApiError, match="cannot create Executable: the session is shutting down"):
            await local.client.create(manifest("Executable", EXE, "two"))
        await change(local.client, {"stop": True})


async def test_annotations_have_a_maximum_size() -> None:
    async with open_local(system()) as local:
        with pytest.raises(Invalid):
            await local.client.create(manifest("Service", {}, annotations={"a": "x" * 262_144}))
