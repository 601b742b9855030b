"""`levelset storage` on files that were damaged on purpose."""

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset
from levelset.storage import SqliteStorage
from levelset.storage.revision_mark import read_mark

pytestmark = pytest.mark.usefixtures("file_access")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.db"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(levelset, ["storage", *map(str, words)])


async def fill(path: Path) -> None:
    async with await SqliteStorage.open(path) as storage:
        for name in ("a", "b", "c"):
            await storage.put(f"/registry/{name}", b'"value of %b"' % name.encode(), expected=0)


async def listed(path: Path) -> tuple[list[str], int, int]:
    async with await SqliteStorage.open(path) as storage:
        return [item.key for item in (await storage.list("")).items], storage.revision, storage.compacted


def damage(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


async def test_an_intact_file_passes_the_check_and_needs_no_repair(path: Path) -> None:
    await fill(path)
    checked = run("check", path)
    assert (checked.exit_code, checked.stdout) == (0, f"{path}: 3 objects, revision 3\n")
    assert run("repair", path).stdout == f"{path} is intact: nothing to repair\n"


async def test_damaged_objects_are_named_and_a_repair_saves_the_others(path: Path) -> None:
    await fill(path)
    damage(path, "UPDATE items SET value = x'00' WHERE key = '/registry/b'")
    checked = run("check", path)
    assert checked.exit_code == 1
    assert "  damaged: /registry/b\n" in checked.stdout
    assert f"levelset storage repair --accept-loss {path}" in checked.output
    before = path.read_bytes()  # noqa: ASYNC240
    refused = run("repair", path)
    assert refused.exit_code != 0
    assert "Pass --accept-loss to go on" in refused.output
    assert path.read_bytes() == before  # noqa: ASYNC240
    repaired = run("repair", "--accept-loss", path)
    assert repaired.exit_code == 0, repaired.output
    assert "has 2 intact objects now; the old file is" in repaired.stdout
    assert await listed(path) == (["/registry/a", "/registry/c"], 3, 3)
    assert run("check", path).exit_code == 0
    assert before in [file.read_bytes() for file in path.parent.iterdir() if ".damaged-" in file.name]


async def test_lost_writes_are_counted_and_the_revision_goes_on_after_them(path: Path) -> None:
    await fill(path)
    older = path.read_bytes()  # noqa: ASYNC240
    async with await SqliteStorage.open(path) as storage:
        for _ in range(4):
            await storage.put("/registry/d", b"", expected=None)
    path.write_bytes(older)  # noqa: ASYNC240
    assert "lost: the last 4 acknowledged writes" in run("check", path).stdout
    shown = run("repair", "--accept-loss", "--output", "json", path)
    assert json.loads(shown.stdout)["lost_writes"] == 4
    assert await listed(path) == (["/registry/a", "/registry/b", "/registry/c"], 7, 7)


async def test_a_broken_structure_is_reported_and_what_can_be_read_is_saved(path: Path) -> None:
    async with await SqliteStorage.open(path) as storage:
        for number in range(200):
            await storage.put(f"/registry/{number:03}", b"x" * 500, expected=0)
        await storage.compact(200)
    content = bytearray(path.read_bytes())  # noqa: ASYNC240
    place = content.rindex(b"/registry/100") // 4096 * 4096
    content[place : place + 64] = b"\xff" * 64
    path.write_bytes(content)  # noqa: ASYNC240
    checked = run("check", path)
    assert checked.exit_code == 1
    assert "structure:" in checked.stdout
    assert run("repair", "--accept-loss", path).exit_code == 0
    keys, revision, _ = await listed(path)
    assert len(keys) > 150
    assert revision == 200


async def test_a_file_in_use_is_refused(path: Path) -> None:
    async with await SqliteStorage.open(path) as storage:
        await storage.put("/registry/a", b"", expected=0)
        refused = run("check", path)
        assert refused.exit_code != 0
        assert "does no server use it?" in refused.output
    assert read_mark(path.with_name("data.db-revision")) is not None


def test_a_missing_file_is_refused(path: Path) -> None:
    assert "cannot be read: No such file" in run("check", path).output


def test_a_copy_says_what_it_copied_and_refuses_a_target_that_is_there(path: Path, tmp_path: Path) -> None:
    asyncio.run(fill(path))
    dump, target = tmp_path / "dump.jsonl", tmp_path / "copy.db"
    copied = run("copy", path, dump)
    assert copied.exit_code == 0, copied.output
    assert copied.stdout == (
        f"copied 3 objects (36 bytes) from {path} to {dump}, each with its revision\n"
        f"verified; {path} was at revision 3, {dump} is at 3\n"
    )
    report = json.loads(run("copy", dump, target, "-o", "json").stdout)
    assert (report["items"], report["target_revision"], report["keeps_revisions"]) == (3, 3, True)
    assert asyncio.run(listed(target)) == (["/registry/a", "/registry/b", "/registry/c"], 3, 3)
    refused = run("copy", path, target)
    assert (refused.exit_code, refused.stderr) == (
        2,
        f"The target {target} exists: choose another file, or remove it.\n",
    )


def test_a_damaged_file_is_not_copied(path: Path, tmp_path: Path) -> None:
    asyncio.run(fill(path))
    damage(path, "UPDATE items SET value = x'00' WHERE key = '/registry/b'")
    refused = run("copy", path, tmp_path / "dump.jsonl")
    assert refused.exit_code == 2
    assert "is damaged: see `levelset storage check" in refused.stderr


def test_a_user_of_etcd_needs_a_password_file(path: Path) -> None:
    asyncio.run(fill(path))
    refused = run("copy", path, "http://127.0.0.1:1", "--etcd-user", "me")
    assert refused.exit_code == 2
    assert "pass --etcd-user and --etcd-password-file" in refused.stderr
