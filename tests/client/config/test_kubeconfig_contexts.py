from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.kubeconfig_file import ConnectionInfo, write_kubeconfig
from levelset.client.config.credentials import Anonymous
from levelset.errors import ConfigError
from tests.client.config.kubeconfig_files import PEM, encoded, kubeconfig, load


def refused(folder: Path, **parts: Any) -> str:
    with pytest.raises(ConfigError) as refusal:
        load(folder, kubeconfig(**parts))
    text = str(refusal.value)
    assert str(folder / "config") in text, text
    return text


def test_a_context_becomes_a_config(tmp_path: Path) -> None:
    cluster = {
        "server": "https://box:6443/base",
        "certificate-authority-data": encoded(PEM),
        "tls-server-name": "inner",
        "proxy-url": "http://proxy:3128",
    }
    config = load(tmp_path, kubeconfig(cluster=cluster, namespace="shop"))
    assert (config.server, config.namespace, config.ca) == ("https://box:6443/base", "shop", PEM)
    assert (config.tls_server_name, config.proxy, config.insecure) == ("inner", "http://proxy:3128", False)
    assert config.source == f"context 'dev' in {tmp_path}/config"


def test_the_namespace_is_default_if_the_context_has_none(tmp_path: Path) -> None:
    assert load(tmp_path, kubeconfig()).namespace == "default"


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    tree = kubeconfig()
    tree["contexts"].append({"name": "other", "context": {"cluster": "box", "namespace": "two"}})
    config = load(tmp_path, tree, "other")
    assert config.namespace == "two"
    assert type(config.credentials) is Anonymous


def test_paths_are_relative_to_their_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "ca.pem").write_bytes(PEM)
    config = load(tmp_path, kubeconfig(cluster={"server": "https://box", "certificate-authority": "certs/ca.pem"}))
    assert config.ca_file == tmp_path / "certs" / "ca.pem"
    assert config.ca is None


def test_inline_data_wins_over_a_path(tmp_path: Path) -> None:
    cluster = {
        "server": "https://box",
        "certificate-authority": "/not/there",
        "certificate-authority-data": encoded(PEM),
    }
    config = load(tmp_path, kubeconfig(cluster=cluster))
    assert (config.ca, config.ca_file) == (PEM, None)


@pytest.mark.parametrize(
    ("cluster", "server"),
    [
        ({"server": "localhost:8080"}, "http://localhost:8080"),
        ({"server": "box:6443", "insecure-skip-tls-verify": True}, "https://box:6443"),
    ],
)
def test_a_bare_host_is_read_as_kubectl_reads_it(tmp_path: Path, cluster: dict[str, Any], server: str) -> None:
    assert load(tmp_path, kubeconfig(cluster=cluster)).server == server


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({}, "server of cluster 'box' in .* is missing: write the URL"),
        ({"server": 7}, "server of cluster 'box' in .* must be a string, not a number"),
        ({"server": "ftp://x"}, "cluster 'box' in .*: The server 'ftp://x' is not a URL"),
        ({"server": "https://x", "insecure-skip-tls-verify": "yes"}, "must be true or false, not a string"),
        ({"server": "https://x", "certificate-authority": "no.pem"}, "'no.pem', which cannot be read: No such file"),
        ({"server": "https://x", "certificate-authority": "a\0b"}, "certificate-authority of .* cannot be read"),
        (
            {"server": "https://x", "certificate-authority-data": "%%%"},
            "certificate-authority-data of .* is not base64",
        ),
        ({"server": "https://x", "certificate-authority-data": "YWFhYQ=="}, "not of a PEM file"),
        (
            {"server": "https://x", "certificate-authority-data": encoded(PEM), "insecure-skip-tls-verify": True},
            "has both a certificate authority and insecure=True",
        ),
        ({"server": "https://x", "proxy-url": "nonsense"}, "The proxy 'nonsense' is not a URL"),
    ],
)
def test_an_invalid_cluster_is_refused_with_its_name_and_field(
    tmp_path: Path, cluster: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, kubeconfig(cluster=cluster))
    refused(tmp_path, cluster=cluster)


def test_base64_may_contain_newlines(tmp_path: Path) -> None:
    text = encoded(PEM)
    cluster = {"server": "https://x", "certificate-authority-data": f"{text[:20]}\n{text[20:]}\r\n"}
    assert load(tmp_path, kubeconfig(cluster=cluster)).ca == PEM


def test_the_kubeconfig_that_our_own_server_writes_is_read(tmp_path: Path) -> None:
    write_kubeconfig(tmp_path / "ours", ConnectionInfo("https://127.0.0.1:1234", "t'oken", PEM))
    config = load(tmp_path, (tmp_path / "ours").read_text())
    assert (config.server, config.ca) == ("https://127.0.0.1:1234", PEM)
