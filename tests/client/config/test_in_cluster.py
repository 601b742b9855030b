import asyncio
from pathlib import Path

import pytest

from levelset.client.config.in_cluster import in_cluster, is_in_cluster
from levelset.errors import ConfigError


@pytest.fixture
def account(tmp_path: Path) -> Path:
    for name, text in (("token", "t0\n"), ("ca.crt", "PEM"), ("namespace", "shop\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


def environ(host: str, port: str) -> dict[str, str]:
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("10.0.0.1", "443", "https://10.0.0.1"),
        ("10.0.0.1", "6443", "https://10.0.0.1:6443"),
        ("fd00::1", "443", "https://[fd00::1]"),
        ("fd00::1", "6443", "https://[fd00::1]:6443"),
        ("kubernetes.default.svc", "443", "https://kubernetes.default.svc"),
        ("kubernetes.default.svc", "6443", "https://kubernetes.default.svc:6443"),
    ],
)
def test_the_server_comes_from_the_environment(account: Path, host: str, port: str, url: str) -> None:
    assert in_cluster(environ(host, port), account).server == url


def test_the_namespace_and_the_authority_are_those_of_the_pod(account: Path) -> None:
    config = in_cluster(environ("10.0.0.1", "443"), account)
    assert config.namespace == "shop"
    assert config.ca_file == account / "ca.crt"


def test_without_a_namespace_file_it_is_default(account: Path) -> None:
    (account / "namespace").unlink()
    assert in_cluster(environ("10.0.0.1", "443"), account).namespace == "default"


def test_the_token_is_that_of_the_service_account(account: Path) -> None:
    credentials = in_cluster(environ("10.0.0.1", "443"), account).credentials
    assert asyncio.run(headers_of(credentials)) == {"Authorization": "Bearer t0"}


async def headers_of(credentials: object) -> dict[str, str]:
    return dict(await credentials.headers())  # type: ignore[attr-defined]


@pytest.mark.parametrize("missing", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_outside_of_a_pod_the_error_says_so(account: Path, missing: str) -> None:
    variables = {**environ("10.0.0.1", "443"), missing: ""}
    assert not is_in_cluster(variables)
    with pytest.raises(ConfigError, match="This is not a pod"):
        in_cluster(variables, account)


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_the_error_in_a_pod_without_a_service_account_names_the_remedy(account: Path, missing: str) -> None:
    (account / missing).unlink()
    with pytest.raises(ConfigError, match=f"cannot read .*/{missing} .*automountServiceAccountToken"):
        in_cluster(environ("10.0.0.1", "443"), account)
