"""Which version of a pack an agent uses, and which one it tries beside that.

The PromptPacks of one pack are those with the same pack name: that of the label `omnia.altairalabs.ai/promptpack`, or
the object's own name without one. So a pack is either one object whose version changes, or several objects with one
version each, or both; agents see no difference.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from levelset import Index
from levelset_omnia.kinds import AgentRuntime, PromptPack, PromptPackRef, Revision
from levelset_omnia.naming import PACK_LABEL, STABLE
from levelset_omnia.versions import Version, is_same_version

__all__ = ["AGENTS", "PACKS", "Choice", "Use", "offers_pack", "pack_name", "select", "wants_pack"]

_LOWEST = Version((-1, -1, -1))


def pack_name(pack: PromptPack) -> str:
    """The name of the pack that an object is a version of."""
    return pack.metadata.labels.get(PACK_LABEL) or pack.name


def offers_pack(pack: PromptPack) -> list[tuple[str | None, str]]:
    """The pack that an object belongs to, as a value to find it by."""
    return [(pack.namespace, pack_name(pack))]


def wants_pack(agent: AgentRuntime) -> list[tuple[str | None, str]]:
    """The pack that an agent uses, as a value to find it by."""
    return [(agent.namespace, agent.spec.prompt_pack_ref.name)]


PACKS: Index[Any] = Index(PromptPack, offers_pack)
"""Finds the versions of a pack."""
AGENTS: Index[Any] = Index(AgentRuntime, wants_pack)
"""Finds the agents that use a pack."""


@dataclass(frozen=True, slots=True)
class Use:
    """A version of a pack, and the object that it comes from."""

    pack: PromptPack
    revision: Revision

    @property
    def version(self) -> Version:
        """The version, to be compared; one that cannot be read is older than all others."""
        return Version.parse(self.revision.version) or _LOWEST


@dataclass(frozen=True, slots=True)
class Choice:
    """What an agent runs: a version, and perhaps another one for a share of its traffic."""

    stable: Use
    candidate: Use | None = None
    weight: int = 0
    """The share of the candidate, in percent."""


def select(packs: Iterable[PromptPack], wanted: PromptPackRef) -> Choice | None:
    """The choice of an agent among the versions of its pack; None if there is none for it."""
    present = [one for one in packs if one.metadata.deletion_timestamp is None]
    active, tried = list(_active(present)), list(_tried(present))
    if not active and not tried:
        active = [Use(one, revision) for one in present if (revision := _unseen(one)) is not None]
    if wanted.version is not None:
        found = _pinned([*active, *tried], wanted.version)
        return None if found is None else Choice(found)
    newest = _newest([one for one in active if _is_on_track(one, wanted.track)])
    candidate = _newest([one for one in tried if _is_on_track(one, wanted.track)])
    if newest is None:
        return None if candidate is None else Choice(candidate)
    if candidate is None or (candidate.pack.name != newest.pack.name and candidate.version <= newest.version):
        return Choice(newest)
    return Choice(newest, candidate, _weight(candidate.pack))


def _active(packs: Iterable[PromptPack]) -> Iterator[Use]:
    for one in packs:
        if one.status is not None and one.status.active is not None and not _is_broken(one):
            yield Use(one, one.status.active)


def _tried(packs: Iterable[PromptPack]) -> Iterator[Use]:
    for one in packs:
        if one.status is not None and one.status.canary is not None:
            yield Use(one, one.status.canary)


def _is_broken(pack: PromptPack) -> bool:
    """Whether the prompts that were active are the very ones that are wrong now."""
    status, named = pack.status, pack.spec.source.config_map_ref
    if status is None or status.phase != "Failed" or status.active is None:
        return False
    return named is None or status.active.config_map == named.name


def _unseen(pack: PromptPack) -> Revision | None:
    """What a pack offers that nobody has looked at yet: what it says itself."""
    named = pack.spec.source.config_map_ref
    if named is None or (pack.status is not None and pack.status.phase is not None):
        return None
    return Revision(version=pack.spec.version, config_map=named.name)


def _pinned(uses: Sequence[Use], version: str) -> Use | None:
    return next((one for one in uses if is_same_version(one.revision.version, version)), None)


def _newest(uses: Sequence[Use]) -> Use | None:
    return max(uses, key=lambda one: (one.version, one.pack.name), default=None)


def _is_on_track(use: Use, track: str) -> bool:
    # Without the label the object is the pack: whoever put a prerelease there wants it to be used.
    return track != STABLE or not use.version.is_prerelease or PACK_LABEL not in use.pack.metadata.labels


def _weight(pack: PromptPack) -> int:
    return 0 if pack.status is None else pack.status.canary_weight or 0
