import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from levelset.apiserver.data_directory import load_authority
from levelset.errors import ConfigError


def test_a_certificate_authority_is_created_once_and_stored_privately(tmp_path: Path) -> None:
    made = load_authority(tmp_path / "a")
    assert load_authority(tmp_path / "a").certificate == made.certificate
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_stored_certificate_authority_signs_for_a_new_server(tmp_path: Path) -> None:
    load_authority(tmp_path / "a")
    loaded = load_authority(tmp_path / "a")
    loaded.server_context(loaded.issue_server(["localhost"]))


@pytest.mark.parametrize("content", [b"", b"\xff", b"-----BEGIN CERTIFICATE-----\n"])
def test_a_file_without_a_certificate_authority_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ConfigError, match="CA key and certificate"):
        load_authority(tmp_path / "a")


def test_a_path_that_cannot_be_written_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load_authority(tmp_path)
    with pytest.raises(ConfigError):
        load_authority(tmp_path / "no" / "a")


@pytest.mark.parametrize(("days", "message"), [(4000, "has expired"), (-4000, "is not valid before")])
def test_a_certificate_authority_that_the_clock_makes_invalid_is_refused_with_what_to_do(
    tmp_path: Path, days: int, message: str
) -> None:
    load_authority(tmp_path / "a")
    clock = datetime.now(UTC) + timedelta(days=days)
    with pytest.raises(ConfigError, match=f"{message} .*: check the clock of this machine, or remove the file"):
        load_authority(tmp_path / "a", now=lambda: clock)
