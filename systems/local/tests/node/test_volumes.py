"""Volumes: their contents, and how they are written to disk and mounted."""

from pathlib import Path
from typing import Any

import pytest

from levelset import ObjectMeta
from levelset.kinds.core_v1 import ConfigMap, Secret
from levelset_local.node.claimed_volumes import ClaimedVolume
from levelset_local.node.config_sources import ConfigSources
from levelset_local.node.downward_api import PodInfo
from levelset_local.node.mounts import mount, path_below, rewrite_mount_path, set_up_volume, write_files
from levelset_local.node.volumes import BadVolume, Empty, File, Files, Host, volume_contents
from systems.local.tests.node.fake_node import container, pod

SOURCES = ConfigSources(
    {
        "settings": ConfigMap(
            metadata=ObjectMeta(name="settings"), data={"a": "1", "b": "2"}, binary_data={"c": b"\xff"}
        )
    },
    {"key": Secret(metadata=ObjectMeta(name="key"), data={"token": b"x"})},
    {("", 3607): "signed"},
    {"data": ClaimedVolume("/srv/data", "Directory"), "unbound": ClaimedVolume()},
)


def inside(**source: Any) -> Any:
    it = pod(
        "web", container(), metadata={"namespace": "shop", "labels": {"app": "web"}}, volumes=[{"name": "v", **source}]
    )
    return volume_contents(it.spec.volumes[0], PodInfo(it, "127.9.0.1"), SOURCES)


def files(**source: Any) -> dict[str, tuple[bytes, int]]:
    found = inside(**source)
    assert isinstance(found, Files)
    return {one.path: (one.data, one.mode) for one in found.files}


def test_a_config_map_volume_has_a_file_for_each_key_or_item() -> None:
    assert files(configMap={"name": "settings"}) == {"a": (b"1", 0o644), "b": (b"2", 0o644), "c": (b"\xff", 0o644)}
    items = [{"key": "a", "path": "deep/one", "mode": 0o400}]
    assert files(configMap={"name": "settings", "items": items, "defaultMode": 0o600}) == {"deep/one": (b"1", 0o400)}
    assert files(configMap={"name": "none", "optional": True}) == {}


def test_secret_files_are_private_unless_another_mode_is_set() -> None:
    assert files(secret={"secretName": "key", "defaultMode": 0o644}) == {"token": (b"x", 0o600)}
    assert files(secret={"secretName": "key", "defaultMode": 0o440}) == {"token": (b"x", 0o440)}


def test_the_later_source_of_a_projected_volume_wins() -> None:
    field = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "token"}]}},
        {"secret": {"name": "key"}},
        {"downwardAPI": {"items": [field]}},
    ]
    assert files(projected={"sources": sources}) == {"token": (b"x", 0o600), "labels": (b'app="web"', 0o644)}


def test_the_token_of_the_account_is_private() -> None:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    assert files(projected={"sources": [token], "defaultMode": 0o644}) == {"token": (b"signed", 0o600)}


def test_the_volume_of_a_claim_is_the_folder_that_it_is_bound_to() -> None:
    assert inside(persistentVolumeClaim={"claimName": "data"}) == Host("/srv/data", "Directory")


def test_empty_dir_and_host_path_volumes() -> None:
    assert inside(emptyDir={}) == Empty()
    assert inside(hostPath={"path": "/srv", "type": "Directory"}) == Host("/srv", "Directory")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        ({"configMap": {"name": "settings", "items": [{"key": "x", "path": "x"}]}}, "non-existent config key: x"),
        ({"secret": {"secretName": "key", "items": [{"key": "x", "path": "x"}]}}, "non-existent secret key: x"),
        ({"configMap": {"name": "settings", "items": [{"key": "a", "path": "../x"}]}}, "must be relative"),
        ({"persistentVolumeClaim": {"claimName": "none"}}, 'persistentvolumeclaim "none" not found'),
        ({"persistentVolumeClaim": {"claimName": "unbound"}}, "is not bound to a volume of this machine"),
        ({"nfs": {"server": "x", "path": "/"}}, "not supported here"),
        ({"projected": {"sources": [{"clusterTrustBundle": {"path": "t"}}]}}, "not supported here"),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "x"}}]}}, "has issued none"),
    ],
)
def test_an_invalid_volume_is_refused_with_the_reason(source: dict[str, Any], message: str) -> None:
    with pytest.raises(BadVolume, match=message) as caught:
        inside(**source)
    assert str(caught.value).startswith('MountVolume.SetUp failed for volume "v" : ')


def test_files_are_replaced_atomically_and_only_if_they_differ(tmp_path: Path) -> None:
    one = [File("a", b"1"), File("deep/b", b"2", 0o600)]
    assert write_files(tmp_path, one)
    assert not write_files(tmp_path, one)
    before = (tmp_path / "..data").readlink()
    assert write_files(tmp_path, [File("a", b"3"), File("c", b"4")])
    assert (tmp_path / "..data").readlink() != before
    assert not (tmp_path / before).exists()
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == ["a", "c"]
    assert (tmp_path / "a").read_bytes() == b"3"
    assert (tmp_path / "c").readlink() == Path("..data/c")


def test_a_failed_write_leaves_the_present_files(tmp_path: Path) -> None:
    write_files(tmp_path, [File("a", b"1")])
    with pytest.raises(BadVolume, match="cannot|exists|directory"):
        set_up_volume(tmp_path, Files((File("a", b"2"), File("a/b", b"3"))))
    assert (tmp_path / "a").read_bytes() == b"1"
    assert len(list(tmp_path.glob("..[0-9]*"))) == 1


def test_a_host_path_is_created_or_checked(tmp_path: Path) -> None:
    made = set_up_volume(tmp_path / "v", Host(str(tmp_path / "new"), "DirectoryOrCreate"))
    assert made.is_dir()
    with pytest.raises(BadVolume, match="hostPath type check failed"):
        set_up_volume(tmp_path / "v", Host(str(tmp_path / "none"), "Directory"))


def test_volumes_are_linked_below_the_root_and_sub_paths_are_copied(tmp_path: Path) -> None:
    volumes = {"config": tmp_path / "config", "data": tmp_path / "data"}
    write_files(volumes["config"], [File("a", b"1"), File("b", b"2")])
    volumes["data"].mkdir()
    mounts = [
        {"name": "config", "mountPath": "/etc/app"},
        {"name": "config", "mountPath": "/etc/one", "subPath": "a"},
        {"name": "data", "mountPath": "/var/data", "subPathExpr": "$(NAME)/x"},
    ]
    it = pod("web", container(volumeMounts=mounts)).spec.containers[0]
    for _ in range(2):
        mount(it, volumes, tmp_path / "root", {"NAME": "web"}, tmp_path)
    write_files(volumes["config"], [File("a", b"3")])
    assert (tmp_path / "root/etc/app/a").read_bytes() == b"3"
    assert (tmp_path / "root/etc/one").read_bytes() == b"1"
    (tmp_path / "root/var/data/file").write_text("here")
    assert (volumes["data"] / "web/x/file").read_text() == "here"


def test_invalid_mounts_are_refused(tmp_path: Path) -> None:
    no_volume = pod("web", container(volumeMounts=[{"name": "x", "mountPath": "/x"}])).spec.containers[0]
    with pytest.raises(BadVolume, match="there is no such volume"):
        mount(no_volume, {}, tmp_path, {}, tmp_path)
    outside = pod("web", container(volumeMounts=[{"name": "x", "mountPath": "/x", "subPath": "../y"}])).spec.containers[
        0
    ]
    with pytest.raises(BadVolume, match="must be relative"):
        mount(outside, {"x": tmp_path}, tmp_path / "root", {}, tmp_path)
    everything = pod("web", container(volumeMounts=[{"name": "x", "mountPath": "/a/.."}])).spec.containers[0]
    with pytest.raises(BadVolume, match="name a folder below it"):
        mount(everything, {"x": tmp_path}, tmp_path / "root", {}, tmp_path)


def test_a_mount_inside_of_a_volume_survives_an_update_of_that_volume(tmp_path: Path) -> None:
    volumes = {"config": tmp_path / "config", "data": tmp_path / "data"}
    write_files(volumes["config"], [File("a", b"1")])
    volumes["data"].mkdir()
    mounts = [
        {"name": "config", "mountPath": "/etc/app"},
        {"name": "data", "mountPath": "/etc/app/data"},
        {"name": "config", "mountPath": "/etc/app/data/one", "subPath": "a"},
    ]
    it = pod("web", container(volumeMounts=mounts)).spec.containers[0]
    for _ in range(2):
        mount(it, volumes, tmp_path / "root", {}, tmp_path)
        write_files(volumes["config"], [File("b", b"2"), File("a", b"1")])
    assert (tmp_path / "root/etc/app/b").read_bytes() == b"2"
    assert (tmp_path / "root/etc/app/data/one").read_bytes() == b"1"


def test_a_mount_inside_of_a_host_path_is_refused(tmp_path: Path) -> None:
    machine, own = tmp_path / "machine", tmp_path / "own"
    (machine / "photos").mkdir(parents=True)
    (machine / "photos" / "one").write_text("dear")
    (own / "config").mkdir(parents=True)
    mounts = [{"name": "machine", "mountPath": "/a"}, {"name": "config", "mountPath": "/a/photos"}]
    it = pod("web", container(volumeMounts=mounts)).spec.containers[0]
    with pytest.raises(BadVolume, match="outside of the hostPath"):
        mount(it, {"machine": machine, "config": own / "config"}, own / "root", {}, own)
    assert (machine / "photos" / "one").read_text() == "dear"
    mount(it, {"machine": machine, "config": machine / "photos"}, own / "root", {}, own)
    assert (own / "root/a/photos/one").read_text() == "dear"


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("/etc/app", "/base/etc/app"),
        ("/etc/app/x", "/base/etc/app/x"),
        ("/etc/application", "/etc/application"),
        ("--config=/etc/app/x", "--config=/base/etc/app/x"),
        ("A=/etc/app", "A=/etc/app"),
        ("/etc/app/deep/x", "/base/etc/app/deep/x"),
        ("no /etc/app", "no /etc/app"),
    ],
)
def test_texts_that_begin_with_a_mount_path_are_rewritten(text: str, moved: str) -> None:
    assert rewrite_mount_path(text, ["/etc/app/", "/etc/app/deep", "/"], "/base") == moved


def test_no_path_leads_out_of_the_root() -> None:
    assert path_below("/base", "/a/../../b") == "/base/b"
