from pathlib import Path
from typing import Any

import pytest

from levelset.client.config.config import Config, Impersonation
from levelset.client.config.credentials import Token
from levelset.errors import ConfigError


def test_a_server_url_is_split_into_host_port_and_path() -> None:
    config = Config(server="https://[::1]:6443/k8s/clusters/c-1/")
    assert (config.host, config.port, config.path, config.is_secure) == ("::1", 6443, "/k8s/clusters/c-1", True)
    plain = Config(server="http://localhost")
    assert (plain.host, plain.port, plain.path, plain.is_secure) == ("localhost", 80, "", False)
    assert plain.namespace == "default"


@pytest.mark.parametrize(
    "server",
    ["", "localhost:8080", "ftp://a", "https://", "https://a:b", "https://a:99999", "https://a b", "https://u:p@a",
     "https://a/?q", "https://a\n", "https://[::1", "https://a:0"],
)  # fmt: skip
def test_an_invalid_server_url_is_refused(server: str) -> None:
    with pytest.raises(ConfigError, match="URL"):
        Config(server=server)


@pytest.mark.parametrize(
    "contradiction",
    [
        {"insecure": True, "ca": b"x"},
        {"insecure": True, "ca_file": Path("x")},
        {"ca": b"x", "ca_file": Path("x")},
        {"proxy": "gopher://x"},
    ],
)
def test_contradictory_tls_settings_are_refused(contradiction: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Config(server="https://a", **contradiction)


def test_no_secret_is_in_the_repr() -> None:
    config = Config(server="https://a", proxy="http://me:s3cret@proxy:1", credentials=Token("s3cret"))
    assert "s3cret" not in repr(config)
    with pytest.raises(ConfigError) as refusal:
        Config(server="https://a", proxy="gopher://me:s3cret@proxy:1")
    assert "s3cret" not in str(refusal.value)


def test_impersonation_becomes_headers_one_for_each_group() -> None:
    who = Impersonation(user="jane", uid="7", groups=("dev", "ops"), extra={"Scopes/x": ("a", "b")})
    assert who.headers() == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-scopes%2Fx", "a"),
        ("Impersonate-Extra-scopes%2Fx", "b"),
    )


def test_impersonation_needs_a_user_and_no_newlines() -> None:
    with pytest.raises(ConfigError, match="needs a user"):
        Impersonation(user="", groups=("dev",))
    with pytest.raises(ConfigError, match="Impersonate-Group"):
        Impersonation(user="jane", groups=("dev\r\nX-Evil: 1",))
