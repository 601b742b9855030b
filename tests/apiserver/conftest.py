"""Loads the package data of the API server before any event loop runs, virtual ones included."""

import pytest

from levelset.apiserver.package_data import load_package_data

__all__ = ["data_files"]


@pytest.fixture(scope="session", autouse=True)
def data_files() -> None:
    """A server on a virtual event loop cannot wait for the thread that loads them."""
    load_package_data()
