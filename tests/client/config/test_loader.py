import os
from pathlib import Path
from typing import Any

import pytest

from levelset.client.config.config import Config
from levelset.client.config.loader import load_config
from levelset.errors import ConfigError
from tests.client.config.kubeconfig_files import kubeconfig, write

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def named(server: str, context: str = "dev") -> dict[str, Any]:
    tree = kubeconfig(cluster={"server": server})
    tree["contexts"][0]["name"] = tree["current-context"] = context
    return tree


class Places:
    """A home with a kubeconfig, and a pod's service account."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write(folder, named("https://home"), "home/.kube/config")
        for name in ("token", "ca.crt", "namespace"):
            write(folder, f"{name}\n", f"pod/{name}")

    def load(self, path: str | Path | None = None, context: str | None = None, **environ: str) -> Config:
        return load_config(
            path, context, environ=environ, home=self.folder / "home", service_account=self.folder / "pod"
        )


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_a_given_file_comes_first(places: Places) -> None:
    named_file = write(places.folder, named("https://named"), "named")
    listed = write(places.folder, named("https://listed"), "listed")
    assert places.load(named_file, KUBECONFIG=str(listed), **POD).server == "https://named"
    assert places.load(str(named_file)).server == "https://named"


def test_without_a_given_file_kubeconfig_the_pod_and_the_home_directory_are_tried(places: Places) -> None:
    listed = write(places.folder, named("https://listed"), "listed")
    assert places.load(KUBECONFIG=str(listed), **POD).server == "https://listed"
    assert places.load(**POD).server == "https://10.0.0.1"
    assert places.load().server == "https://home"


def test_an_empty_kubeconfig_variable_is_ignored(places: Places) -> None:
    assert places.load(KUBECONFIG="").server == "https://home"
    assert places.load(KUBECONFIG=os.pathsep).server == "https://home"


def test_several_files_are_merged_and_missing_ones_ignored(places: Places) -> None:
    one = write(places.folder, {**named("https://one", "a"), "current-context": ""}, "one")
    two = write(places.folder, {**named("https://two", "b"), "current-context": "b"}, "two")
    listed = os.pathsep.join(str(file) for file in (places.folder / "missing", one, two))
    assert places.load(KUBECONFIG=listed).server == "https://one"  # both define the cluster, and the first one wins
    assert places.load(KUBECONFIG=listed).source == f"context 'b' in {two}"
    assert places.load(context="a", KUBECONFIG=listed).source == f"context 'a' in {one}"


def test_with_a_context_the_in_cluster_config_is_skipped(places: Places) -> None:
    assert places.load(context="dev", **POD).server == "https://home"


def test_missing_files_are_named_in_the_error(places: Places) -> None:
    with pytest.raises(
        ConfigError, match=f"The given kubeconfig does not exist: {places.folder}/nothing. Correct the path.$"
    ):
        places.load(places.folder / "nothing")
    with pytest.raises(ConfigError, match="KUBECONFIG does not exist: /no/a, /no/b. Correct the path, or unset it."):
        places.load(KUBECONFIG=os.pathsep.join(["/no/a", "/no/b"]))


def test_a_broken_file_in_the_list_is_an_error(places: Places) -> None:
    broken = write(places.folder, "a: [", "broken")
    with pytest.raises(ConfigError, match="broken is not valid YAML"):
        places.load(KUBECONFIG=str(broken))


def test_without_any_config_the_error_lists_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="KUBECONFIG is not set, this is not a pod, and .*/.kube/config does not exist"
    ):
        load_config(environ={}, home=tmp_path)


def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path, named("https://tilde"), "other.config")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_config("~/other.config").server == "https://tilde"
    with pytest.raises(ConfigError, match="does not exist"):
        load_config("~no-such-user/x")
