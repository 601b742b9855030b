"""Fixtures of the storage tests; some tests read the database file directly."""

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster

__all__ = ["file_access"]


@pytest.fixture
def file_access(blocking_guard: BlockBuster) -> Iterator[None]:
    """Allows blocking file access on the event loop in this test; in all others the guard forbids it."""
    blocking_guard.deactivate()
    yield
    blocking_guard.activate()
