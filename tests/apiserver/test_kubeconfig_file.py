import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from levelset.apiserver.kubeconfig_file import (
    ConnectionInfo,
    check_kubeconfig,
    claim_kubeconfig,
    read_kubeconfig,
    release_kubeconfig,
    write_kubeconfig,
)
from levelset.errors import ConfigError

CONTACT = ConnectionInfo("https://127.0.0.1:6443", "it's a 'secret'", b"-----BEGIN CERTIFICATE-----\n")


def test_a_written_kubeconfig_can_be_read(tmp_path: Path) -> None:
    for contact in (CONTACT, ConnectionInfo("http://127.0.0.1:1", "t")):
        write_kubeconfig(tmp_path / "deep" / "k", contact)
        assert read_kubeconfig(tmp_path / "deep" / "k") == contact


def test_the_file_is_private(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "k", CONTACT)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600


def test_a_kubeconfig_of_levelset_is_replaced(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "k", ConnectionInfo("http://127.0.0.1:1", "old"))
    write_kubeconfig(tmp_path / "k", CONTACT)
    assert read_kubeconfig(tmp_path / "k") == CONTACT


@pytest.mark.parametrize(
    "content",
    [
        "clusters:\n- name: production\n",
        "clusters:\n- name: levelset\n- name: production\nusers:\n- name: levelset\ncontexts:\n- name: levelset\n",
        "hello",
        "- a list",
        "a: [",
        "\x00\xff",
    ],
)
def test_a_file_that_levelset_did_not_write_is_not_overwritten(tmp_path: Path, content: str) -> None:
    (tmp_path / "k").write_text(content)
    with pytest.raises(ConfigError, match="was not written by levelset"):
        write_kubeconfig(tmp_path / "k", CONTACT)
    assert (tmp_path / "k").read_text() == content


def test_an_empty_file_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "k").touch()
    write_kubeconfig(tmp_path / "k", CONTACT)
    assert read_kubeconfig(tmp_path / "k") == CONTACT


def test_a_path_that_cannot_be_written_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        write_kubeconfig(tmp_path / "file" / "k", CONTACT)


@pytest.mark.parametrize(
    "content", [None, "hello", "clusters:\n- name: levelset\nusers:\n- name: levelset\ncontexts:\n- name: levelset\n"]
)
def test_a_kubeconfig_that_levelset_did_not_write_is_rejected(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "k").write_text(content)
    with pytest.raises(ConfigError, match="levelset serve"):
        read_kubeconfig(tmp_path / "k")


def test_the_repr_of_a_connection_hides_its_token() -> None:
    assert "secret" not in repr(CONTACT)


def test_the_kubeconfig_of_a_running_server_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as server:
        write_kubeconfig(path, ConnectionInfo(f"https://127.0.0.1:{server.getsockname()[1]}", "secret"))
        with pytest.raises(ConfigError, match=r"belongs to a running server .*choose another file with --kubeconfig"):
            check_kubeconfig(path)
    check_kubeconfig(path)


def test_a_file_that_another_running_server_has_written_since_the_check_is_not_claimed(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    check_kubeconfig(path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        first = ConnectionInfo(f"https://127.0.0.1:{server.getsockname()[1]}", "first")
        claim_kubeconfig(path, first)
        with pytest.raises(ConfigError, match="belongs to a running server"):
            claim_kubeconfig(path, CONTACT)
        assert read_kubeconfig(path) == first
        claim_kubeconfig(path, ConnectionInfo(first.url, "again"))  # its own address, left by an earlier run
    claim_kubeconfig(path, CONTACT)
    assert read_kubeconfig(path) == CONTACT


@pytest.mark.parametrize("other", [ConnectionInfo("http://127.0.0.1:1", "t"), ConnectionInfo(CONTACT.url, "t")])
def test_only_its_own_file_is_released(tmp_path: Path, other: ConnectionInfo) -> None:
    path = tmp_path / "k"
    release_kubeconfig(path, CONTACT)
    write_kubeconfig(path, other)
    release_kubeconfig(path, CONTACT)
    assert read_kubeconfig(path) == other
    release_kubeconfig(path, other)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_claimed_while_another_server_releases_it_stays(tmp_path: Path) -> None:
    path, later = tmp_path / "k", ConnectionInfo("http://127.0.0.1:1", "later")
    with ThreadPoolExecutor(2) as threads:
        for _ in range(100):
            write_kubeconfig(path, CONTACT)
            both = threads.submit(release_kubeconfig, path, CONTACT), threads.submit(write_kubeconfig, path, later)
            for one in both:
                one.result()
            assert read_kubeconfig(path) == later
