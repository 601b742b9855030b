"""Follows everything that is stored during a run: who changed what, which invariant broke, and what is there now."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutine
from typing import Any, Final

from levelset.apiserver.served import Served
from levelset.exploring.exploration import Invariant
from levelset.exploring.plans import At
from levelset.exploring.recording import ACTING, CAUSE, LEASE, Recording
from levelset.exploring.runs import Broken, Change
from levelset.exploring.states import Key, State, Tree
from levelset.objects import codec
from levelset.testing.calls import OWN_KINDS

__all__ = ["Following"]


_UNSEEN: Final = OWN_KINDS | {("apiextensions.k8s.io", "CustomResourceDefinition")}
"""Nobody's work, or made when a kind is first used."""


@dataclass(eq=False)
class Following:
    """A listener of the server. `on_change` is told of each change with its number among those of its kind."""

    recording: Recording
    state: State
    invariants: Sequence[Invariant]
    revision: Callable[[], int]
    now: Callable[[], float]
    on_change: Callable[[str, int, int], None]
    changes: list[Change] = field(default_factory=list[Change])
    broken: list[Broken] = field(default_factory=list[Broken])
    uids: dict[str, Key] = field(default_factory=dict[str, Key])
    """All objects that there ever were."""
    made: Counter[At] = field(default_factory=Counter[At])
    """How many revisions each call has made."""
    holder: str = ""
    _numbers: Counter[str] = field(default_factory=Counter[str])
    _failing: set[str] = field(default_factory=set[str])

    def __call__(self, served: Served, before: Tree | None, after: Tree | None) -> None:
        """Is told of a committed write."""
        if (served.group, served.kind) in _UNSEEN:
            if served.kind == "Lease" and after is not None and after["metadata"]["name"] == LEASE:
                spec: Tree = after.get("spec") or {}
                self.holder = spec.get("holderIdentity") or ""
            return
        change = self._note(served, before, after)
        self._numbers[change.kind] += 1
        self.on_change(change.kind, self._numbers[change.kind], change.revision)
        self._check(change)

    def _note(self, served: Served, before: Tree | None, after: Tree | None) -> Change:
        tree: Any = before if after is None else after
        metadata = tree["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        key: Key = served.group, served.kind, namespace, name
        prefix = metadata.get("generateName", "")
        if prefix and before is None:
            self.recording.note_generated(served.kind, namespace, name, prefix)
        process, by = ACTING.get() or ("server", None)
        if by is not None:
            self.made[by] += 1
        cause = CAUSE.get()
        change = Change(
            revision=self.revision(),
            at=self.now(),
            key=key,
            before=_uid(before),
            after=_uid(after),
            prefix=prefix,
            process=process,
            by=by,
            holder=self.holder,
            controller="" if cause is None or by is None else cause.controller,
            content=_content(tree) if prefix else "",
        )
        self.changes.append(change)
        self.uids[metadata.get("uid", "")] = key
        self.state.revision, self.state.at = change.revision, change.at
        self.state.put(key, after)
        return change

    def _check(self, change: Change) -> None:
        for one in self.invariants:
            name = getattr(one, "__name__", repr(one))
            try:
                said = one(self.state)
                words = f"{name} is not so" if said is False else None
                if iscoroutine(said):
                    said.close()
                    words = f"{name} is no plain function, so that nobody hears what it says; write `def`"
            except AssertionError as error:
                words = str(error).split("\n", 1)[0] or f"{name} is not so"
            except Exception as error:  # noqa: BLE001 -- the user's function; that it fails is the finding
                words = f"{name} has failed itself: {type(error).__name__}: {error}"
            if words is None:
                self._failing.discard(name)
            elif name not in self._failing:
                self._failing.add(name)
                self.broken.append(Broken(name, words, change))


def _content(tree: Tree) -> str:
    return codec.encode_tree({name: tree[name] for name in sorted(tree) if name not in {"metadata", "status"}}).decode()


def _uid(tree: Tree | None) -> str | None:
    return None if tree is None else tree["metadata"].get("uid", "")
