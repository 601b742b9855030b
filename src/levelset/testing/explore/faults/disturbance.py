"""The base of all disturbances: what goes wrong in a run, bound to a step that is named by its content."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final
from urllib.parse import quote, unquote

import msgspec

__all__ = ["OUTSIDE", "SCENARIO_END", "Disturbance", "StepName", "parse_step_name"]

_SAFE: Final = "/~@,!=$"
OUTSIDE: Final = "outside"
"""The verb of calls to the world outside of the API: `outside Cloud.create(blog)`."""


class StepName(msgspec.Struct, frozen=True, order=True):
    """The name of a step: the n-th time (from 1) that an action happens, in any process.

    `action` is the verb and the object: `patch Website/default/blog/status`. A generated name is shown as its prefix
    and `~`: `delete ConfigMap/default/fleet-~`. A reconcile is a step too: `reconcile websites/Website/default/blog`.
    """

    action: str
    number: int = 1

    def __str__(self) -> str:
        return f"{self.action}#{self.number}"

    @property
    def verb(self) -> str:
        """The first word."""
        return self.action.split(" ", 1)[0]

    @property
    def kind(self) -> str:
        """The kind of the object; of a call to the outside, its method."""
        if self.verb == OUTSIDE:
            return self.action.split(" ", 1)[-1].split("(", 1)[0]
        rest = self.action.split(" ", 1)[-1].split("/")
        return rest[1] if self.verb == "reconcile" and len(rest) > 1 else rest[0]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One thing that goes wrong."""

    word: ClassVar[str] = ""

    @property
    def id(self) -> str:
        """The disturbance as a short text without spaces."""
        return ":".join([self.word, *(_format(getattr(self, one.name)) for one in fields(self))])

    @property
    def step(self) -> "StepName | None":
        """The step that it is bound to, if any."""
        at: StepName | None = getattr(self, "at", None)
        return at

    def __str__(self) -> str:
        return self.id


def _format(value: Any) -> str:
    if isinstance(value, StepName):
        return f"{quote(value.action.replace(' ', '.', 1), safe=_SAFE)}#{value.number}"
    return f"{value:g}" if isinstance(value, float) else quote(str(value), safe=_SAFE)


def parse_step_name(text: str) -> StepName:
    """The step with this text, as in the id of a disturbance."""
    action, _, number = text.rpartition("#")
    return StepName(unquote(action).replace(".", " ", 1), int(number))


SCENARIO_END: Final = StepName("end scenario")
"""The moment after the scenario, when the controllers have settled."""
