"""The register of machines: files of machines that were killed are found, those of others are left alone."""

import os
import subprocess
from pathlib import Path

import pytest

from levelset_machine.process.marker import MARKER
from levelset_machine.process.orphans import MachineFile, end_orphans
from systems.machine.tests.support import cat


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "machines"


def end(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    child.communicate()


def test_processes_of_a_machine_that_lives_are_not_ended(folder: Path) -> None:
    child = cat(**{MARKER: "abc.1"})
    file = MachineFile("abc", folder)
    file.open()
    try:
        assert (end_orphans(folder), child.poll()) == (0, None)
        assert [one.name for one in folder.iterdir()] == ["abc"]
    finally:
        file.close()
        end(child)
    assert [*folder.iterdir()] == []


def test_processes_of_a_killed_machine_are_ended_and_counted(folder: Path) -> None:
    child, other = cat(**{MARKER: "abc.1"}), cat(**{MARKER: "abcd.1"})
    folder.mkdir(mode=0o700)
    (folder / "abc").touch()
    try:
        assert (end_orphans(folder), child.wait(timeout=120), other.poll()) == (1, -15, None)
        assert [*folder.iterdir()] == []
    finally:
        end(child)
        end(other)


def test_a_folder_that_others_can_write_to_is_not_used(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "abc").touch()
    assert end_orphans(folder) == 0
    file = MachineFile("def", folder)
    file.open()
    file.close()
    assert ([one.name for one in folder.iterdir()], "not registered" in caplog.text) == (["abc"], True)


def test_a_folder_that_is_a_link_is_not_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "other" / "abc").touch()
    folder.symlink_to(tmp_path / "other")
    assert end_orphans(folder) == 0
    assert os.listdir(tmp_path / "other") == ["abc"]  # noqa: PTH208  (names)
