"""Explorations in a test suite: a function marked `explore` gives one, and its story is shown if something breaks.

```python
@pytest.mark.explore(budget=50)
def test_websites_survive_everything() -> Exploration:
    return Exploration(scenario, make_controllers, invariants=[one_deployment_each])
```

pytest finds this by itself once levelset is installed. `--explore-budget` and `--explore-seed` win over the marks, so
that a nightly run can look further than everyday's. `--explore-replay` plays one plan again: a story ends with the
command.
"""

import inspect
import os
from collections.abc import Mapping
from typing import Any, Final

import pytest

__all__ = ["pytest_addoption", "pytest_configure", "pytest_pyfunc_call"]

_BUDGET: Final = 50
_OPTIONS: Final = frozenset({"budget", "seed", "within"})
_COMMAND: Final = ("pytest", "{target}", "--explore-seed", "{seed}", "--explore-replay", "{plan}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    options = parser.getgroup("levelset", "levelset: explorations")
    options.addoption("--explore-budget", metavar="PLANS", type=int, help="how many plans each exploration plays")
    options.addoption("--explore-seed", metavar="SEED", type=int, help="begins the chance in each exploration")
    options.addoption("--explore-replay", metavar="ID", help="plays this plan alone, and shows its story")


def pytest_configure(config: pytest.Config) -> None:
    """Has pytest know the mark."""
    words = "the function returns an Exploration (or several), which is explored"
    config.addinivalue_line("markers", f"explore(budget={_BUDGET}, seed=1, within=None): {words}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Explores what a marked function returns; leaves all others alone."""
    mark = pyfuncitem.get_closest_marker("explore")
    if mark is None:
        return None
    # Late: the explorer brings the server along, and pytest loads this file for everybody.
    from levelset.testing.explore.search import explore, retell  # noqa: PLC0415

    options: dict[str, Any] = {"budget": _BUDGET, "seed": 1, **_marked(mark), **_said(pyfuncitem.config)}
    names = pyfuncitem._fixtureinfo.argnames  # pyright: ignore[reportPrivateUsage] - pytest has no other way
    made: Any = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    plan = pyfuncitem.config.getoption("--explore-replay")
    for one in _explorations(made, pyfuncitem.name):
        if plan is not None:
            told = retell(one, plan, seed=options["seed"])
        else:
            report = explore(one, target=_target(pyfuncitem), command=_COMMAND, **options)
            told = "" if report.ok else report.story()
        if told:
            pytest.fail(told, pytrace=False)
    return True


def _target(item: pytest.Function) -> str:
    """The test as pytest finds it from where it was started."""
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    return f"{path}::{item.nodeid.partition('::')[2]}"


def _marked(mark: pytest.Mark) -> Mapping[str, Any]:
    unknown = [*map(repr, mark.args), *(mark.kwargs.keys() - _OPTIONS)]
    if unknown:
        pytest.fail(f"explore({', '.join(unknown)}): a mark has only {', '.join(sorted(_OPTIONS))}", pytrace=False)
    return mark.kwargs


def _said(config: pytest.Config) -> dict[str, int]:
    said = {"budget": config.getoption("--explore-budget"), "seed": config.getoption("--explore-seed")}
    return {name: value for name, value in said.items() if value is not None}


def _explorations(made: Any, name: str) -> list[Any]:
    from levelset.testing.explore.exploration import Exploration  # noqa: PLC0415  # as above

    if inspect.iscoroutine(made):
        made.close()
        pytest.fail(
            f"{name} is marked `explore` and async; write `def`: exploring runs loops of its own", pytrace=False
        )
    many: list[Any] = [*made] if isinstance(made, list | tuple) else [made]
    if not many or not all(isinstance(one, Exploration) for one in many):
        pytest.fail(f"{name} is marked `explore` and returned {made!r}; return an Exploration", pytrace=False)
    return many
