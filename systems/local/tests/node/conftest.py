"""What may hold up the event loop where Pods are run: the birth of a process, and the record of it."""

import pytest
from blockbuster import BlockBuster

__all__ = ["births_may_be_recorded"]


@pytest.fixture(scope="session", autouse=True)
def births_may_be_recorded(blocking_guard: BlockBuster) -> None:
    """Lets a process be born and written down while nothing else happens: whoever comes next must find it."""
    allow = blocking_guard.functions
    for name in ("os.write", "os.replace", "os.unlink"):
        allow[name].can_block_in("levelset_local/node/records.py", {"save", "remove"})
    allow["os.read"].can_block_in("subprocess.py", "_execute_child")
    allow["os.access"].can_block_in("levelset_machine/command.py", "_missing")
    allow["os.write"].can_block_in("levelset_machine/logfiles.py", "append")
    allow["os.rename"].can_block_in("levelset_machine/logfiles.py", "make_raw")
    allow["os.unlink"].can_block_in("levelset_machine/logfiles.py", "remove_files")
    allow["os.mkdir"].can_block_in("levelset_machine/logs.py", "__init__")
