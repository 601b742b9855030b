"""Which reconciles of a recording are meant: those of one object, written as `website/blog`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from levelset.errors import ConfigError
from levelset.runtime.recording.entries import Answer, Begin, ControllerEntry, Entry, Request, Spawn

__all__ = ["Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The reconciles of one object, by these controllers."""

    controllers: frozenset[str]
    name: str
    namespace: str | None

    @classmethod
    def parse(cls, text: str, entries: Sequence[Entry]) -> "Selection":
        """Parses `kind/name` or `kind/namespace/name`; ConfigError names the kinds of the recording."""
        kind, *where = text.split("/")
        if not where or len(where) > 2 or not all(where):
            raise ConfigError(
                f"{text!r} is not an object; write KIND/NAME or KIND/NAMESPACE/NAME, such as website/blog"
            )
        controllers = [one for one in entries if isinstance(one, ControllerEntry)]
        found = [one for one in controllers if kind.lower() in _names_of(one)]
        if not found:
            there = ", ".join(sorted({one.kind for one in controllers})) or "nothing"
            raise ConfigError(f"no controller of this recording reconciles {kind} (they reconcile {there})")
        namespace = where[0] if len(where) == 2 else None
        return cls(frozenset(one.name for one in found), where[-1], namespace)

    def matches(self, begin: Begin) -> bool:
        """Whether a reconcile is meant."""
        namespace, _, name = begin.key.rpartition("/")
        return begin.controller in self.controllers and name == self.name and self.namespace in {None, namespace}

    def filter(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries without those of other reconciles and of their tasks; caches keep everything."""
        tasks, requests, found = set[int](), set[int](), list[Entry]()
        for entry in entries:
            one: Any = entry
            if isinstance(entry, Begin):
                is_meant = self.matches(entry)
                if is_meant:
                    tasks.add(entry.task)
            elif isinstance(entry, Answer):
                is_meant = entry.number in requests
            else:
                is_meant = getattr(one, "task", None) is None or one.task in tasks
            if not is_meant:
                continue
            if isinstance(entry, Spawn):
                tasks.add(entry.child)
            elif isinstance(entry, Request):
                requests.add(entry.number)
            found.append(entry)
        return found


def _names_of(controller: ControllerEntry) -> set[str]:
    kind = controller.kind.lower()
    return {kind, f"{kind}s", controller.name.lower()}
