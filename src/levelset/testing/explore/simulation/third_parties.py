"""Other writers in a run: they delete and edit what controllers wrote, delete the namespace, and change specs."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from levelset.apiserver.server import ApiServer
from levelset.client.client import Client
from levelset.client.patches import MergePatch
from levelset.errors import ApiError
from levelset.objects import parse_api_version
from levelset.objects.json_tree import is_map
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.testing.explore.faults.disturbance import Disturbance, StepName
from levelset.testing.explore.faults.environment_faults import (
    ChildDeleted,
    ChildEdited,
    FinalizerRemoved,
    LabelChanged,
    NamespaceDeleted,
    ObjectTouched,
    SpecChanged,
    ThirdParty,
)
from levelset.testing.explore.records.normalize import find_locations
from levelset.testing.explore.records.run_result import Target
from levelset.testing.explore.records.stored_state import Key, Tree
from levelset.testing.explore.simulation.operations import spec_changes
from levelset.testing.explore.simulation.processes import ChangeRecorder
from levelset.testing.explore.simulation.trace_recorder import ACTING, Recording

__all__ = ["OTHER", "ThirdParties", "delay_garbage_collection"]

OTHER: Final = "another"
"""The process name of other writers in a trace."""
_NOT_CONTROLLERS: Final = frozenset({"user", "levelset-testing", OTHER, ""})
_CONTENT: Final = frozenset({"apply", "patch", "update"})
_PEOPLE: Final = frozenset({"user", "server", OTHER})
_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_TOUCHED: Final = ("metadata", "annotations", "explore.levelset.dev/touched")
"""The annotation that another writer sets and removes."""


@dataclass(eq=False)
class ThirdParties:
    """The other writers of one run."""

    client: Client
    recorder: ChangeRecorder
    recording: Recording
    namespace: str
    _before: tuple[Ref[Any], Tree] | None = None

    async def restore(self, at: StepName) -> None:
        """Restores what was changed last and is to be restored."""
        if self._before is None:
            return
        token = ACTING.set((OTHER, at))
        try:
            await self._patch(*self._before)
        except ApiError:
            return
        finally:
            ACTING.reset(token)

    def user_objects(self) -> dict[Key, Tree]:
        """The objects that users have created and that are there."""
        made = dict.fromkeys(one.key for one in self.recorder.changes if one.before is None and one.process == "user")
        trees = dict(self.recorder.state.trees())
        return {key: trees[key] for key in made if key in trees and "deletionTimestamp" not in trees[key]["metadata"]}

    def operations(self, schemas: Mapping[tuple[str, str], Tree]) -> Iterator[SpecChanged]:
        """The changes of specs that a user could make now; `schemas` are those of specs, by group and kind."""
        trees = dict(self.recorder.state.trees())
        users = self.user_objects()
        names = {key[3] for key in trees}
        texts = [msgspec.json.encode(tree).decode() for key, tree in trees.items() if key not in users]

        def may_change(text: str) -> bool | None:
            return None if text in names else any(f'"{text}"' in one for one in texts)

        for key, where in self._locations(users).items():
            if key[:2] in schemas and is_map(users[key].get("spec")):
                yield from spec_changes(where, users[key]["spec"], schemas[key[:2]], may_change=may_change)

    async def act(self, one: Disturbance, at: StepName) -> bool:
        """Does what a disturbance says; returns whether there was something to do."""
        token = ACTING.set((OTHER, at))
        is_done = False
        try:
            is_done = await self._act(one)
        except ApiError:
            is_done = False  # such as a field that must not be changed
        finally:
            ACTING.reset(token)
            outcome = "done" if is_done else "nothing to do"
            self.recording.add(OTHER, "disturb", at, outcome=outcome, disturbance=one.id)
        return is_done

    async def _act(self, one: Disturbance) -> bool:
        if isinstance(one, NamespaceDeleted):
            await self.client.delete(Ref(_NAMESPACE, self.namespace))
            return True
        if not isinstance(one, ThirdParty | SpecChanged):
            return False
        found = self._find(one.target)
        if found is None:
            return False
        ref, tree = _ref(found[0], found[1]), found[1]
        match one:
            case ChildDeleted():
                await self.client.delete(ref)
                return True
            case ChildEdited():
                return await self._patch(ref, _edit(next(_managed(tree, _is_content), None), tree))
            case LabelChanged():
                return await self._patch(ref, _edit(next(_managed(tree, _is_label), None), tree))
            case FinalizerRemoved():
                return await self._patch(ref, {"metadata": {"finalizers": None}})
            case ObjectTouched():
                self._before = ref, _nested(_TOUCHED, None)
                return await self._patch(ref, _nested(_TOUCHED, "yes"))
            case SpecChanged(_, path, value):
                where = ("spec", *path.split("."))
                wanted = msgspec.json.decode(value) if value else None
                self._before = ref, _nested(where, _value(tree, where))
                return await self._patch(ref, _nested(where, wanted))
            case _:
                return False

    async def _patch(self, ref: Ref[Any], patch: Tree | None) -> bool:
        if patch is None:
            return False
        await self.client.patch(ref, MergePatch(patch))
        return True

    def _find(self, target: str) -> tuple[Key, Tree] | None:
        """The first object of a location."""
        trees = dict(self.recorder.state.trees())
        return next(((key, trees[key]) for key, where in self._locations(trees).items() if where == target), None)

    def _locations(self, trees: Mapping[Key, Tree]) -> dict[Key, str]:
        keys = [(key, tree["metadata"].get("generateName", "")) for key, tree in trees.items()]
        return find_locations(keys, trees.items(), self.recorder.uids, self.recording.generated)

    def targets(self, at: StepName, watched: set[str]) -> Iterator[Target]:
        """What controllers have written and is there now: what another writer could change at this moment."""
        trees = dict(self.recorder.state.trees())
        users = self.user_objects()
        made, written = set[Key](), set[Key]()
        for one in self.recorder.changes:
            if one.process in _PEOPLE or one.by is None or one.by.action.endswith("/status"):
                continue
            if one.before is None:
                made.add(one.key)
            if one.by.verb in _CONTENT:
                written.add(one.key)
        for key, where in self._locations(trees).items():
            metadata = trees[key]["metadata"]
            if "deletionTimestamp" in metadata:
                continue
            is_child = key in made and (key[1] in watched or "ownerReferences" in metadata)
            is_written = is_child and key in written
            yield Target(
                at,
                where,
                is_child=is_child,
                is_content=is_written and any(True for _ in _managed(trees[key], _is_content)),
                has_label=is_written and any(True for _ in _managed(trees[key], _is_label)),
                has_finalizer=bool(metadata.get("finalizers")) and bool(_managers(trees[key])),
                is_touchable=key in users and key[1] in watched,
            )


def _ref(key: Key, tree: Tree) -> Ref[Any]:
    group, version = parse_api_version(tree["apiVersion"])
    return Ref(GroupVersionKind(group, version, key[1]), key[3], key[2] or None)


def _managers(tree: Tree) -> list[Tree]:
    """The entries of managedFields of controllers, without those of subresources."""
    entries: list[Tree] = tree["metadata"].get("managedFields") or []
    return [one for one in entries if one.get("manager", "") not in _NOT_CONTROLLERS and not one.get("subresource")]


def _managed(tree: Tree, is_wanted: Callable[[tuple[str, ...]], bool]) -> Iterator[tuple[str, ...]]:
    """The paths of the text and number fields that controllers manage."""
    for entry in _managers(tree):
        for path in _paths(entry.get("fieldsV1") or {}, ()):
            if is_wanted(path) and isinstance(_value(tree, path), str | int):
                yield path


def _paths(fields: Tree, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name in sorted(fields):
        if name.startswith("f:"):
            inner = fields[name]
            yield from _paths(inner, (*path, name[2:])) if inner else iter([(*path, name[2:])])


def _is_content(path: tuple[str, ...]) -> bool:
    return path[0] not in {"apiVersion", "kind", "metadata", "status"}


def _is_label(path: tuple[str, ...]) -> bool:
    return path[:2] == ("metadata", "labels") and len(path) == 3


def _value(tree: Tree, path: tuple[str, ...]) -> Any:
    found: Any = tree
    for name in path:
        found = found.get(name) if is_map(found) else None
    return found


def _edit(path: tuple[str, ...] | None, tree: Tree) -> Tree | None:
    """The merge patch that changes a field to another value of its type."""
    if path is None:
        return None
    value = _value(tree, path)
    if isinstance(value, bool):
        return _nested(path, not value)
    return _nested(path, value + 1 if isinstance(value, int) else f"{value}-edited")


def _nested(path: tuple[str, ...], value: Any) -> Tree:
    made: Any = value
    for name in reversed(path):
        made = {name: made}
    found: Tree = made
    return found


def delay_garbage_collection(server: ApiServer, seconds: float) -> None:
    """Lets the garbage collector of a server see each write so many seconds late."""
    loop, listeners = asyncio.get_running_loop(), server.state.listeners
    for index, listener in enumerate(listeners):
        if type(getattr(listener, "__self__", None)).__name__ == "GarbageCollector":
            listeners[index] = _delayed(loop, listener, seconds)


def _delayed(loop: asyncio.AbstractEventLoop, listener: Any, seconds: float) -> Any:
    def notify(*write: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_later(seconds, listener, *write)

    return notify
