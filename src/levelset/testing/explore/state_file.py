"""The state file of an exploration: one line of JSON for each plan that was run, so that it can be continued.

A file that was cut off in the middle of a line, as by a kill, is continued after its last whole line.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from levelset.errors import ConfigError
from levelset.testing.explore.planning.plan_outcome import PlanOutcome

__all__ = ["StateFile"]

_VERSION: Final = 1


class StateFile:
    """The outcomes of one exploration in a file, which may hold those of several.

    `name`, `seed` and `digest`, that of the undisturbed run, tell whether the outcomes belong to this exploration:
    ConfigError if the scenario or the controllers have changed since.
    """

    def __init__(self, path: Path, *, name: str, seed: int, digest: str) -> None:
        self._path = path
        self._identity = {"exploration": name, "seed": seed}
        self._digest = digest
        self._known = list(self._read())

    def take(self, plan_id: str) -> PlanOutcome | None:
        """The next outcome in the file if it is that of this plan; those after another plan are not used."""
        if self._known and self._known[0].plan.id == plan_id:
            return self._known.pop(0)
        self._known.clear()
        return None

    def add(self, outcome: PlanOutcome) -> None:
        """Appends an outcome."""
        line = json.dumps({**self._identity, **outcome.to_tree()}, ensure_ascii=False)
        self._write(line)

    def _read(self) -> Iterator[PlanOutcome]:
        is_begun = False
        for tree in self._lines():
            if {name: tree.get(name) for name in self._identity} != self._identity:
                continue
            if "digest" in tree:
                self._check(tree)
                is_begun = True
            else:
                yield PlanOutcome.from_tree(tree)
        if not is_begun:
            self._write(json.dumps({**self._identity, "version": _VERSION, "digest": self._digest}))

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the state file {self._path} cannot be read: {error}") from error
        whole, _, rest = text.rpartition("\n")
        if rest:
            self._path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
        for line in whole.splitlines():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ConfigError(
                    f"{self._path} is no state file of an exploration: {error}; name another one"
                ) from error

    def _check(self, tree: dict[str, Any]) -> None:
        if tree.get("version") != _VERSION or tree["digest"] != self._digest:
            raise ConfigError(
                f"the state file {self._path} belongs to another version of {self._identity['exploration']}: the "
                "scenario or the controllers have changed since; delete it to start again"
            )

    def _write(self, line: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise ConfigError(f"the state file {self._path} cannot be written: {error.strerror}") from error
