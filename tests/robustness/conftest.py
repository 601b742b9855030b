"""Folders for data files, in memory where the system has such a file system: real syncs would only take time."""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

__all__ = ["folders"]

_MEMORY = Path("/dev/shm")


@pytest.fixture
def folders() -> Iterator[Callable[[], Path]]:
    """Makes empty folders; all are removed after the test."""
    root = Path(tempfile.mkdtemp(prefix="levelset-", dir=_MEMORY if _MEMORY.is_dir() else None))
    numbers = itertools.count()

    def make() -> Path:
        folder = root / str(next(numbers))
        folder.mkdir()
        return folder

    yield make
    shutil.rmtree(root, ignore_errors=True)
