"""The disk size of an installation, measured in the current environment."""

from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import levelset

MIB = 1024 * 1024


def closure(name: str, extras: tuple[str, ...] = ()) -> dict[str, Distribution]:
    """A distribution and its dependencies, by name; extras count only where they are requested."""
    found: dict[str, Distribution] = {}
    pending = [(name, extras)]
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        found[one[0]] = distribution(one[0])
        for line in found[one[0]].requires or ():
            requirement = Requirement(line)
            if any(_applies(requirement, extra) for extra in (*one[1], "")):
                pending.append((requirement.name.lower(), tuple(sorted(requirement.extras))))
    return found


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def size(found: Distribution) -> int:
    paths = {Path(file.locate()) for file in found.files or ()}
    return sum(path.stat().st_size for path in paths if path.is_file() and path.suffix != ".pyc")


def source_size() -> int:
    root = Path(levelset.__path__[0])
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")


@pytest.mark.parametrize(("extras", "most"), [((), 15), (("cli", "tls"), 45)], ids=["bare", "server, command and TLS"])
def test_an_installation_is_small(extras, most):
    installed = closure("levelset", extras)
    total = source_size() + sum(size(one) for name, one in installed.items() if name != "levelset")
    assert total <= most * MIB, {name: f"{size(one) / MIB:.1f} MiB" for name, one in installed.items()}
