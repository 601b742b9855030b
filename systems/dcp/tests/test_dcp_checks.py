"""What may be written: refused with the field and a next step, by a real server."""

from typing import Any

import pytest

from levelset import Client, MergePatch, Object, Ref, open_local
from levelset.errors import ApiError, Invalid
from levelset.objects import definition_of
from levelset.runtime.manager import System
from levelset_dcp import kinds
from levelset_dcp.checks import Prohibition, hooks

API = "usvc-dev.developer.microsoft.com/v1"
ALL = [
    one
    for name in kinds.__all__
    if isinstance(one := getattr(kinds, name), type) and issubclass(one, Object) and one is not Object
]


def system(prohibition: Prohibition | None = None) -> System:
    return System(name="dcp", kinds=ALL, webhooks=hooks(prohibition or Prohibition()))


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
    "services": "svc",
}


def test_every_kind_has_the_names_that_people_know() -> None:
    found = {definition_of(one).plural: definition_of(one) for one in ALL}
    assert {plural: one.short_names[0] for plural, one in found.items()} == SHORT
    assert {one.scope for one in found.values()} == {"Cluster"}
    assert all(one.columns for one in found.values())


PROBE = {"name": "p", "type": "HTTP", "httpProbe": {"url": "http://a"}, "schedule": {"interval": "5s"}}
EXE = {"executablePath": "/bin/true"}


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        ("Executable", {}, "spec.executablePath"),
        ("Executable", {"executablePath": ""}, "spec.executablePath"),
        ("Executable", {**EXE, "executionType": "Odd"}, "spec.executionType"),
        (
            "Executable",
            {**EXE, "fallbackExecutionTypes": ["Process"]},
            "each type is tried once",
        ),
        (
            "Executable",
            {**EXE, "mode": "persistent", "executionType": "IDE"},
            "mode persistent is for type",
        ),
        ("Executable", {**EXE, "mode": "cleanup", "terminal": {}}, "mode cleanup has no terminal"),
        ("Executable", {**EXE, "monitorPid": 3}, "spec.monitorTimestamp: is needed beside monitorPid"),
        ("Executable", {**EXE, "monitorPid": 0}, "spec.monitorPid"),
        ("Executable", {**EXE, "healthProbes": [PROBE, PROBE]}, "there are several probes 'p'"),
        ("Executable", {**EXE, "healthProbes": [{**PROBE, "name": "_p"}]}, "spec.healthProbes[0].name"),
        ("Executable", {**EXE, "healthProbes": [{**PROBE, "type": "Executable"}]}, "an HTTP probe has httpProbe"),
        ("Executable", {**EXE, "healthProbes": [{**PROBE, "schedule": {"interval": "soon"}}]}, "schedule.interval"),
        ("Executable", {**EXE, "pemCertificates": {"certificates": []}}, "spec.pemCertificates.certificates"),
        ("Executable", {**EXE, "terminal": {"socketMode": "connect"}}, "connect needs udsPath"),
        ("ExecutableReplicaSet", {"template": {"spec": {**EXE, "stop": True}}}, "spec.template.spec.stop"),
        ("Container", {}, "spec.image: an image is needed"),
        ("Container", {"image": "a", "containerName": "-x"}, "spec.containerName"),
        ("Container", {"mode": "existing"}, "spec.containerName: mode existing finds a container by its name"),
        ("ContainerVolume", {}, "spec.name"),
        ("Service", {"port": 70000}, "spec.port"),
        ("Endpoint", {"serviceName": "a", "address": "b", "port": 0}, "spec.port"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_field(kind: str, spec: dict[str, Any], said: str) -> None:
    async with open_local(system()) as local:
        with pytest.raises(Invalid) as refused:
            await local.client.create(manifest(kind, spec))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        ("[", "it is no JSON"),
        ("{}", "a list is expected"),
        ('["a"]', "[0]: an object is expected"),
        ("[{}]", "[0].serviceName: the name of a Service is expected"),
        ('[{"serviceName": "a", "port": "b"}]', "[0].port: a number from 1 to 65535 is expected"),
        ('[{"serviceName": "a", "address": 1}]', "[0].address: a text is expected"),
    ],
)
async def test_services_that_are_produced_are_named_in_the_right_form(annotation: str, said: str) -> None:
    async with open_local(system()) as local:
        with pytest.raises(Invalid, match="annotation service-producer") as refused:
            await local.client.create(manifest("Executable", EXE, annotations={"service-producer": annotation}))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({}, {"start": False}, "spec.start: it may not be taken back"),
        ({"stop": True}, {"stop": False}, "spec.stop: it may not be unset"),
        ({}, {"mode": "persistent"}, "spec.mode: it cannot be changed"),
        ({}, {"healthProbes": [PROBE]}, "spec.healthProbes: it cannot be changed"),
        ({}, {"ambientEnvironment": {"behavior": "DoNotInherit"}}, "spec.ambientEnvironment: it cannot be changed"),
    ],
)
async def test_what_was_decided_stays(first: dict[str, Any], second: dict[str, Any], said: str) -> None:
    async with open_local(system()) as local:
        await local.client.create(manifest("Executable", {**EXE, **first}))
        with pytest.raises(Invalid) as refused:
            await change(local.client, second)
    assert said in str(refused.value)


async def change(client: Client, spec: dict[str, Any]) -> None:
    await client.patch(Ref(kinds.Executable, "one"), MergePatch({"spec": spec}))


async def test_what_may_change_does() -> None:
    async with open_local(system()) as local:
        await local.client.create(manifest("Executable", {**EXE, "start": False}))
        await change(local.client, {"start": True, "args": ["a"]})
        await change(local.client, {"stop": True})
        made = await local.client.get(Ref(kinds.Executable, "one"))
    assert (made.spec.start, made.spec.stop, made.spec.args, made.spec.mode) == (True, True, ("a",), "session")


async def test_nothing_is_created_once_the_session_is_about_to_end() -> None:
    prohibition = Prohibition()
    async with open_local(system(prohibition)) as local:
        await local.client.create(manifest("Executable", EXE))
        prohibition.is_on = True
        with pytest.raises(ApiError, match="no Executable can be created any more: the session is about to end"):
            await local.client.create(manifest("Executable", EXE, "two"))
        await change(local.client, {"stop": True})


async def test_annotations_have_a_bound() -> None:
    async with open_local(system()) as local:
        with pytest.raises(Invalid):
            await local.client.create(manifest("Service", {}, annotations={"a": "x" * 262_144}))
