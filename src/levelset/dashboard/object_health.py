"""What is wrong with an object, read from its status: a pure judgement, and the scan of many objects for it.

The input is not trusted: any field may be missing or have another type.
"""

import asyncio
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from levelset.dashboard.views import (
    STARTING_PHASES,
    SUMMARY_CONDITIONS,
    container_statuses,
    kind_text,
    map_in,
    maps_in,
    state_of,
    text_of,
)
from levelset.objects import codec
from levelset.objects.cached_object import CachedObject
from levelset.objects.json_tree import is_list
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.ref import GroupVersionKind

__all__ = ["Illness", "Scan", "illness_of", "kind_and_name", "parse_time", "scan"]

STUCK_DELETION: Final = 60.0
"""After so many seconds a deletion that waits for finalizers is reported."""
STUCK_START: Final = 300.0
"""After so many seconds an object that is still starting, or behind its generation, is reported."""
FALSE_FOR: Final = 15.0
"""After so many seconds a condition that only its own controller knows is reported if it is false."""
MOST_ILL: Final = 200

_SLICE: Final = 500
_SUSPICIOUS: Final = Pattern(
    rb'"deletionTimestamp"|"waiting"|eplicas"|"observedGeneration"|"(?:phase|state)"'
    rb'|"status"\s*:\s*"(?:False|Unknown)"|"type"\s*:\s*"Failed"'
)
"""What the JSON of an object has that may be ill: all others need not be decoded."""
_GOOD_IF_FALSE: Final = Pattern(
    r"^(?:Not|No|Non)(?=[A-Z])|Un(?=[a-z])(?!i[qtof])|Dis(?=abled|connect)|Invalid|Incomplete"
    r"|(?i:pressure|degraded|fail|error|stall|stuck|problem|warning|alert|conflict|missing|violat|denied|reject|refus"
    r"|deadlock|readonly|corrupt|timeout|exceed|expir|deprecat|drift|lost|block|evict|disruption|throttl|restart"
    r"|progressing|reconciling|updating|upgrading|deleting|terminating|resizing|pending|waiting|maintenance|paus|suspend"
    r"|rolling|scaling(?:up|down|limited)|remediating|issuing|dangling|orphan|overlap|preempt|fallback|complete|finished)"
)
"""Types of conditions that are false when all is well: only their words distinguish them from the others."""


Name = tuple[str, str, str]
"""The kind, as in a URL, the namespace or nothing, and the name of an object."""


class Illness(msgspec.Struct, frozen=True):
    """What is wrong with an object, how bad it is, and since when (in the object's own words)."""

    what: str
    message: str
    since: str
    is_stuck: bool = False
    is_mild: bool = False
    """Whether it may be meant: what a condition of an own type says is not known here."""
    is_deletion: bool = False
    """Whether it is a deletion that waits, of which its owners know nothing."""


class Scan(msgspec.Struct, frozen=True):
    """The result of a scan: the ill objects, with their kinds and heads, and how many objects there were."""

    ill: list[tuple[GroupVersionKind, CachedObject, Illness]]
    objects: int
    total_ill: int
    good: Mapping[Name, datetime] = msgspec.field(default_factory=dict[Name, datetime])
    """Those objects in `candidates` whose state is good, with when a condition has last become so."""


async def scan(
    kinds: Mapping[GroupVersionKind, Iterable[CachedObject]],
    now: datetime,
    *,
    candidates: AbstractSet[Name] = frozenset(),
) -> Scan:
    """Judges all these objects; lets other tasks run in between. At most `MOST_ILL` of them are listed."""
    good: dict[Name, datetime] = {}
    ill: list[tuple[GroupVersionKind, CachedObject, Illness]] = []
    seen = total = 0
    for gvk, objects in kinds.items():
        kind = kind_text(gvk)
        for cached in objects:
            seen += 1
            if seen % _SLICE == 0:
                await asyncio.sleep(0)
            name = (kind, cached.namespace or "", cached.name)
            if name in candidates and (since := _good_since(cached.tree())) is not None:
                good[name] = since
            found = illness_of(codec.decode_tree(cached.raw), now) if _SUSPICIOUS.search(cached.raw) else None
            if found is not None:
                total += 1
                if len(ill) < MOST_ILL:
                    ill.append((gvk, cached, found))
    return Scan(ill, seen, total, good)


def illness_of(tree: Any, now: datetime) -> Illness | None:
    """What is wrong with an object; None if it is healthy, or not for long enough."""
    meta, status = map_in(tree, "metadata"), map_in(tree, "status")
    if deleted := text_of(meta.get("deletionTimestamp")):
        return _stuck_deletion(tree, deleted, now)
    state, tone = state_of(tree)
    conditions = maps_in(status, "conditions")
    culprit = _culprit(conditions, state)
    since = text_of(culprit.get("lastTransitionTime")) or text_of(meta.get("creationTimestamp"))
    message = text_of(culprit.get("message")) or text_of(status.get("message"))
    if tone == "bad":
        return Illness(state, _waiting_message(status, state) or message, since)
    age = _age(text_of(meta.get("creationTimestamp")), now)
    if tone == "busy" and _is_starting(state) and min(age, _age(since, now)) > STUCK_START:
        return Illness(state, message or "has not become ready", since, is_stuck=True)
    if tone != "good" and not _is_starting(state) and (found := _false_condition(conditions, meta, now)):
        return found
    return _behind(meta, status, since, now)


def parse_time(text: str) -> datetime | None:
    """A timestamp of an object; None if it is not one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def kind_and_name(gvk: GroupVersionKind, cached: CachedObject) -> dict[str, Any]:
    """An object as the page links to it."""
    return {"kind": kind_text(gvk), "name": cached.name, "namespace": cached.namespace}


def _stuck_deletion(tree: Any, deleted: str, now: datetime) -> Illness | None:
    if _age(deleted, now) <= STUCK_DELETION:
        return None
    # A namespace has its finalizers in its spec, and conditions that say what is left in it.
    given = [map_in(tree, part).get("finalizers") for part in ("metadata", "spec")]
    names = [one for part in given if is_list(part) for one in part if isinstance(one, str)]
    left = [one for one in maps_in(map_in(tree, "status"), "conditions") if one.get("status") == "True"]
    words = [f"waits for {', '.join(names)}" if names else "has no finalizers"]
    words += [text_of(one.get("message")) for one in left if text_of(one.get("type")).endswith("Remaining")]
    return Illness("being deleted", "; ".join(words), deleted, is_stuck=True, is_deletion=True)


def _false_condition(conditions: list[dict[str, Any]], meta: Mapping[str, Any], now: datetime) -> Illness | None:
    """A condition of the controller's own that is false, where no condition says how the object is as a whole."""
    if any(one.get("type") in SUMMARY_CONDITIONS for one in conditions):
        return None
    for one in conditions:
        name, since = text_of(one.get("type")), text_of(one.get("lastTransitionTime"))
        since = since or text_of(meta.get("creationTimestamp"))
        if one.get("status") == "False" and not _GOOD_IF_FALSE.search(name) and _age(since, now) > FALSE_FOR:
            reason = text_of(one.get("reason"))
            what = f"not {name}{f': {reason}' if reason else ''}"
            return Illness(what, text_of(one.get("message")), since, is_mild=True)
    return None


def _good_since(tree: Any) -> datetime | None:
    """When a condition of an object that is good has last changed; None if it is not good, or has none."""
    if state_of(tree)[1] != "good":
        return None
    conditions = maps_in(map_in(tree, "status"), "conditions")
    times = [parse_time(text_of(one.get("lastTransitionTime"))) for one in conditions]
    return max((one for one in times if one is not None), default=None)


def _behind(meta: Mapping[str, Any], status: Mapping[str, Any], since: str, now: datetime) -> Illness | None:
    """An object whose controller has not seen its latest generation for long."""
    wanted, observed = meta.get("generation"), status.get("observedGeneration")
    if not isinstance(wanted, int) or not isinstance(observed, int) or observed >= wanted:
        return None
    if _age(since, now) <= STUCK_START:
        return None
    return Illness(f"generation {observed} of {wanted} observed", "its controller is behind", since, is_stuck=True)


def _waiting_message(status: Mapping[str, Any], state: str) -> str:
    """Why the container waits whose reason is the state of its Pod: what the node says, and how its last run ended."""
    for one in container_statuses(status):
        waiting = map_in(map_in(one, "state"), "waiting")
        if text_of(waiting.get("reason")) == state:
            ended = map_in(map_in(one, "lastState"), "terminated")
            code, last = ended.get("exitCode"), text_of(ended.get("message")).strip()
            texts = [text_of(waiting.get("message"))]
            if isinstance(code, int):
                texts.append(f"the last run ended with exit code {code}{f': {last}' if last else ''}")
            return f"{text_of(one.get('name'))}: {'; '.join(filter(None, texts))}" if any(texts) else ""
    return ""


def _culprit(conditions: list[dict[str, Any]], state: str) -> Mapping[str, Any]:
    """The condition that the state names, or else the first that is false."""
    named = [one for one in conditions if text_of(one.get("type")) and text_of(one.get("type")) in state]
    failed = [one for one in conditions if one.get("status") == "False"]
    return next(iter([*named, *failed]), dict[str, Any]())


def _is_starting(state: str) -> bool:
    is_unready = any(f"not {name}" in state for name in ("Ready", "Available", "Established"))
    return is_unready or state.endswith(" ready") or state.partition(" ")[0].lower() in STARTING_PHASES


def _age(at: str, now: datetime) -> float:
    found = parse_time(at)
    return 0.0 if found is None else (now - found).total_seconds()
