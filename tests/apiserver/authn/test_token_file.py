import stat
from pathlib import Path

import pytest

from levelset.apiserver.authn.token_file import load_admin_tokens, load_users, new_token
from levelset.apiserver.authn.users import ADMIN, User
from levelset.errors import ConfigError


def test_new_tokens_differ() -> None:
    assert new_token() != new_token()


def test_a_missing_token_file_is_created_with_an_admin_token(tmp_path: Path) -> None:
    (token,) = load_admin_tokens(tmp_path / "t")
    assert load_admin_tokens(tmp_path / "t") == [token]
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o600


def test_every_line_but_comments_is_a_token(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("# mine\n one \n\ntwo\n")
    assert load_admin_tokens(tmp_path / "t") == ["one", "two"]


def test_a_token_can_have_a_user_and_groups(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('mine\none,jane\ntwo,bob,u-2,"team, ops"\nthree,eve,,system:authenticated\n')
    assert load_users(tmp_path / "t") == {
        "mine": ADMIN,
        "one": User("jane", ("system:authenticated",)),
        "two": User("bob", ("team", "ops", "system:authenticated"), "u-2"),
        "three": User("eve", ("system:authenticated",)),
    }
    assert load_admin_tokens(tmp_path / "t") == ["mine"]


@pytest.mark.parametrize(
    "line", ["one,jane", "mine\none,", "mine\none,a,b,c,d", 'mine\none,"a', "mine\n,jane", "mine\nmine,jane"]
)
def test_an_invalid_line_is_reported_by_its_number_and_never_shown(tmp_path: Path, line: str) -> None:
    (tmp_path / "t").write_text(f"{line}\n")
    with pytest.raises(ConfigError, match="token file") as caught:
        load_users(tmp_path / "t")
    assert "jane" not in str(caught.value)
    assert "mine" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"two words\n", b"\xff\xfe", "schl\u00fcssel".encode()])
def test_a_file_without_an_admin_token_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ConfigError, match="token file"):
        load_admin_tokens(tmp_path / "t")


def test_a_path_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load_admin_tokens(tmp_path)
    with pytest.raises(ConfigError):
        load_admin_tokens(tmp_path / "no" / "t")
