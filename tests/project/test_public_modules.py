"""Packages import only public modules of each other: the package itself, or a module in public_modules.toml."""

import tomllib
from collections.abc import Iterator
from functools import cache

from tests.project.files import PACKAGE, ROOT, SOURCES, module_name, packages
from tests.project.sources import source

PUBLIC: dict[str, list[str]] = tomllib.loads((ROOT / "tests/project/public_modules.toml").read_text(encoding="utf-8"))[
    "public"
]
MODULES = {module_name(path): path for path in SOURCES if path.is_relative_to(PACKAGE)}
INNER = ("testing.explore", "testing.replay")
PACKAGES = sorted((f"levelset.{name}" for name in [*packages(), *INNER]), key=len, reverse=True)


@cache
def package_of(module: str) -> str:
    """The innermost layered package that a module belongs to; the module itself for `levelset.errors`."""
    return next((one for one in PACKAGES if module == one or module.startswith(f"{one}.")), module)


def crossings() -> Iterator[tuple[str, str]]:
    """(importing module, imported module) for each import between packages."""
    for name, path in MODULES.items():
        if name == "levelset":
            continue
        for statement in source(path).imports:
            for module in statement.modules:
                found = {f"{module}.{one}" if f"{module}.{one}" in MODULES else module for one in statement.names}
                yield from ((name, one) for one in found if one in MODULES and package_of(one) != package_of(name))


def allowed() -> set[str]:
    return {f"levelset.{package}.{module}" for package, modules in PUBLIC.items() for module in modules}


def test_packages_import_only_public_modules_of_each_other() -> None:
    public = allowed()
    private = {pair for pair in crossings() if pair[1] != package_of(pair[1]) and pair[1] not in public}
    assert sorted(private) == []


def test_every_public_module_exists_and_is_used() -> None:
    used = {module for _, module in crossings()}
    assert sorted(allowed() - used) == []
