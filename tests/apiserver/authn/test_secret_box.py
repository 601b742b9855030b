import asyncio
import stat
from pathlib import Path

import pytest

from levelset.apiserver.authn.secret_box import SecretBox, load_or_create_secret
from levelset.apiserver.data_directory import load_shared_secrets
from levelset.errors import ConfigError, ServerFailed
from levelset.storage import MemoryStorage


def test_a_key_file_is_created_for_its_owner_only(tmp_path: Path):
    box = SecretBox.from_file(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    sealed = box.seal("a", b"secret")
    assert b"secret" not in sealed
    assert SecretBox.from_file(tmp_path / "key").open("a", sealed) == b"secret"


def test_a_new_first_key_encrypts_and_the_old_one_still_decrypts(tmp_path: Path):
    old = SecretBox.from_file(tmp_path / "old")
    SecretBox.from_file(tmp_path / "new")
    both = (tmp_path / "new").read_text() + (tmp_path / "old").read_text()
    (tmp_path / "both").write_text(both)
    rotated = SecretBox.from_file(tmp_path / "both")
    assert rotated.open("a", old.seal("a", b"1")) == b"1"
    assert SecretBox.from_file(tmp_path / "new").open("a", rotated.seal("a", b"2")) == b"2"


def test_another_key_a_damaged_value_and_a_bad_file_are_refused_with_what_to_do(tmp_path: Path):
    sealed = SecretBox.from_file(tmp_path / "one").seal("a", b"1")
    other = SecretBox.from_file(tmp_path / "other")
    for value in (sealed, b'{"kind":"EncryptedSecret"}', b'{"token":"x"}'):
        with pytest.raises(ServerFailed, match="give all servers the same key"):
            other.open("a", value)
    (tmp_path / "bad").write_text("password\n")
    with pytest.raises(ConfigError, match="has no valid keys: make one with"):
        SecretBox.from_file(tmp_path / "bad")
    with pytest.raises(ConfigError, match="cannot be read"):
        SecretBox.from_file(tmp_path)
    with pytest.raises(ConfigError, match="cannot be written"):
        SecretBox.from_file(tmp_path / "missing" / "key")


async def test_the_first_server_creates_the_secrets_and_all_of_them_have_the_same(tmp_path: Path):
    storage = MemoryStorage()
    users, authority, _ = await load_shared_secrets(storage, tmp_path / "key")
    again, same, _ = await load_shared_secrets(storage, tmp_path / "key")
    assert users == again
    assert authority.identity.key == same.identity.key
    stored = b"".join(item.value for item in storage.list_nowait("/").items)
    assert b"PRIVATE KEY" not in stored
    assert all(token.encode() not in stored for token in users)
    with pytest.raises(ConfigError, match="give all servers the same key"):
        await load_shared_secrets(storage, tmp_path / "other")


async def test_of_two_servers_that_create_a_secret_at_the_same_time_both_have_that_of_the_first(tmp_path: Path):
    box = await asyncio.to_thread(SecretBox.from_file, tmp_path / "key")

    class Slow(MemoryStorage):
        async def get(self, key: str, *, revision: int | None = None):
            return None  # before the other server has written

    storage = Slow()
    assert await load_or_create_secret(storage, box, "a", lambda: b"1") == b"1"
    assert await load_or_create_secret(storage, box, "a", lambda: b"2") == b"1"
