"""The packages: one version for all, what a wheel and an sdist contain, and what is wrong with one."""

import importlib.metadata
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from scripts.build_packages import Package, build_package, problems_of
from scripts.environment import PACKAGES

from tests.project.files import ROOT

LEVELSET, *SYSTEMS = (ROOT / path for path in PACKAGES)


def project(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    return settings


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Package]:
    """The smallest and the largest system."""
    folder = tmp_path_factory.mktemp("packages")
    return {name: build_package(ROOT / "systems" / name, folder) for name in ("machine", "dcp")}


@pytest.mark.parametrize("folder", SYSTEMS, ids=lambda path: path.name)
def test_a_system_takes_its_version_from_the_project(folder: Path) -> None:
    settings = project(folder)
    assert "version" not in settings["project"]
    assert settings["project"]["dynamic"] == ["version"]
    assert (folder / settings["tool"]["hatch"]["version"]["path"]).resolve() == ROOT / "pyproject.toml"
    assert importlib.metadata.version(settings["project"]["name"]) == project(LEVELSET)["project"]["version"]


@pytest.mark.parametrize("folder", SYSTEMS, ids=lambda path: path.name)
def test_a_system_is_described_as_levelset_is(folder: Path) -> None:
    own, whole = project(folder)["project"], project(LEVELSET)["project"]
    for field in ("requires-python", "license", "license-files", "authors", "readme"):
        assert own[field] == whole[field], field
    assert set(own["classifiers"]) <= set(whole["classifiers"])
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["machine", "dcp"])
def test_a_package_is_built_alone_and_again_from_its_sdist(built: dict[str, Package], name: str) -> None:
    assert problems_of(built[name]) == []
    assert built[name].version == project(LEVELSET)["project"]["version"]
    assert built[name].module == f"levelset_{name}"


@pytest.mark.slow
def test_a_wheel_without_types_and_with_tests_is_refused(built: dict[str, Package], tmp_path: Path) -> None:
    good = built["machine"]
    bad = Package(good.source, good.sdist, tmp_path / good.wheel.name)
    with zipfile.ZipFile(good.wheel) as source, zipfile.ZipFile(bad.wheel, "w") as target:
        for entry in source.namelist():
            if not entry.endswith(("/py.typed", "/LICENSE", "/scratch.py")):
                target.writestr(entry, source.read(entry))
        target.writestr("levelset_machine/tests/test_it.py", "")
        target.writestr("conftest.py", "")
    assert {problem.partition(": ")[2] for problem in problems_of(bad)} == {
        "conftest.py is outside of the package levelset_machine",
        "conftest.py is for development only",
        "levelset_machine/tests/test_it.py is for development only",
        "levelset_machine/py.typed is missing",
        "levelset_machine/scratch.py is missing",
        f"levelset_machine-{good.version}.dist-info/licenses/LICENSE is missing",
        f"the wheel that is built from it differs from {good.wheel.name}",
    }
