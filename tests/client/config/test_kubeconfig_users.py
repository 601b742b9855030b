import asyncio
from pathlib import Path
from typing import Any

import pytest

from levelset.client.config.config import Impersonation
from levelset.client.config.credentials import Anonymous, TokenFile
from levelset.client.config.exec_plugin import ExecPlugin
from levelset.errors import ConfigError
from levelset.http.certificate_authority import Identity
from tests.client.config.kubeconfig_files import PEM, encoded, kubeconfig, load

KEY = PEM.replace(b"CERTIFICATE", b"PRIVATE KEY")
V1 = "client.authentication.k8s.io/v1"


def shown(folder: Path, user: dict[str, Any]) -> tuple[dict[str, str], Identity | None]:
    """The credentials that the user of this kubeconfig sends."""

    async def send_call() -> tuple[dict[str, str], Identity | None]:
        credentials = await asyncio.to_thread(lambda: load(folder, kubeconfig(user=user)).credentials)
        return dict(await credentials.headers()), await credentials.certificate()

    return asyncio.run(send_call())


def test_a_user_without_credentials_is_anonymous(tmp_path: Path) -> None:
    assert type(load(tmp_path, kubeconfig(user={})).credentials) is Anonymous


def test_a_token(tmp_path: Path) -> None:
    assert shown(tmp_path, {"token": "t"}) == ({"Authorization": "Bearer t"}, None)


def test_a_user_name_and_a_password(tmp_path: Path) -> None:
    assert shown(tmp_path, {"username": "a", "password": "b"}) == ({"Authorization": "Basic YTpi"}, None)


def test_a_token_file_wins_over_the_token_and_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from the-file".replace(" ", "-"))
    assert shown(tmp_path, {"token": "t", "tokenFile": "secret"})[0] == {"Authorization": "Bearer from-the-file"}
    assert shown(tmp_path, {"token": "t", "tokenFile": "missing"})[0] == {"Authorization": "Bearer t"}
    assert isinstance(load(tmp_path, kubeconfig(user={"tokenFile": "secret"})).credentials, TokenFile)


def test_an_inline_certificate_wins_over_paths(tmp_path: Path) -> None:
    user = {
        "client-certificate": "/not/there",
        "client-certificate-data": encoded(PEM),
        "client-key": "key.pem",
    }
    (tmp_path / "key.pem").write_bytes(KEY)
    assert shown(tmp_path, user) == ({}, Identity(PEM, KEY))


def test_a_certificate_and_a_token_are_both_used(tmp_path: Path) -> None:
    user = {"client-certificate-data": encoded(PEM), "client-key-data": encoded(KEY), "token": "t"}
    assert shown(tmp_path, user) == ({"Authorization": "Bearer t"}, Identity(PEM, KEY))


def test_a_token_wins_over_a_plugin(tmp_path: Path) -> None:
    user = {"token": "t", "exec": {"apiVersion": V1, "command": "/not/there"}}
    assert shown(tmp_path, user)[0] == {"Authorization": "Bearer t"}


def test_a_plugin_with_a_path_is_relative_to_the_kubeconfig_and_a_bare_name_is_not(tmp_path: Path) -> None:
    for command, meant in (("./bin/login", f"{tmp_path}/bin/login"), ("bin/login", f"{tmp_path}/bin/login")):
        user = {"exec": {"apiVersion": V1, "command": command}}
        assert repr(load(tmp_path, kubeconfig(user=user)).credentials) == f"ExecPlugin({meant!r})"
    bare = load(tmp_path, kubeconfig(user={"exec": {"apiVersion": V1, "command": "aws"}})).credentials
    assert repr(bare) == "ExecPlugin('aws')"
    assert isinstance(bare, ExecPlugin)


def test_impersonation_is_read(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["dev"], "as-user-extra": {"scopes": ["a", "b"]}}
    assert load(tmp_path, kubeconfig(user=user)).impersonate == Impersonation(
        user="jane", uid="7", groups=("dev",), extra={"scopes": ("a", "b")}
    )
    assert load(tmp_path, kubeconfig(user={})).impersonate is None


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"token": 12345678}, "token of user 'me' in .* must be a string, not a number: put it in quotes"),
        ({"token": "a\nb"}, "token of user 'me' in .* contains characters"),
        ({"token": "t", "username": "u"}, "username of user 'me' in .* and a token are both set"),
        ({"tokenFile": "missing"}, "tokenFile of user 'me' in .* is 'missing', which cannot be read: No such file"),
        ({"client-certificate-data": encoded(PEM)}, "client-key of user 'me' in .* is missing"),
        ({"client-key-data": encoded(KEY)}, "client-certificate of user 'me' in .* is missing"),
        ({"client-key-data": "s3cret!"}, "client-key-data of user 'me' in .* is not base64"),
        ({"client-key": "no.pem"}, "client-key of user 'me' in .* is 'no.pem', which cannot be read"),
        ({"as-groups": ["dev"]}, "as of user 'me' in .* is missing"),
        ({"as": "a", "as-groups": "dev"}, "as-groups of user 'me' in .* must be a list of strings"),
        ({"as": "a", "as-user-extra": {"x": "y"}}, "as-user-extra.x of user 'me' in .* must be a list of strings"),
        ({"as": "a\nb"}, "as of user 'me' in .* control character"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider of user 'me' in .* gke-gcloud-auth-plugin"),
        ({"auth-provider": {"name": "azure"}}, r"kubelogin \(`kubelogin convert-kubeconfig`\)"),
        ({"auth-provider": {"name": "x", "config": {"secret": "s3cret"}}}, "the plugin of your provider"),
        ({"exec": {"apiVersion": V1}}, "command of exec of user 'me' in .* is missing"),
        ({"exec": {"command": "x"}}, "apiVersion of exec of user 'me' in .* is nothing: it must be"),
        ({"exec": {"command": "x", "apiVersion": V1 + "alpha1"}}, "v1alpha1': it must be"),
        ({"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "Maybe"}}, "one of Never, IfAvailable, Always"),
        ({"exec": {"command": "x", "apiVersion": V1, "args": [1]}}, "args of exec of user 'me' .* list of strings"),
        ({"exec": {"command": "x", "apiVersion": V1, "env": [{"name": "A", "value": 1}]}}, r"env\[0\] of exec of user"),
        ({"exec": "x"}, "exec of user 'me' in .* must be a mapping, not a string"),
    ],
)
def test_an_invalid_user_is_refused_with_its_name_and_field_and_no_secret(
    tmp_path: Path, user: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        load(tmp_path, kubeconfig(user=user))
    assert "s3cret" not in str(refusal.value)
    assert "12345678" not in str(refusal.value)
