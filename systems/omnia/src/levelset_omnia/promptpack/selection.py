"""Selects the version of a pack that an agent uses, and the canary version beside it.

PromptPacks with the same pack name are versions of one pack: the name is the label `omnia.altairalabs.ai/promptpack`,
or the object's own name without it. So a pack is one object whose version changes, or several objects with one version
each, or both; agents see no difference.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from levelset import Index
from levelset_omnia.kinds import AgentRuntime, PromptPack, PromptPackRef, Revision
from levelset_omnia.kinds.values import Version, is_same_version
from levelset_omnia.well_known import PACK_LABEL, STABLE

__all__ = ["AGENTS", "PACKS", "Choice", "PackVersion", "agent_pack_keys", "pack_keys", "pack_name", "select"]

_LOWEST = Version((-1, -1, -1))


def pack_name(pack: PromptPack) -> str:
    """The name of the pack that an object is a version of."""
    return pack.metadata.labels.get(PACK_LABEL) or pack.name


def pack_keys(pack: PromptPack) -> list[tuple[str | None, str]]:
    """The index key of the pack that an object is a version of."""
    return [(pack.namespace, pack_name(pack))]


def agent_pack_keys(agent: AgentRuntime) -> list[tuple[str | None, str]]:
    """The index key of the pack that an agent uses."""
    return [(agent.namespace, agent.spec.prompt_pack_ref.name)]


PACKS: Index[Any] = Index(PromptPack, pack_keys)
"""The versions of a pack by its key."""
AGENTS: Index[Any] = Index(AgentRuntime, agent_pack_keys)
"""The agents that use a pack by its key."""


class PackVersion(Struct, frozen=True):
    """A version of a pack, and the PromptPack that provides it."""

    pack: PromptPack
    revision: Revision

    @property
    def version(self) -> Version:
        """The parsed version; one that is malformed sorts before all others."""
        return Version.parse(self.revision.version) or _LOWEST


class Choice(Struct, frozen=True):
    """What an agent runs: the stable version, and optionally a canary version for a share of its traffic."""

    stable: PackVersion
    candidate: PackVersion | None = None
    weight: int = 0
    """The share of the candidate, in percent."""


def select(packs: Iterable[PromptPack], wanted: PromptPackRef) -> Choice | None:
    """The choice of an agent among the versions of its pack; None if none matches."""
    present = [one for one in packs if one.metadata.deletion_timestamp is None]
    active, canaries = list(_active(present)), list(_canaries(present))
    if not active and not canaries:
        active = [PackVersion(one, revision) for one in present if (revision := _declared(one)) is not None]
    if wanted.version is not None:
        found = _pinned([*active, *canaries], wanted.version)
        return None if found is None else Choice(found)
    newest = _newest([one for one in active if _is_on_track(one, wanted.track)])
    candidate = _newest([one for one in canaries if _is_on_track(one, wanted.track)])
    if newest is None:
        return None if candidate is None else Choice(candidate)
    if candidate is None or (candidate.pack.name != newest.pack.name and candidate.version <= newest.version):
        return Choice(newest)
    return Choice(newest, candidate, _weight(candidate.pack))


def _active(packs: Iterable[PromptPack]) -> Iterator[PackVersion]:
    for one in packs:
        if one.status is not None and one.status.active is not None and not _is_broken(one):
            yield PackVersion(one, one.status.active)


def _canaries(packs: Iterable[PromptPack]) -> Iterator[PackVersion]:
    for one in packs:
        if one.status is not None and one.status.canary is not None:
            yield PackVersion(one, one.status.canary)


def _is_broken(pack: PromptPack) -> bool:
    """Whether the active prompts are those whose source is invalid now."""
    status, named = pack.status, pack.spec.source.config_map_ref
    if status is None or status.phase != "Failed" or status.active is None or status.rolled_back is not None:
        return False
    return named is None or status.active.config_map == named.name


def _declared(pack: PromptPack) -> Revision | None:
    """The revision in the spec of a pack that was not reconciled yet."""
    named = pack.spec.source.config_map_ref
    if named is None or (pack.status is not None and pack.status.phase is not None):
        return None
    return Revision(version=pack.spec.version, config_map=named.name)


def _pinned(versions: Sequence[PackVersion], version: str) -> PackVersion | None:
    return next((one for one in versions if is_same_version(one.revision.version, version)), None)


def _newest(versions: Sequence[PackVersion]) -> PackVersion | None:
    return max(versions, key=lambda one: (one.version, one.pack.name), default=None)


def _is_on_track(version: PackVersion, track: str) -> bool:
    # Without the label the object is the whole pack: a prerelease in its spec is meant to be used.
    return track != STABLE or not version.version.is_prerelease or PACK_LABEL not in version.pack.metadata.labels


def _weight(pack: PromptPack) -> int:
    return 0 if pack.status is None else pack.status.canary_weight or 0
