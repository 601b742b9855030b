"""Packages whose names are imported on first use: a program pays for the parts that it uses, not for all of them.

```python
if TYPE_CHECKING:
    from levelset.http.server import Server

__all__ = ["Server"]

__getattr__, __dir__ = late_exports(__name__, {"levelset.http.server": "Server"})
```

Type checkers and editors read the imports, which `tests/project/test_late_exports.py` compares with the table.
A name that is also the name of a module of the package cannot be late: importing that module would replace it.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["late_exports"]


def late_exports(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package that exports `modules`: names, separated by spaces, of each module.

    `apply:server_side_apply` exports the name `apply` of the module as `server_side_apply`.
    """
    found = vars(sys.modules[package])
    where: dict[str, tuple[str, str]] = {}
    for module, names in modules.items():
        for name, _, alias in (text.partition(":") for text in names.split()):
            where[alias or name] = (module, name)
    # As if the package had imported them: `import levelset` is enough for `levelset.errors`.
    parts = {module[len(package) + 1 :].partition(".")[0] for module in modules if module.startswith(f"{package}.")}

    def get(name: str) -> Any:
        if name in where:
            module, original = where[name]
            value = found[name] = getattr(import_module(module), original)
            return value
        if name in parts:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted({*found, *where})

    return get, list_names
