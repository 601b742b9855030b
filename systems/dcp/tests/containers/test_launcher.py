"""The start of a Container: built images, layers, files, certificates and mounts."""

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from levelset import Ref
from levelset.errors import BadRequest
from levelset.testing import Cluster
from levelset_dcp.containers import ContainerHost, container_logs, containers_controller
from levelset_dcp.containers.file_archive import BadFile, members_of_files
from levelset_dcp.containers.image_layers import layered_name
from levelset_dcp.engines import InMemoryEngine, Mount
from levelset_dcp.kinds import (
    Build,
    Certificate,
    Container,
    ContainerCertificates,
    EnvVar,
    FileEntry,
    FileSet,
    ImageLayer,
    Label,
    Terminal,
    VolumeMount,
)
from levelset_dcp.workloads.certificates import NoCertificate, subject_hash
from systems.dcp.tests.support.certificates import HASH, PEM
from systems.dcp.tests.support.containers import container, fake_container_host, read_log, state_history, status

ONE = Ref(Container, "one")


@pytest.fixture
def engine() -> InMemoryEngine:
    return InMemoryEngine()


@pytest.fixture
def host(engine: InMemoryEngine) -> ContainerHost:
    return fake_container_host(engine)


async def test_an_image_is_built_first(cluster: Cluster, engine: InMemoryEngine, host: ContainerHost) -> None:
    engine.slow("build", 5.0)
    build = Build(context="/src", tags=("own:1", "own:2"), args=(EnvVar(name="V", value="1"),))
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(image="", build=build))
        await cluster.advance(6)
        assert (await status(cluster)).state == "Running"
        assert state_history(cluster, ONE) == ["Pending", "Building", "Starting", "Running"]
        (info,) = await engine.list_containers()
        assert info.image == "own:1"


async def test_a_build_that_fails_says_why(cluster: Cluster, engine: InMemoryEngine, host: ContainerHost) -> None:
    engine.fail_matching("build *", message="line 3: no such instruction")
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(image="", build=Build(context="/src", tags=("own:1",))))
        found = await status(cluster)
        assert (found.state, found.message) == ("FailedToStart", "line 3: no such instruction")


async def test_the_pull_policy_is_applied(cluster: Cluster, host: ContainerHost) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(pull_policy="never"))
        found = await status(cluster)
        assert found.state == "FailedToStart"
        assert "the pull policy is never" in found.message


async def test_a_terminal_needs_an_engine_that_has_some(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(terminal=Terminal()))
        found = await status(cluster)
        assert (found.state, found.message) == (
            "FailedToStart",
            "the engine memory has no terminals; leave spec.terminal out",
        )
        assert await engine.list_containers() == ()
        with pytest.raises(BadRequest, match="one runs on a terminal, which has no stderr"):
            await read_log(cluster, container_logs(host), ONE, source="stderr")
        assert b"has no terminals" in await read_log(cluster, container_logs(host), ONE, source="system")


async def test_mounts_labels_and_directories_are_created(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost, tmp_path: Path
) -> None:
    folder = tmp_path / "a" / "b"
    mounts = (
        VolumeMount(source=str(folder), target="/b", read_only=True),
        VolumeMount(source="data", target="/data", type="volume"),
    )
    async with cluster.running(containers_controller(host)):
        spec: dict[str, Any] = {"volume_mounts": mounts, "labels": (Label(key="team", value="x"),)}
        await cluster.create(container(command="/bin/x", restart_policy="always", **spec))
        await cluster.until(ONE, lambda one: one.status is not None and one.status.state == "Running")
        (info,) = await engine.list_containers()
        assert await asyncio.to_thread(folder.is_dir)
        assert info.mounts == (
            Mount(source=str(folder), target="/b", read_only=True),
            Mount(source="data", target="/data", type="volume"),
        )
        prefix = "com.microsoft.developer.usvc-dev."
        named = {key.removeprefix(prefix): value for key, value in info.labels.items()}
        assert (named["team"], named["name"], named["persistent"]) == ("x", "one", "false")
        assert (named["creatorProcessId"], named["creatorProcessStartTime"]) == ("4711", "99")
        assert info.command == ("/bin/x",)


async def test_files_have_their_owners_and_modes(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    await asyncio.to_thread(source.write_bytes, b"from here")
    inner = [{"name": "b", "contents": "deep", "mode": 0}, {"name": "set", "mode": 0o104755}]
    entries = (
        FileEntry(name="a", contents="hello"),
        FileEntry(name="raw", raw_contents=base64.b64encode(b"\0\1").decode(), mode=0o600, owner=7, group=8),
        FileEntry(name="sub", type="directory", owner=9, entries=tuple(inner)),
        FileEntry(name="copy", source=str(source)),
    )
    files = (FileSet(destination="/etc/app", entries=entries, default_owner=5, default_group=6, umask=0o027),)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(container_name="web", create_files=files))
        await cluster.until(ONE, lambda one: one.status is not None and one.status.state == "Running")
    found = engine.files("web")
    shown = {path: (one.mode, one.owner, one.group) for path, one in found.items()}
    assert shown == {
        "/etc/app/a": (0o640, 5, 6),
        "/etc/app/raw": (0o600, 7, 8),
        "/etc/app/sub": (0o750, 9, 6),
        "/etc/app/sub/b": (0o640, 9, 6),
        "/etc/app/sub/set": (0o4755, 9, 6),
        "/etc/app/copy": (0o640, 5, 6),
    }
    assert [found[f"/etc/app/{name}"].content for name in ("a", "raw", "copy")] == [b"hello", b"\0\1", b"from here"]
    verbs = [one.split()[0] for one in engine.calls]
    assert verbs.index("copy_in") < verbs.index("start_container")


@pytest.mark.parametrize("may_fail", [True, False])
@pytest.mark.parametrize(
    "entry",
    [
        {"source": "/nowhere/to/be/found"},
        {"raw_contents": "no base64!"},
        {"type": "openssl", "contents": "no certificate"},
        {"type": "directory", "entries": ({"name": "x", "type": "nonsense"},)},
        {"type": "directory", "entries": ({"name": "x", "type": "symlink", "target": "/"},)},
    ],
)
async def test_an_invalid_file_entry_fails_the_start_unless_it_may_fail(
    entry: dict[str, Any], may_fail: bool, cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    bad = FileEntry(name="bad", continue_on_error=may_fail, **entry)
    files = (FileSet(destination="/etc", entries=(bad,)),)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(container_name="web", create_files=files))
        found = await cluster.until(ONE, lambda one: one.status is not None and one.status.state not in (*WAITING,))
        assert found.status is not None
        assert found.status.state == ("Running" if may_fail else "FailedToStart")
        assert may_fail or "/etc/bad" in found.status.message


WAITING = ("", "Pending", "Starting")


@pytest.mark.parametrize("name", ["../etc/up", "..", ".", "a/b", "/etc/up", "a\0b"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_no_file_is_written_outside_its_destination(name: str, is_nested: bool) -> None:
    entry = FileEntry(name=name, contents="x")
    if is_nested:
        entry = FileEntry(name="sub", type="directory", entries=({"name": name, "contents": "x"},))
    with pytest.raises(BadFile, match="a name without a path is expected"):
        list(members_of_files([FileSet(destination="/var/data", entries=(entry,))]))


def test_files_without_a_destination_are_written_to_the_root() -> None:
    found = list(members_of_files([FileSet(entries=(FileEntry(name="a"),))]))
    assert [one.path for one in found] == ["/a"]


async def test_certificates_have_their_openssl_hash_links(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost
) -> None:
    good = Certificate(thumbprint="abc", contents=PEM)
    bad = Certificate(thumbprint="def", contents="nonsense")
    given = ContainerCertificates(
        certificates=(good, bad),
        destination="/certs",
        overwrite_bundle_paths=("/etc/ssl/all.pem",),
        continue_on_error=True,
    )
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(container_name="web", pem_certificates=given))
        assert (await status(cluster)).state == "Running"
    found = engine.files("web")
    assert found[f"/certs/certs/{HASH}.0"].target == "abc.pem"
    assert {found[path].content for path in ("/certs/certs/abc.pem", "/certs/cert.pem", "/etc/ssl/all.pem")} == {
        PEM.strip().encode() + b"\n"
    }
    assert "/certs/certs/def.pem" not in found


async def test_an_invalid_certificate_fails_the_start(cluster: Cluster, host: ContainerHost) -> None:
    given = ContainerCertificates(certificates=(Certificate(thumbprint="def", contents="nonsense"),))
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(pem_certificates=given))
        found = await status(cluster)
        assert found.state == "FailedToStart"
        assert "certificate def" in found.message


def test_the_subject_hash_is_that_of_openssl() -> None:
    assert subject_hash(PEM) == HASH


@pytest.mark.parametrize("text", ["", "nonsense", PEM.replace("MIIB", "MIIC"), PEM[: len(PEM) // 2]])
def test_an_invalid_certificate_has_no_hash(text: str) -> None:
    with pytest.raises(NoCertificate):
        subject_hash(text)


async def test_an_image_with_layers_is_built_once(
    cluster: Cluster, engine: InMemoryEngine, host: ContainerHost, tmp_path: Path
) -> None:
    source = tmp_path / "layer.tar"
    await asyncio.to_thread(source.write_bytes, b"a tar")
    layer = ImageLayer(digest="sha256:1", source=str(source), sha256=f"SHA256:{hashlib.sha256(b'a tar').hexdigest()}")
    async with cluster.running(containers_controller(host)):
        for name in ("one", "two"):
            await cluster.create(container(name, image="reg:5000/app/web:1", image_layers=(layer,)))
            await cluster.until(
                Ref(Container, name), lambda one: one.status is not None and one.status.state not in WAITING
            )
        images = {one.image for one in await engine.list_containers()}
        assert images == {layered_name("reg:5000/app/web:1", (layer,))}
        assert next(iter(images)).startswith("reg:5000/app/web:dcp-")
        assert sum(one.startswith("build") for one in engine.calls) == 1


async def test_a_layer_with_another_digest_is_rejected(cluster: Cluster, host: ContainerHost, tmp_path: Path) -> None:
    source = tmp_path / "layer.tar"
    await asyncio.to_thread(source.write_bytes, b"x")
    layer = ImageLayer(digest="sha256:1", source=str(source), sha256="0" * 64)
    async with cluster.running(containers_controller(host)):
        await cluster.create(container(image_layers=(layer,)))
        found = await cluster.until(ONE, lambda one: one.status is not None and one.status.state not in WAITING)
        assert found.status is not None
        assert found.status.state == "FailedToStart"
        assert "another SHA-256" in found.status.message
