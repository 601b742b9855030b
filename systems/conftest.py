"""What may hold up the event loop where processes are started: for as long as the operating system needs for it."""

import pytest
from blockbuster import BlockBuster

__all__ = ["processes_may_start"]


@pytest.fixture(scope="session", autouse=True)
def processes_may_start(blocking_guard: BlockBuster) -> None:
    """Lets a process be born, a log be opened and both be written down while nothing else happens."""
    allow = blocking_guard.functions
    # Until the new process has its program, or says why not: a millisecond, without which `start` could not be sync.
    allow["os.read"].can_block_in("subprocess.py", "_execute_child")
    allow["os.access"].can_block_in("levelset_machine/command.py", "_missing")
    # Appends without a sync, which wait for no disk; making, renaming and removing a file of a folder of our own.
    allow["os.write"].can_block_in("levelset_machine/logfiles.py", "append")
    allow["os.rename"].can_block_in("levelset_machine/logfiles.py", "make_raw")
    allow["os.unlink"].can_block_in("levelset_machine/logfiles.py", "remove_files")
    for name in ("os.stat", "os.mkdir"):
        allow[name].can_block_in("levelset_machine/logs.py", "__init__")
    for name in ("os.stat", "os.access"):
        allow[name].can_block_in("levelset_machine/terminal.py", "_find")
    # Whoever comes next must find it: the record of a birth is there before anything else happens.
    for name in ("os.write", "os.replace", "os.unlink"):
        allow[name].can_block_in("levelset_local/node/records.py", {"save", "remove"})
