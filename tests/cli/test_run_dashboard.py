"""The `--dashboard` option of `up` and `run`."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset


def invoke(*words: str) -> Result:
    return CliRunner().invoke(levelset, words, catch_exceptions=False)


@pytest.mark.parametrize("value", ["yes", "-1", "65536", "1e3", "", "\u0663", "999999999999"])
def test_an_invalid_port_is_refused_with_a_hint(value: str) -> None:
    result = invoke("up", "tests.cli.fixtures.operator:stranger", f"--dashboard={value}")
    assert result.exit_code == 2
    assert "expected a port up to 65535, 0 for any free one, or no" in result.stderr


def test_a_port_in_use_is_refused_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = invoke("up", "tests.cli.fixtures.operator:stranger", f"--dashboard={port}")
    assert result.exit_code == 2
    assert f"Port {port} on 127.0.0.1 is in use" in result.stderr
    assert not list(tmp_path.iterdir())
