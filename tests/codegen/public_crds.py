"""CRDs of well-known projects, and the modules generated from them; see crds/README.md."""

import gzip
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from levelset.codegen.models.from_crd import models_from_crd

__all__ = ["NAMES", "document", "load", "modules", "sources"]

FOLDER = Path(__file__).parent / "crds"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    return found


@cache
def sources(name: str) -> dict[str, str]:
    return dict(models_from_crd(document(name)))


@cache
def modules(name: str) -> dict[str, ModuleType]:
    """The modules of a CRD, by version."""
    return {
        file.removesuffix(".py").rpartition("_")[2]: load(
            f"generated_{name.replace('.', '_').replace('-', '_')}_{file[:-3]}", text
        )
        for file, text in sources(name).items()
    }


def load(name: str, source: str) -> ModuleType:
    """Executes the source as a module and registers it under this name."""
    module = sys.modules[name] = ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module
