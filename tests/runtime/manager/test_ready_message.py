"""What a program prints when it is ready can be typed in the shell of the user."""

import sys
from pathlib import Path

import pytest

from levelset.runtime.manager.command_hints import HintSpelling, cluster_hints, install_command, script_path
from levelset.runtime.manager.ready_message import Facts, fact_lines, ready_lines

HINTS = ["kubectl apply -f examples/", "kubectl get pods", "levelset status"]


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an environment that is not active."""
    monkeypatch.chdir(tmp_path)
    program(tmp_path / ".venv/bin", "levelset")
    monkeypatch.setattr(sys, "executable", str(program(tmp_path / ".venv/bin", "python")))
    return tmp_path


def test_addresses_come_first_and_disabled_features_last() -> None:
    facts: Facts = {
        "disabled": {"containers": "start docker", "traces": "pip install x"},
        "watches": ["Good (trade.example.dev/v1)"],
        "url": "https://127.0.0.1:1",
        "conversions": ["Good (trade.example.dev/v1beta1)"],
        "serves": [],
        "kubeconfig": "levelset.kubeconfig",
        "dashboard": "http://127.0.0.1:2",
    }
    assert list(fact_lines(facts)) == [
        "dashboard   http://127.0.0.1:2",
        "kubeconfig  levelset.kubeconfig",
        "API server  https://127.0.0.1:1",
        "converts    Good (trade.example.dev/v1beta1)",
        "watches     Good (trade.example.dev/v1)",
        "disabled    containers: start docker; traces: pip install x",
    ]


def test_a_long_list_is_a_number_with_the_first_kinds() -> None:
    kinds = [f"Kind{number} (example.dev/v1)" for number in range(6)]
    assert list(fact_lines({"watches": kinds, "webhooks": ["a", "b", "c", "d", "e", "f"]})) == [
        "watches     6 kinds: Kind0, Kind1, Kind2, Kind3, ...",
        "webhooks    6",
    ]


def test_there_are_at_most_three_hints() -> None:
    assert list(ready_lines(12.3, ["a", "b", "c", "d"])) == [
        "ready in 12 ms. Type next, in another terminal:",
        "  a",
        "  b",
        "  c",
    ]
    assert list(ready_lines(12.3, [])) == ["ready in 12 ms"]


def test_a_command_of_an_inactive_environment_has_its_path(clone: Path) -> None:
    assert script_path("levelset", path="") == ".venv/bin/levelset"


def test_a_command_of_the_active_environment_has_its_name(clone: Path) -> None:
    assert script_path("levelset", path=str(clone / ".venv/bin")) == "levelset"


def test_a_command_of_another_environment_on_the_path_is_not_meant(clone: Path) -> None:
    program(clone / "other", "levelset")
    assert script_path("levelset", path=str(clone / "other")) == ".venv/bin/levelset"


def test_outside_of_the_directory_the_path_is_absolute_and_quoted(
    clone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = program(tmp_path_factory.mktemp("an environment") / "bin", "levelset")
    monkeypatch.setattr(sys, "executable", str(elsewhere.parent / "python"))
    assert script_path("levelset", path="") == f"'{elsewhere}'"


def test_a_program_that_is_not_of_this_environment_stays_as_it_is(clone: Path) -> None:
    assert script_path("curl", path="") == "curl"


def test_kubectl_gets_the_kubeconfig(clone: Path) -> None:
    program(clone / "bin", "kubectl")
    assert HintSpelling(Path("my config"), path=str(clone / "bin")).spell(HINTS) == [
        "kubectl --kubeconfig 'my config' apply -f examples/",
        "kubectl --kubeconfig 'my config' get pods",
        ".venv/bin/levelset status",
    ]


def test_without_kubectl_the_hints_are_those_that_work(clone: Path) -> None:
    spelling = HintSpelling(Path("k"), path="")
    assert not spelling.has_kubectl
    assert spelling.spell(HINTS) == [
        ".venv/bin/levelset install -f examples/ --kubeconfig k",
        ".venv/bin/levelset status",
    ]


def test_a_hint_with_kubectl_alone_is_kept(clone: Path) -> None:
    assert HintSpelling(Path("k"), path="").spell(["kubectl get pods"]) == ["kubectl --kubeconfig k get pods"]


def test_a_package_is_installed_into_this_environment(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PATH", str(clone / "bin"))
    assert install_command("uvloop") == "python3 -m pip --python .venv/bin/python install uvloop"
    program(clone / "bin", "uv")
    assert install_command("uvloop") == "uv pip install --python .venv/bin/python uvloop"
    (clone / "site/pip").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(clone / "site")])
    assert install_command("uvloop") == ".venv/bin/python -m pip install uvloop"


def test_beside_a_cluster_the_hints_name_it(clone: Path) -> None:
    both = program(clone / "bin", "kubectl").parent
    own = ".venv/bin/levelset status"
    assert cluster_hints(["goods"], "a b", "shop", path=str(both)) == [
        "kubectl --kubeconfig 'a b' --context shop get goods",
        own,
    ]
    assert cluster_hints(["goods"], None, None, path="") == [own]
