"""Loads the programs of the examples' folder, whose names begin with a number, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["load"]

FOLDER = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    """The module of an example; its main part does not run."""
    found = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module
