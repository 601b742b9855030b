import stat
from pathlib import Path

import pytest

from levelset.apiserver.authn.token_file import load_tokens, load_users, new_token
from levelset.apiserver.authn.users import OWNER, Caller
from levelset.errors import ConfigError


def test_every_token_is_another() -> None:
    assert new_token() != new_token()


def test_a_file_that_is_missing_is_made_with_a_token_of_its_own(tmp_path: Path) -> None:
    (token,) = load_tokens(tmp_path / "t")
    assert load_tokens(tmp_path / "t") == [token]
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o600


def test_tokens_are_lines_and_comments_are_not(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("# mine\n one \n\ntwo\n")
    assert load_tokens(tmp_path / "t") == ["one", "two"]


def test_a_token_may_stand_for_a_user_and_its_groups(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('mine\none,jane\ntwo,bob,u-2,"team, ops"\nthree,eve,,system:authenticated\n')
    assert load_users(tmp_path / "t") == {
        "mine": OWNER,
        "one": Caller("jane", ("system:authenticated",)),
        "two": Caller("bob", ("team", "ops", "system:authenticated"), "u-2"),
        "three": Caller("eve", ("system:authenticated",)),
    }
    assert load_tokens(tmp_path / "t") == ["mine"]


@pytest.mark.parametrize(
    "line", ["one,jane", "mine\none,", "mine\none,a,b,c,d", 'mine\none,"a', "mine\n,jane", "mine\nmine,jane"]
)
def test_a_line_that_is_no_user_is_told_by_its_number_and_never_shown(tmp_path: Path, line: str) -> None:
    (tmp_path / "t").write_text(f"{line}\n")
    with pytest.raises(ConfigError, match="token file") as caught:
        load_users(tmp_path / "t")
    assert "jane" not in str(caught.value)
    assert "mine" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"two words\n", b"\xff\xfe", "schl\u00fcssel".encode()])
def test_what_holds_no_tokens_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ConfigError, match="token file"):
        load_tokens(tmp_path / "t")


def test_a_place_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load_tokens(tmp_path)
    with pytest.raises(ConfigError):
        load_tokens(tmp_path / "no" / "t")
