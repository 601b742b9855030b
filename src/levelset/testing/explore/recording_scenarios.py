"""`recorded_scenario`: a stretch of a recording as the scenario of an exploration.

The objects at its start are created at once, before a controller can act; then others do what they did, at the times at
which they did it. The controllers do whatever they do now.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from levelset.client.client import Client
from levelset.client.internals import with_settings
from levelset.client.patches import MergePatch
from levelset.errors import AlreadyExists, ConfigError, NotFound, UnknownKind
from levelset.objects.ref import Ref
from levelset.runtime.recording import read_recording
from levelset.runtime.recording.recorded_changes import (
    Change,
    Created,
    Deleted,
    ObjectKey,
    Patched,
    Stretch,
    changes_of_others,
    time_of,
)
from levelset.testing.cluster import Cluster
from levelset.testing.explore.exploration import Scenario

__all__ = ["recorded_scenario", "scenario_of"]

Tree = dict[str, Any]
_LONGEST: Final = 600.0
"""Seconds between two steps: a pause of hours says nothing more, and every virtual second of it is simulated."""

_OF_USERS: Final = ("name", "namespace", "labels", "annotations", "finalizers")


def recorded_scenario(
    path: str | Path, *, since: str | None = None, until: str | None = None, only: str | None = None
) -> Scenario:
    """What others did in a recording, as a scenario: changes that its controllers did not make themselves.

    `since` and `until` are times (`12.5s`) or numbers of reconciles, and mark the stretch: what was there at its
    beginning is the initial state. `only` is an object, as `website/blog`: other objects of the kinds that are
    reconciled are left out. BadObject if the file is no recording, ConfigError if there is nothing in the stretch.
    """
    entries = read_recording(path)
    begin = None if since is None else time_of(entries, since, is_end=False)
    end = None if until is None else time_of(entries, until, is_end=True)
    found = changes_of_others(entries, since=begin, until=end, only=only)
    if not found.objects and not found.steps:
        raise ConfigError(f"{path}: no object was there or changed in this stretch; choose a longer one")
    return scenario_of(found, name=Path(path).name)


def scenario_of(stretch: Stretch, *, name: str = "recording") -> Scenario:
    """The scenario of a stretch; a plain function, so that it can be run again and again."""

    async def scenario(cluster: Cluster) -> None:
        others = _Others(cluster)
        await others.create_namespaces(stretch)
        for one in stretch.objects:
            await others.act(one)
        now = stretch.since
        for step in stretch.steps:
            await cluster.advance(min(step.at - now, _LONGEST))
            now = step.at
            await others.act(step)
        await cluster.advance(min(stretch.until - now, _LONGEST))
        await cluster.settled()

    scenario.__name__ = name
    return scenario


class _Others:
    """All clients but the recorded process."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._uids: dict[str, str] = {}
        """The uids of objects in this run, by those in the recording."""

    async def create_namespaces(self, stretch: Stretch) -> None:
        """Creates the namespaces of all objects that do not exist yet."""
        created = [one for one in (*stretch.objects, *stretch.steps) if isinstance(one, Created)]
        for name in dict.fromkeys(one.key.namespace for one in created):
            if name is not None:
                try:
                    await self._cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
                except AlreadyExists:
                    continue

    async def act(self, step: Change) -> None:
        """Does what another client did; what is not possible any more, since the controllers acted, is left out."""
        match step:
            case Created(key=key, tree=tree, manager=manager):
                await self._create(key, tree, manager)
            case Patched(key=key, patch=patch, status=status):
                await self._patch(key, patch, status)
            case Deleted(key=key):
                await self._cluster.delete(_ref(key), missing_ok=True)

    async def _create(self, key: ObjectKey, tree: Tree, manager: str | None) -> None:
        metadata = tree["metadata"]
        wanted = {name: metadata[name] for name in _OF_USERS if name in metadata}
        owners = [self._owner(one) for one in metadata.get("ownerReferences") or ()]
        wanted |= {"ownerReferences": owners} if owners else {}
        rest = {name: value for name, value in tree.items() if name not in {"metadata", "status"}}
        made = {"apiVersion": key.gvk.api_version, "kind": key.gvk.kind, **rest, "metadata": wanted}
        try:
            if manager is None:
                found = await self._cluster.create(made)
            else:
                # As the controller wrote it, so that it can take fields away again.
                client: Client = with_settings(self._cluster, manager=manager)
                found = await client.apply(made, force=True)
        except AlreadyExists:
            found = await self._cluster.get(_ref(key))
        except UnknownKind as error:
            raise ConfigError(
                f"the recording has {key}, whose kind no controller defines; give its class in Exploration.kinds"
            ) from error
        self._uids[metadata.get("uid", "")] = found.metadata.uid or ""
        await self._patch(key, None, {"status": tree["status"]} if tree.get("status") else None)

    async def _patch(self, key: ObjectKey, patch: Tree | None, status: Tree | None) -> None:
        ref = _ref(key)
        try:
            if patch is not None:
                await self._cluster.patch(ref, MergePatch(self._with_owners(patch)))
            if status is not None:
                await self._patch_status(ref, status)
        except NotFound:
            return  # the controllers have deleted it, or did not create it

    async def _patch_status(self, ref: Ref[Any], status: Tree) -> None:
        try:
            await self._cluster.patch(ref, MergePatch(status), subresource="status")
        except NotFound:
            await self._cluster.patch(ref, MergePatch(status))  # a kind without this subresource

    def _with_owners(self, patch: Tree) -> Tree:
        metadata: Tree = patch.get("metadata") or {}
        if not metadata.get("ownerReferences"):
            return patch
        owners = [self._owner(one) for one in metadata["ownerReferences"]]
        return {**patch, "metadata": {**metadata, "ownerReferences": owners}}

    def _owner(self, owner: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**owner, "uid": self._uids.get(owner.get("uid", ""), owner.get("uid", ""))}


def _ref(key: ObjectKey) -> Ref[Any]:
    return Ref(key.gvk, key.name, key.namespace)
