"""The classes and the schemas of the built-in kinds."""

import json
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from levelset.kinds import MODULES
from levelset.objects import Object

__all__ = ["KINDS", "MODULE_NAMES", "definitions", "kind_class", "reference", "schema_of_kind"]

DATA = Path(__file__).parents[2] / "src" / "levelset" / "apiserver" / "data"
INDEX: dict[str, dict[str, str]] = json.loads((DATA / "index.json").read_text())
MODULE_NAMES = sorted(set(MODULES.values()))


@cache
def documents() -> dict[str, dict[str, Any]]:
    return {version: json.loads((DATA / file).read_text()) for version, file in INDEX["versions"].items()}


@cache
def definitions() -> dict[str, Any]:
    """All schemas by their full names."""
    found: dict[str, Any] = dict(json.loads((DATA / "meta.json").read_text())["definitions"])
    for document in documents().values():
        found |= document["definitions"]
    return found


def _kinds() -> Iterator[tuple[str, str]]:
    for version, document in documents().items():
        for kind in document["kinds"]:
            if not kind.endswith("List"):
                yield version, kind


KINDS = sorted(_kinds())


def kind_class(version: str, kind: str) -> type[Object]:
    """The class of a kind, from the module of its group and version."""
    prefix = schema_name(version, kind).rpartition(".")[0]
    found: type[Object] = getattr(import_module(MODULES[prefix]), kind)
    return found


def schema_name(version: str, kind: str) -> str:
    found: str = documents()[version]["kinds"][kind]
    return found


def schema_of_kind(version: str, kind: str) -> dict[str, Any]:
    """The schema of a kind's objects."""
    found: dict[str, Any] = definitions()[schema_name(version, kind)]
    return found


def reference(schema: dict[str, Any]) -> str | None:
    """The definition that a schema refers to."""
    parts = schema.get("allOf") or [{}]
    found = schema.get("$ref") or parts[0].get("$ref")
    return found.rsplit("/", 1)[-1] if found else None
