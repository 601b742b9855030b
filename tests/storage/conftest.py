"""Tests of what is in a file look into the file themselves."""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster

__all__ = ["looking_into_files"]


@pytest.fixture
def looking_into_files(blocking_guard: BlockBuster) -> Iterator[None]:
    """Lets this test read and write files on its loop; what it tests is guarded in all the others."""
    blocking_guard.deactivate()
    yield
    blocking_guard.activate()
