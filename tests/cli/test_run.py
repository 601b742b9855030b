"""The page that `up` and `run` serve: a port, any free one, or none."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset


def invoke(*words: str) -> Result:
    return CliRunner().invoke(levelset, words, catch_exceptions=False)


@pytest.mark.parametrize("value", ["yes", "-1", "65536", "1e3", "", "\u0663", "999999999999"])
def test_what_is_no_port_is_refused_with_what_may_be_given(value: str) -> None:
    told = invoke("up", "tests.cli.operator:stranger", f"--dashboard={value}")
    assert told.exit_code == 2
    assert "give a port up to 65535, 0 for any free one, or no" in told.stderr


def test_a_port_that_is_taken_ends_it_at_once_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        told = invoke("up", "tests.cli.operator:stranger", f"--dashboard={port}")
    assert told.exit_code == 2
    assert f"Port {port} on 127.0.0.1 is taken" in told.stderr
    assert not list(tmp_path.iterdir())
