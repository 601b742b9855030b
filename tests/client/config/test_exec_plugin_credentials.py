import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.client.config.exec_plugin import ExecSpec, exec_info, parse_credential
from levelset.errors import ConfigError
from levelset.http.certificate_authority import Identity

V1 = "client.authentication.k8s.io/v1"
SPEC = ExecSpec(command="login", owner="user 'me' in /config", args=("--secret", "s3cret"), env={"A": "s3cret"})


def printed(version: str = V1, **status: Any) -> bytes:
    return json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status}).encode()


def test_a_token_with_its_expiry_is_parsed() -> None:
    found = parse_credential(printed(token="t", expirationTimestamp="2026-01-02T03:04:05Z"), SPEC)
    assert found.headers == {"Authorization": "Bearer t"}
    assert found.identity is None
    assert found.expires == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_client_certificate_is_parsed() -> None:
    found = parse_credential(printed(clientCertificateData="CERT", clientKeyData="KEY"), SPEC)
    assert found.headers == {}
    assert found.identity == Identity(b"CERT", b"KEY")
    assert found.expires is None


def test_v1beta1_and_yaml_are_parsed() -> None:
    beta = "client.authentication.k8s.io/v1beta1"
    spec = ExecSpec(command="login", api_version=beta)
    text = f"apiVersion: {beta}\nkind: ExecCredential\nstatus:\n  token: t\n"
    assert parse_credential(text.encode(), spec).headers == {"Authorization": "Bearer t"}
    assert parse_credential(printed(beta, token="t"), spec).headers == {"Authorization": "Bearer t"}


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (b"", "printed no ExecCredential"),
        (b"please log in", "printed no ExecCredential"),
        (b"a: [", "printed no ExecCredential"),
        (b"[]", "printed no ExecCredential"),
        (b'{"kind": "Pod"}', "printed another kind than ExecCredential"),
        (printed("client.authentication.k8s.io/v1beta1", token="s3cret"), f"printed another apiVersion than {V1}"),
        (b'{"kind": "ExecCredential", "apiVersion": "%s"}' % V1.encode(), "without status"),
        (printed(), "neither a token nor a client certificate"),
        (printed(token=7), "a status.token that is not a string"),
        (printed(token="s3cret\n"), "The token that the plugin 'login' .* contains characters"),
        (printed(clientCertificateData="s3cret"), "one of clientCertificateData and clientKeyData"),
        (printed(token="s3cret", expirationTimestamp="soon"), "not an RFC 3339 time"),
    ],
)
def test_invalid_output_is_explained_without_being_shown(output: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        parse_credential(output, SPEC)
    assert "'login' of user 'me' in /config" in str(refusal.value)
    assert "s3cret" not in str(refusal.value)


@given(st.binary(max_size=60))
def test_arbitrary_output_raises_only_config_errors(output: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_credential(output, SPEC)


def test_the_plugin_gets_the_cluster_info_only_on_request() -> None:
    assert json.loads(exec_info(SPEC, is_interactive=False)) == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {"interactive": False},
    }
    reported = ExecSpec(command="x", cluster={"server": "https://box"})
    assert json.loads(exec_info(reported, is_interactive=True))["spec"] == {
        "interactive": True,
        "cluster": {"server": "https://box"},
    }


def test_no_repr_shows_a_secret() -> None:
    assert "s3cret" not in repr(SPEC)
    assert "s3cret" not in repr(parse_credential(printed(token="s3cret"), SPEC))
