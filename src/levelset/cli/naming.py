"""The names in a new project, all made from the few that somebody gives; each is checked before a file is written."""

import keyword
import re
import sys
from dataclasses import dataclass
from typing import Final

from levelset.errors import ConfigError
from levelset.objects.definition import plural_of

__all__ = ["KindNames", "ProjectNames", "check_kind", "check_project"]

_PROJECT: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_API: Final = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]+/v[0-9]+((alpha|beta)[0-9]+)?")
_LONGEST: Final = 50
_NEEDED: Final = frozenset(
    ("click", "cryptography", "httptools", "levelset", "msgspec", "mypy", "rich", "ruff", "yaml")
)
_FOLDERS: Final = frozenset(("pytest", "src", "test", "tests"))
"""Packages that a project needs, or that its folders would be taken for: one of the same name would hide them."""
_IMPORTED: Final = frozenset(
    ("Cluster", "Column", "ConfigMap", "Context", "Controller", "Denied", "Forbidden", "Ref", "Resource", "Review")
)
"""What the files of a kind import, besides Spec and Status."""
_TAKEN: Final = frozenset(("operator", "owns", "spec", "status", "webhooks"))
"""What a project calls other things."""


@dataclass(frozen=True, slots=True)
class ProjectNames:
    """A project by its name: `web-shop` is the package `web_shop`."""

    project: str

    @property
    def package(self) -> str:
        """The name of the Python package."""
        return self.project.replace("-", "_")


@dataclass(frozen=True, slots=True)
class KindNames:
    """A kind by its name and its group and version."""

    kind: str
    api: str

    @property
    def module(self) -> str:
        """The name of its module: `web_shop` for WebShop."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.kind).lower()

    @property
    def plural(self) -> str:
        """What its controller is called."""
        return plural_of(self.module)

    @property
    def resource(self) -> str:
        """What kubectl calls it."""
        return plural_of(self.kind)

    @property
    def words(self) -> str:
        """How a sentence calls it."""
        return self.module.replace("_", " ")


def check_project(name: str) -> ProjectNames:
    """The names of a project; ConfigError if Kubernetes or Python could not live with it."""
    made = ProjectNames(name)
    if _PROJECT.fullmatch(name) is None or len(name) > _LONGEST or keyword.iskeyword(made.package):
        raise ConfigError(f"{name!r} is no name for a project: small letters, digits and single -, such as web-shop")
    if made.package in _NEEDED | _FOLDERS | sys.stdlib_module_names:
        hint = f"choose another with --name, such as {name}-operator"
        raise ConfigError(f"a project called {name!r} would hide the Python package {made.package}; {hint}")
    return made


def check_kind(kind: str, api: str) -> KindNames:
    """The names of a kind; ConfigError says which of the two is wrong."""
    if _KIND.fullmatch(kind) is None or any(map(keyword.iskeyword, (kind, KindNames(kind, api).module))):
        raise ConfigError(f"{kind!r} is no name for a kind: letters and digits, a capital first, such as Website")
    _check_clash(KindNames(kind, api))
    if _API.fullmatch(api) is None:
        raise ConfigError(f"{api!r} is no group and version: write for example shop.example.dev/v1")
    return KindNames(kind, api)


def _check_clash(names: KindNames) -> None:
    """Refuses a kind whose files would not work, since other things in them are called the same."""
    hint = f"choose another, such as Shop{names.kind}, or write its module by hand"
    if names.kind in _IMPORTED or {names.module, names.plural} & _TAKEN or names.module.endswith("_webhooks"):
        raise ConfigError(f"a kind called {names.kind!r} would hide something that its own files need; {hint}")
    if names.kind.startswith("Test"):
        raise ConfigError(f"pytest would take a kind called {names.kind!r} for a test; {hint}")
