"""The pytest plugin of the explorer: a function marked `explore` returns an Exploration, which is run as a test.

```python
@pytest.mark.explore(budget=50)
def test_websites_survive_everything() -> Exploration:
    return Exploration(scenario, make_controllers, invariants=[one_deployment_each])
```

pytest finds the plugin by its entry point. `--explore-budget` and `--explore-seed` override the marks, so that a
nightly run can explore more. `--explore-replay` runs one plan again; every failure report ends with that command.
"""

import inspect
import os
from collections.abc import Mapping
from typing import Any, Final

import pytest

__all__ = ["pytest_addoption", "pytest_configure", "pytest_pyfunc_call"]

_OPTIONS: Final = frozenset({"budget", "seed", "within"})
_COMMAND: Final = ("pytest", "{target}", "--explore-seed", "{seed}", "--explore-replay", "{plan}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    options = parser.getgroup("levelset", "levelset: explorations")
    options.addoption(
        "--explore-budget", metavar="PLANS", type=int, help="the maximum number of plans of each exploration"
    )
    options.addoption("--explore-seed", metavar="SEED", type=int, help="the random seed of each exploration")
    options.addoption("--explore-replay", metavar="ID", help="run only this plan, and show its report")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark."""
    words = "run the Exploration (or the list of them) that the function returns"
    config.addinivalue_line("markers", f"explore(budget=200, seed=1, within=None): {words}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs the Exploration of a marked function; other tests are unchanged."""
    mark = pyfuncitem.get_closest_marker("explore")
    if mark is None:
        return None
    # Imported late: the explorer imports the server, and pytest loads this plugin in every project.
    from levelset.testing.explore.search import explore, replay_story  # noqa: PLC0415

    options: dict[str, Any] = {"seed": 1, **_marked(mark), **_given(pyfuncitem.config)}
    names = pyfuncitem._fixtureinfo.argnames  # pyright: ignore[reportPrivateUsage] - pytest has no other way
    made: Any = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    plan = pyfuncitem.config.getoption("--explore-replay")
    for one in _explorations(made, pyfuncitem.name):
        if plan is not None:
            story = replay_story(one, plan, seed=options["seed"])
        else:
            report = explore(one, target=_target(pyfuncitem), command=_COMMAND, **options)
            story = "" if report.ok else report.story()
        if story:
            pytest.fail(story, pytrace=False)
    return True


def _target(item: pytest.Function) -> str:
    """The node id of the test, relative to the directory in which pytest was started."""
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    return f"{path}::{item.nodeid.partition('::')[2]}"


def _marked(mark: pytest.Mark) -> Mapping[str, Any]:
    unknown = [*map(repr, mark.args), *(mark.kwargs.keys() - _OPTIONS)]
    if unknown:
        pytest.fail(f"explore({', '.join(unknown)}): the mark takes only {', '.join(sorted(_OPTIONS))}", pytrace=False)
    return mark.kwargs


def _given(config: pytest.Config) -> dict[str, int]:
    values = {"budget": config.getoption("--explore-budget"), "seed": config.getoption("--explore-seed")}
    return {name: value for name, value in values.items() if value is not None}


def _explorations(made: Any, name: str) -> list[Any]:
    from levelset.testing.explore.exploration import Exploration  # noqa: PLC0415  # as above

    if inspect.iscoroutine(made):
        made.close()
        pytest.fail(
            f"{name} is marked `explore` and async; write `def`: the explorer runs its own event loops", pytrace=False
        )
    many: list[Any] = [*made] if isinstance(made, list | tuple) else [made]
    if not many or not all(isinstance(one, Exploration) for one in many):
        pytest.fail(f"{name} is marked `explore` and returned {made!r}; return an Exploration", pytrace=False)
    return many
