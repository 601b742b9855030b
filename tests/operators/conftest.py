"""The tests of this folder run operators of other projects; only `make test-operators` runs them."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from scripts.kube_binaries import Missing

__all__ = ["pytest_collection_modifyitems", "pytest_fixture_setup"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test of this folder, so that only `make test-operators` runs it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.operators)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, Any, Any]:
    """Skips the tests of an operator that cannot be had, with the reason; `make test-operators` fails then."""
    try:
        return (yield)
    except Missing as error:
        pytest.skip(str(error))
