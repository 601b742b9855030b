"""A scratch folder is removed with its manager, or, if that was killed, by the next one."""

import asyncio
import subprocess
import sys
from pathlib import Path

from levelset_machine import scratch_folder

_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from levelset_machine import scratch_folder
async def main():
    async with scratch_folder("levelset-test-", within=Path(sys.argv[1])) as folder:
        (folder / "secret").write_text("x")
        print(folder, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


async def test_a_folder_is_private_and_removed_with_its_block(tmp_path: Path) -> None:
    async with scratch_folder("levelset-test-", within=tmp_path) as folder:
        assert (await asyncio.to_thread(folder.stat)).st_mode & 0o777 == 0o700
        await asyncio.to_thread((folder / "deep").mkdir)
    assert await asyncio.to_thread(names, tmp_path) == []


async def test_the_folder_of_a_killed_manager_is_removed_by_the_next(tmp_path: Path) -> None:
    left = await asyncio.to_thread(killed_manager, tmp_path)
    assert await asyncio.to_thread(names, left) == [".held", "secret"]
    async with scratch_folder("levelset-test-", within=tmp_path) as folder:
        assert await asyncio.to_thread(names, tmp_path) == [folder.name]


async def test_folders_that_are_locked_or_have_no_lock_file_stay(tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "levelset-test-made-by-hand").mkdir)
    async with (
        scratch_folder("levelset-test-", within=tmp_path) as one,
        scratch_folder("levelset-test-", within=tmp_path) as two,
    ):
        assert {one.name, two.name} < set(await asyncio.to_thread(names, tmp_path))
    assert await asyncio.to_thread(names, tmp_path) == ["levelset-test-made-by-hand"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def killed_manager(parent: Path) -> Path:
    """The folder of a manager that was killed."""
    dead = subprocess.run([sys.executable, "-c", _KILLED, str(parent)], capture_output=True, text=True, check=False)
    return Path(dead.stdout.strip())
