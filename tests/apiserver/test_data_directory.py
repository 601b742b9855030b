import stat
from pathlib import Path

import pytest

from levelset.apiserver.data_directory import load_authority
from levelset.errors import ConfigError


def test_an_authority_is_made_once_and_kept_private(tmp_path: Path) -> None:
    made = load_authority(tmp_path / "a")
    assert load_authority(tmp_path / "a").certificate == made.certificate
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_an_authority_that_was_kept_vouches_for_a_new_server(tmp_path: Path) -> None:
    load_authority(tmp_path / "a")
    kept = load_authority(tmp_path / "a")
    kept.server_context(kept.issue_server(["localhost"]))


@pytest.mark.parametrize("content", [b"", b"\xff", b"-----BEGIN CERTIFICATE-----\n"])
def test_what_holds_no_authority_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ConfigError, match="authority"):
        load_authority(tmp_path / "a")


def test_a_place_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load_authority(tmp_path)
    with pytest.raises(ConfigError):
        load_authority(tmp_path / "no" / "a")
