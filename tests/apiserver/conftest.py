"""What every test of the API server gets: the data files are read before any loop runs, virtual ones included."""

import pytest

from levelset.apiserver.package_data import read_data

__all__ = ["data_files"]


@pytest.fixture(scope="session", autouse=True)
def data_files() -> None:
    """A virtual loop cannot wait for a thread, so a server on it must find everything read."""
    read_data()
