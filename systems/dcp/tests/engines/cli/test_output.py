"""The output of Docker and Podman is parsed to the same values; the samples are shortened real output."""

import json
from datetime import UTC, datetime
from random import Random

import pytest

from levelset_dcp.engines import Incomplete, Mount, PortBinding
from levelset_dcp.engines.cli import output
from levelset_dcp.engines.cli.engine import is_older, version_of
from levelset_dcp.engines.cli.output import parse_event

DOCKER = """{"Id":"4c01db0b339c","Created":"2025-06-01T10:00:00.123456789Z","Path":"docker-entrypoint.sh",
"Args":["redis-server"],"State":{"Status":"running","Running":true,"ExitCode":0,"Error":"",
"StartedAt":"2025-06-01T10:00:01.5Z","FinishedAt":"0001-01-01T00:00:00Z","Health":{"Status":"unhealthy",
"FailingStreak":3,"Log":[{"Start":"2025-06-01T10:00:30Z","End":"2025-06-01T10:00:31Z","ExitCode":1,
"Output":"it hurts"}]}},"Image":"sha256:abc","Name":"/cache","Mounts":[{"Type":"volume","Name":"data",
"Source":"/var/lib/docker/volumes/data/_data","Destination":"/data","Driver":"local","RW":true},
{"Type":"bind","Source":"/src","Destination":"/app","RW":false}],"Config":{"Env":["A=1=2","EMPTY="],
"Image":"redis:7","Labels":{"role":"db"}},"NetworkSettings":{"Ports":{"6379/tcp":[{"HostIp":"127.0.0.1",
"HostPort":"40001"}],"53/udp":null},"Networks":{"bridge":{"Aliases":null,"NetworkID":"5b7","Gateway":"172.17.0.1",
"IPAddress":"172.17.0.2"},"n1":{"Aliases":["db","cache"],"NetworkID":"9c1","Gateway":"","IPAddress":""}}}}"""

PODMAN = """[{"Id":"faa14e8b0c32","Created":"2026-11-16T06:58:29.927774405Z","Path":"sh","Args":["-c","exit 3"],
"State":{"OciVersion":"1.0.2-dev","Status":"exited","Running":false,"ExitCode":3,"Error":"",
"StartedAt":"2026-11-16T06:59:33.478145584Z","FinishedAt":"2026-11-16T06:59:33.4Z",
"Health":{"Status":"","FailingStreak":0,"Log":null}},"Image":"08e0e135976d","ImageName":"localhost/bb:1","Name":"x",
"Mounts":[],"NetworkSettings":{"Ports":{"80/tcp":[{"HostIp":"127.0.0.1","HostPort":"44979"}]},"Networks":{"podman":{
"NetworkID":"podman","Aliases":["faa14e8b0c32"],"IPAddress":"","Gateway":""}}},"Config":{"Env":["container=podman"],
"Image":"localhost/bb:1","Entrypoint":"","Labels":null}}]"""


def test_parse_a_container_of_docker() -> None:
    (tree,) = output.documents(DOCKER)
    found = output.parse_container(tree)
    assert (found.id, found.name, found.image, found.status) == ("4c01db0b339c", "cache", "redis:7", "running")
    assert found.started_at == datetime(2025, 6, 1, 10, 0, 1, 500000, tzinfo=UTC)
    assert (found.finished_at, found.exit_code) == (None, None)
    assert found.command == ("docker-entrypoint.sh", "redis-server")
    assert (found.env, found.labels) == ({"A": "1=2", "EMPTY": ""}, {"role": "db"})
    assert found.mounts == (
        Mount(type="volume", source="data", target="/data"),
        Mount(source="/src", target="/app", read_only=True),
    )
    assert found.ports == (PortBinding(container_port=6379, host_port=40001),)
    assert [(one.network, one.network_id, one.aliases) for one in found.networks] == [
        ("bridge", "5b7", ()),
        ("n1", "9c1", ("db", "cache")),
    ]
    assert found.health is not None
    assert (found.health.status, found.health.output) == ("unhealthy", "it hurts")


def test_parse_a_container_of_podman() -> None:
    (tree,) = output.documents(PODMAN)
    found = output.parse_container(tree)
    assert (found.id, found.name, found.image) == ("faa14e8b0c32", "x", "localhost/bb:1")
    assert (found.status, found.exit_code, found.is_over, found.health) == ("exited", 3, True, None)
    assert found.finished_at == found.started_at  # the reported time is before the start
    assert found.ports == ()  # it does not run
    assert found.networks[0].network_id == ""


@pytest.mark.parametrize(
    ("status_name", "status"),
    [
        ("configured", "created"),
        ("initialized", "created"),
        ("stopped", "exited"),
        ("paused", "paused"),
        ("", "unknown"),
    ],
)
def test_states_of_podman_map_to_those_of_docker(status_name: str, status: str) -> None:
    assert output.parse_container({"Id": "1", "State": {"Status": status_name}}).status == status


def test_parse_networks_of_both() -> None:
    docker = {
        "Name": "n1",
        "Id": "9c1",
        "Created": "2025-06-01T10:00:00+02:00",
        "Driver": "bridge",
        "EnableIPv6": True,
        "IPAM": {"Config": [{"Subnet": "172.18.0.0/16", "Gateway": "172.18.0.1"}, {"Subnet": "fd00::/64"}]},
        "Labels": {"a": "b"},
    }
    podman = {
        "name": "n1",
        "id": "70b",
        "driver": "bridge",
        "subnets": [{"subnet": "10.89.0.0/24", "gateway": "10.89.0.1"}],
        "ipv6_enabled": False,
        "labels": {"l": "1"},
    }
    one = output.parse_network(docker, {"n1": ("c1",), "n2": ("c2",)})
    two = output.parse_network(podman)
    assert (one.subnets, one.gateways, one.ipv6) == (("172.18.0.0/16", "fd00::/64"), ("172.18.0.1",), True)
    assert (one.container_ids, one.labels, one.created_at is not None) == (("c1",), {"a": "b"}, True)
    assert (two.id, two.subnets, two.ipv6, two.labels) == ("70b", ("10.89.0.0/24",), False, {"l": "1"})


def test_parse_the_members_of_networks() -> None:
    assert output.parse_members("c1 bridge,n1\nc2 n1\nc3 \n") == {"bridge": ("c1",), "n1": ("c1", "c2")}


def test_parse_images_and_volumes_of_both() -> None:
    docker = output.parse_image(
        {
            "Id": "sha256:a",
            "RepoTags": ["r:1"],
            "RepoDigests": ["r@sha256:d"],
            "Config": {"Entrypoint": ["e"], "Cmd": ["c"]},
        }
    )
    podman = output.parse_image({"Id": "a", "Digest": "sha256:d", "Config": {"Entrypoint": "e"}, "Labels": {"x": "y"}})
    assert (docker.id, docker.digest, docker.entrypoint) == (podman.id, podman.digest, podman.entrypoint)
    assert (docker.command, podman.labels) == (("c",), {"x": "y"})
    assert output.parse_volume({"Name": "v", "Driver": "local", "Labels": None}).labels == {}


@pytest.mark.parametrize("text", ["{", "[1", "nonsense", "[" * 100_000])
def test_invalid_json_is_incomplete(text: str) -> None:
    with pytest.raises(Incomplete, match="not JSON"):
        output.documents(text)


@pytest.mark.parametrize(
    "parse", [output.parse_container, output.parse_network, output.parse_image, output.parse_volume]
)
def test_an_object_without_an_id_is_incomplete(parse) -> None:
    with pytest.raises(Incomplete, match="without"):
        parse({})


LEAVES: tuple[object, ...] = (
    None,
    True,
    7,
    "x",
    [],
    {},
    ["x", 7, None],
    {"x": "y", "80/tcp": [{"HostPort": "x"}]},
    [{"Type": 1}],
    [[]],
)
KEYS = ("Id", "id", "Name", "name", "State", "Config", "NetworkSettings", "Mounts", "subnets", "IPAM", "Labels", "Args")


@pytest.mark.parametrize("number", range(5))
def test_any_json_is_parsed_or_incomplete(number: int) -> None:
    random = Random(number)
    for _ in range(100):
        check_odd_tree({key: random.choice(LEAVES) for key in KEYS if random.random() < 0.7})


def check_odd_tree(tree: dict[str, object]) -> None:
    for parse in (output.parse_container, output.parse_network, output.parse_image, output.parse_volume):
        try:
            parse(tree)
        except Incomplete:
            continue
    parse_event(json.dumps({**tree, "Type": "container", "Actor": tree}))
    parse_event(json.dumps({**tree, "Type": "network"}))


def test_parse_events_of_docker() -> None:
    die = parse_event(
        '{"status":"die","id":"4c0","Type":"container","Action":"die","Actor":{"ID":"4c0","Attributes":'
        '{"exitCode":"3","image":"r:1","name":"cache"}},"scope":"local","time":1,"timeNano":1700000000123456789}'
    )
    assert die is not None
    assert (die.kind, die.action, die.id, die.name, die.exit_code) == ("container", "die", "4c0", "cache", 3)
    assert die.at == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    health = parse_event('{"Type":"container","Action":"health_status: healthy","Actor":{"ID":"4c0","Attributes":{}}}')
    assert health is not None
    assert (health.action, health.attributes["health"]) == ("health_status", "healthy")
    net = parse_event(
        '{"Type":"network","Action":"connect","Actor":{"ID":"9c1","Attributes":{"container":"4c0","name":"n1"}}}'
    )
    assert net is not None
    assert (net.kind, net.action, net.id, net.name, net.container) == ("network", "connect", "9c1", "n1", "4c0")


def test_parse_events_of_podman() -> None:
    died = parse_event(
        '{"ContainerExitCode":3,"ID":"b00","Image":"i","Name":"x","Status":"died",'
        '"Time":"2026-11-16T06:59:35.507023687Z","Type":"container","Attributes":{"a":"b"}}'
    )
    assert died is not None
    assert (died.action, died.id, died.name, died.exit_code) == ("die", "b00", "x", 3)
    succeeded = parse_event('{"ID":"b00","Name":"x","Status":"died","Type":"container"}')
    assert succeeded is not None
    assert succeeded.exit_code == 0
    gone = parse_event('{"ID":"b00","Name":"x","Status":"remove","Type":"container"}')
    assert gone is not None
    assert (gone.action, gone.exit_code) == ("destroy", None)
    net = parse_event('{"ID":"2de","Name":"x","network":"n1","Status":"connect","Type":"network","Attributes":null}')
    assert net is not None
    assert (net.kind, net.id, net.name, net.container) == ("network", "", "n1", "2de")


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"null", b'{"Type":"image"}', b"\xff", b"[" * 100_000])
def test_other_events_are_ignored(line: bytes) -> None:
    assert parse_event(line) is None


def test_versions_are_parsed_and_compared() -> None:
    assert version_of("Docker version 28.2.2, build e6534b4") == "28.2.2"
    assert version_of("podman version 4.3.1\n") == "4.3.1"
    assert version_of("nothing") == ""
    assert is_older("24.0.9", (25, 0, 0))
    assert not is_older("25.0.0-rc.1", (25, 0, 0))
    assert not is_older("", (25,))
