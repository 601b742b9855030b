import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from levelset.client.config.credentials import (
    Anonymous,
    Basic,
    ClientCertificate,
    CombinedCredentials,
    Token,
    TokenFile,
    static_headers,
)
from levelset.errors import ConfigError
from levelset.http.certificate_authority import Identity
from tests.client.event_loops import virtual_time


async def test_anonymous_credentials_send_nothing_and_a_retry_does_not_help() -> None:
    anonymous = Anonymous()
    assert dict(await anonymous.headers()) == {}
    assert await anonymous.certificate() is None
    assert not anonymous.reject()


async def test_a_token_is_sent_as_bearer_and_never_changes() -> None:
    token = Token("abc")
    assert await token.headers() == {"Authorization": "Bearer abc"}
    assert not token.reject()


async def test_a_password_is_sent_as_basic() -> None:
    assert await Basic("me", "pa:ss").headers() == {"Authorization": "Basic bWU6cGE6c3M="}


class Changing(Token):
    """A user-defined subclass of Token."""

    async def headers(self) -> Mapping[str, str]:
        return {"Authorization": "Bearer other"}


async def test_only_credentials_that_never_change_have_static_headers(tmp_path: Path) -> None:
    for lasting in (Anonymous(), Token("abc"), Basic("me", "pass"), ClientCertificate(b"certificate", b"key")):
        assert static_headers(lasting) == await lasting.headers()
    for other in (
        Changing("abc"),
        TokenFile(tmp_path / "token", fallback="abc"),
        CombinedCredentials(Token("abc"), Anonymous()),
    ):
        assert static_headers(other) is None


@pytest.mark.parametrize("token", ["", "a b\n", "line\nline", "\u00e9", " x"])
def test_a_token_that_is_not_allowed_in_a_header_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Token(token)
    assert not token.strip() or token not in str(refusal.value)


def test_a_user_name_with_a_colon_is_refused() -> None:
    with pytest.raises(ConfigError, match="colon"):
        Basic("a:b", "c")


@pytest.mark.parametrize(
    "secretive",
    [
        Token("s3cret"),
        Basic("me", "s3cret"),
        TokenFile("/nowhere", fallback="s3cret"),
        ClientCertificate(b"s3cret", b"s3cret"),
        CombinedCredentials(Token("s3cret"), ClientCertificate(b"s3cret", b"s3cret")),
    ],
)
def test_no_repr_shows_a_secret(secretive: object) -> None:
    assert "s3cret" not in repr(secretive)
    assert "s3cret" not in str(secretive)


@virtual_time
async def test_a_token_file_is_read_again_after_a_minute_and_not_before(tmp_path: Path) -> None:
    file = tmp_path / "token"
    await write(file, "one\n")
    credentials = TokenFile(file)
    assert await shown(credentials) == "Bearer one"
    await write(file, "two")
    await asyncio.sleep(59)
    assert await shown(credentials) == "Bearer one"
    await asyncio.sleep(1)
    assert await shown(credentials) == "Bearer two"


@virtual_time
async def test_fresh_headers_are_available_while_the_token_file_need_not_be_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    await write(file, "one")
    credentials = TokenFile(file, fallback="first")
    assert credentials.fresh_headers() is None
    assert credentials.fresh_headers() is not await credentials.headers()
    await asyncio.sleep(59)
    assert credentials.fresh_headers() is await credentials.headers()
    await asyncio.sleep(1)
    assert credentials.fresh_headers() is None
    refused = await credentials.headers()
    assert credentials.fresh_headers() == refused
    assert credentials.reject(refused)
    assert credentials.fresh_headers() is None


@virtual_time
async def test_the_last_token_stays_in_use_when_the_file_is_missing_or_empty(tmp_path: Path) -> None:
    file = tmp_path / "token"
    await write(file, "one")
    credentials = TokenFile(file)
    assert await shown(credentials) == "Bearer one"
    await asyncio.to_thread(file.unlink)
    await asyncio.sleep(61)
    assert await shown(credentials) == "Bearer one"
    await write(file, "")
    await asyncio.sleep(61)
    assert await shown(credentials) == "Bearer one"
    await write(file, "three")
    await asyncio.sleep(61)
    assert await shown(credentials) == "Bearer three"


@virtual_time
async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    await write(file, "one")
    credentials = TokenFile(file)
    refused = await credentials.headers()
    await write(file, "two")
    assert credentials.reject(refused)
    assert await shown(credentials) == "Bearer two"
    await write(file, "three")
    assert credentials.reject(refused)
    assert await shown(credentials) == "Bearer two"  # that rejection was of the first token


@virtual_time
async def test_a_token_file_that_never_existed_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/token cannot be read: No such file"):
        await TokenFile(tmp_path / "token").headers()


@virtual_time
async def test_the_fallback_token_is_used_until_the_file_exists(tmp_path: Path) -> None:
    credentials = TokenFile(tmp_path / "token", fallback="first")
    assert await shown(credentials) == "Bearer first"
    await write(tmp_path / "token", "second")
    await asyncio.sleep(60)
    assert await shown(credentials) == "Bearer second"


@virtual_time
async def test_concurrent_requests_get_the_same_token(tmp_path: Path) -> None:
    await write(tmp_path / "token", "one")
    credentials = TokenFile(tmp_path / "token")
    found = await asyncio.gather(*(credentials.headers() for _ in range(20)))
    assert all(one is found[0] for one in found)


@virtual_time
async def test_a_certificate_in_files_is_read_for_each_connection(tmp_path: Path) -> None:
    await write(tmp_path / "cert", "c1")
    await write(tmp_path / "key", "k1")
    credentials = ClientCertificate(tmp_path / "cert", tmp_path / "key")
    assert await credentials.certificate() == Identity(b"c1", b"k1")
    await write(tmp_path / "cert", "c2")
    assert await credentials.certificate() == Identity(b"c2", b"k1")
    await asyncio.to_thread((tmp_path / "key").unlink)
    assert await credentials.certificate() == Identity(b"c2", b"k1")


async def test_a_certificate_whose_files_are_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/key cannot be read"):
        await ClientCertificate(b"c", tmp_path / "key").certificate()


async def test_combined_credentials_send_the_token_of_one_and_the_certificate_of_another() -> None:
    both = CombinedCredentials(ClientCertificate(b"c", b"k"), Token("t"))
    assert await both.headers() == {"Authorization": "Bearer t"}
    assert await both.certificate() == Identity(b"c", b"k")
    assert not both.reject()
    assert CombinedCredentials(both, TokenFile("/nowhere")).reject()


async def shown(credentials: TokenFile) -> str:
    headers: Mapping[str, str] = await credentials.headers()
    return headers["Authorization"]


async def write(file: Path, text: str) -> None:
    await asyncio.to_thread(file.write_text, text)
