"""Blocking calls that tests of `systems` allow on the event loop: starting processes, and writing logs and records."""

import pytest
from blockbuster import BlockBuster

__all__ = ["processes_may_start"]


@pytest.fixture(scope="session", autouse=True)
def processes_may_start(blocking_guard: BlockBuster) -> None:
    """Allows the blocking calls of starting a process, opening a log, and recording both."""
    allow = blocking_guard.functions
    # Popen waits until the child has executed its program: about a millisecond, and `start` is synchronous by contract.
    allow["os.read"].can_block_in("subprocess.py", "_execute_child")
    allow["os.access"].can_block_in("levelset_machine/process/command.py", "_missing")
    # Appends without fsync do not wait for a disk; creating, renaming and removing files of our own folder.
    allow["os.write"].can_block_in("levelset_machine/logs/file_content.py", "_write")
    allow["os.write"].can_block_in("levelset_machine/logs/raw_content.py", "append")
    for name in ("os.rename", "os.unlink"):
        allow[name].can_block_in("levelset_machine/logs/file_content.py", {"rotate", "unlink"})
    allow["os.rename"].can_block_in("levelset_machine/logs/raw_content.py", "made_of")
    allow["os.stat"].can_block_in("levelset_machine/logs/file_content.py", "_size")
    allow["io.TextIOWrapper.read"].can_block_in("levelset_machine/logs/raw_content.py", "_read_start")
    for name in ("os.stat", "os.mkdir"):
        allow[name].can_block_in("levelset_machine/logs/store.py", {"__init__", "path"})
    for name in ("os.stat", "os.access"):
        allow[name].can_block_in("levelset_machine/process/terminal.py", "_find")
    # The record of a started process must exist before anything else happens, so that a restarted manager finds it.
    for name in ("os.write", "os.replace", "os.unlink"):
        allow[name].can_block_in("levelset_local/node/record_store.py", {"save", "remove"})
