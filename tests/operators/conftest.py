"""The tests of this folder run operators of other projects; only `make test-operators` runs them."""

from pathlib import Path

import pytest

__all__ = ["pytest_collection_modifyitems"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder, so that only `make test-operators` runs it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.operators)
