"""The operators of `make test-operators`: each has its test, and nested modules are those that a project published."""

from pathlib import Path

from scripts.operator_binaries import OPERATORS, main

TESTS = Path(__file__).parents[1] / "operators"


def test_every_operator_has_its_test() -> None:
    tested = {one.stem.removeprefix("test_").replace("_", "-") for one in TESTS.glob("test_*.py")}
    assert set(OPERATORS) - {"helm"} == tested - {"dask"}


def test_versions_are_fixed_and_packages_are_of_the_module() -> None:
    for one in OPERATORS.values():
        assert one.version.startswith("v")
        assert one.package == "." or one.package.startswith("./")


def test_an_unknown_operator_is_a_usage_error() -> None:
    assert main(["nothing"]) == 2
