"""What is broken now: the landing page of the dashboard, as pure functions of what was read.

A problem is a JSON tree: its `category`, a `title`, a `message`, `since` when, `retryAt`, and a `tone`: `bad` for what
needs a person, `busy` for what may repair itself. The page links it to the `object` it is about, or else to its
`controller`, the `kind` whose watch or Leases it is about, or its `manager`.
"""

from collections import Counter
from collections.abc import Collection, Container, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from levelset.dashboard.object_health import Illness, Name, Scan, kind_and_name, parse_time
from levelset.dashboard.owner_graph import owner_of
from levelset.dashboard.views import kind_text, text_of
from levelset.objects.cached_object import CachedObject
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.hot_loops import HotLoop
from levelset.runtime.controller.reconcile_history import failing_now

if TYPE_CHECKING:
    from levelset.runtime.manager import MemberReport

__all__ = [
    "busy_objects",
    "counted_failures",
    "failing_reconciles",
    "growing_queues",
    "hot_loops",
    "ill_objects",
    "lagging_watches",
    "lost_lease",
    "manager_problem",
    "one_list",
    "reported_failures",
    "reported_hot_loops",
    "shards_without_owner",
    "slow_reconciles",
    "warned_objects",
    "warning_events",
]

Problem = dict[str, Any]
Tone = Literal["bad", "busy"]

MOST_PROBLEMS: Final = 200
EVENT_AGE: Final = timedelta(minutes=10)
"""Warnings that are older than this are not shown as a problem; the page of events has them."""
HOT_LOOP_AGE: Final = timedelta(minutes=10)
"""A hot loop of another process, of which it is not known whether it goes on, is shown for this time."""
HOT_LOOP_SECONDS: Final = 60.0
HOT_LOOP_TIMES: Final = 5
"""An object in a hot loop that was reconciled fewer times in a minute is in it no more."""
LAG: Final = 150.0
"""An API server sends a bookmark about every minute: a watch that is silent for longer than this many seconds lags."""
BACKLOG: Final = 10_000
"""A subscriber that has not read so many changes lags."""
SLOW_RECONCILE: Final = 60.0
"""A reconcile that has been running for longer than this many seconds is shown."""

_LEASES: Final = "coordination.k8s.io/v1/Lease"
_ORDER: Final = ("manager", "shards", "watch", "reconcile", "hot loop", "object", "queue", "event")


def failing_reconciles(
    name: str, history: Sequence[Outcome[Any]], failing: int, now: float, wall: datetime
) -> list[Problem]:
    """The objects whose last reconcile failed, with the error and when it is retried.

    `failing` is how many there are: those that the history no longer has are counted together.
    """
    known = failing_now(history)
    found = [_failing(name, one, since, now, wall) for one, since in known]
    # An object that has given up no longer counts as failing, although its last reconcile did fail.
    forgotten = failing - sum(one.result != "gave_up" for one, _ in known)
    if forgotten > 0:
        message = "their last reconciles are no longer in the history; see the log for the errors"
        found.append(_problem("reconcile", f"{name}: {forgotten} more objects fail", message, controller=name))
    return found


def _failing(name: str, one: Outcome[Any], since: float, now: float, wall: datetime) -> Problem:
    after = one.action.after
    due = None if after is None else wall + timedelta(seconds=one.at + after - now)
    return _problem(
        "reconcile",
        f"{name} {_WHAT.get(one.result, 'failed')}{_attempt(one.attempt)}",
        f"{type(one.error).__name__}: {one.error}",
        about={"kind": kind_text(one.ref.gvk), "name": one.ref.name, "namespace": one.ref.namespace},
        since=_stamp(wall + timedelta(seconds=since - now)),
        retryAt=None if due is None else _stamp(due),
        controller=name,
    )


_WHAT: Final = {"timed_out": "timed out", "gave_up": "gave up"}


def _attempt(failures: int) -> str:
    return f", attempt {failures + 1}" if failures else ""


def slow_reconciles(name: str, ages: Sequence[float]) -> list[Problem]:
    """A controller whose reconcile runs for long."""
    longest = max(ages, default=0.0)
    if longest <= SLOW_RECONCILE:
        return []
    message = "it blocks a worker; run slow work in ctx.background"
    return [_problem("reconcile", f"{name}: a reconcile runs for {longest:.0f} s", message, "busy", controller=name)]


def ill_objects(found: Scan) -> list[Problem]:
    """The objects whose conditions are false, or that are stuck: those with one cause as one problem.

    The first one stands for all of an owner that are ill in the same way; `others` are the rest of them, and `above`
    the owners that are stuck because of them, such as the ReplicaSet and the Deployment of Pods that cannot start.
    """
    ill = {cached.uid or str(number): (gvk, cached, one) for number, (gvk, cached, one) in enumerate(found.ill)}
    groups: dict[Hashable, list[_Ill]] = {}
    above: dict[Hashable, dict[str, _Ill]] = {}
    for uid, (gvk, cached, illness) in ill.items():
        owner = owner_of(cached)
        key: Hashable = uid if owner is None else (owner.uid, gvk, illness.what, illness.is_stuck)
        groups.setdefault(key, []).append((gvk, cached, illness))
        if not illness.is_mild and not illness.is_deletion:
            above.setdefault(key, {}).update(_stuck_owners(cached, ill))
    explained = {uid for some in above.values() for uid in some}
    return [
        _illness(*some[0], some[1:], above.get(key, {}).values())
        for key, some in groups.items()
        if some[0][1].uid not in explained
    ]


_Ill = tuple[GroupVersionKind, CachedObject, Illness]


def _stuck_owners(cached: CachedObject, ill: Mapping[str, _Ill]) -> dict[str, _Ill]:
    """The owners up to the root that are stuck, by uid."""
    found: dict[str, _Ill] = {}
    owner = owner_of(cached)
    while owner is not None and owner.uid not in found and owner.uid in ill and ill[owner.uid][2].is_stuck:
        found[owner.uid] = ill[owner.uid]
        owner = owner_of(ill[owner.uid][1])
    return found


def _illness(
    gvk: GroupVersionKind, cached: CachedObject, illness: Illness, others: Iterable[_Ill], above: Collection[_Ill]
) -> Problem:
    # Built-in kinds say of themselves only that their children are not ready; a kind of an operator may know the cause.
    known = [f"{kind.kind} {owner.name}: {one.message}" for kind, owner, one in above if _is_custom(kind)]
    return _problem(
        "object",
        f"{'stuck: ' if illness.is_stuck else ''}{illness.what}",
        "; ".join(filter(None, [illness.message, *known])),
        "busy" if illness.is_stuck or illness.is_mild else "bad",
        about=kind_and_name(gvk, cached),
        since=illness.since or None,
        others=[kind_and_name(*one[:2]) for one in others],
        above=[kind_and_name(*one[:2]) for one in above],
    )


def _is_custom(gvk: GroupVersionKind) -> bool:
    return "." in gvk.group and not gvk.group.endswith(".k8s.io")


def warned_objects(events: Iterable[Mapping[str, Any]]) -> frozenset[Name]:
    """The objects that have Warnings."""
    return frozenset(_name(one["about"]) for one in events if one["type"] != "Normal")


def warning_events(
    events: Iterable[Mapping[str, Any]], wall: datetime, good: Mapping[Name, datetime] | None = None
) -> list[Problem]:
    """The Warnings of the last minutes, one for each object and reason, of events as the page shows them.

    One about an object that has become `good` since is over; one about an object that was well all the time is not.
    """
    good_since = good or {}
    found: dict[tuple[str, ...], Problem] = {}
    for one in events:
        at = parse_time(one["at"])
        if one["type"] == "Normal" or at is None or wall - at > EVENT_AGE:
            continue
        about = one["about"]
        since = good_since.get(_name(about))
        if since is not None and since >= at.replace(microsecond=0):  # conditions have whole seconds
            continue
        key = (*_name(about), one["reason"])
        if key in found:
            found[key]["times"] += one["count"]
        else:
            found[key] = _problem(
                "event", one["reason"], one["message"], "busy", about=about, since=one["at"], times=one["count"]
            )
    return list(found.values())


def lagging_watches(watches: Iterable[Stats], where: str = "") -> list[Problem]:
    """Watches with an error, without a sign of life, or with subscribers that fall behind; of which manager."""
    found: list[Problem] = []
    of = f" in {where}" if where else ""
    for one in watches:
        name = f"watch of {one.name}{of}"
        if one.error is not None:
            found.append(_problem("watch", name, one.error, kind=_kind_of(one)))
        elif one.lag is not None and one.lag > LAG:
            message = f"the API server has sent nothing for {one.lag:.0f} s, not even a bookmark"
            found.append(_problem("watch", f"{name} lags", message, "busy", kind=_kind_of(one)))
        elif one.waiting > BACKLOG:
            message = f"{one.waiting} changes wait for the slowest subscriber"
            found.append(_problem("watch", f"{name} lags", message, "busy", kind=_kind_of(one)))
    return found


def _kind_of(watch: Stats) -> str:
    """The kind of a watch as in a URL: its name begins with the API version and the kind."""
    return "/".join(watch.name.split(" ")[:2])


# ---- managers of other processes -------------------------------------------------------------------------------------


def manager_problem(name: str, message: str, pod: Mapping[str, Any] | None) -> Problem:
    """A manager that does not respond, or is not ready."""
    return _problem("manager", f"{name} is not ready", message, about=pod, manager=name)


def reported_failures(name: str, failing: Sequence[Mapping[str, Any]], total: int) -> list[Problem]:
    """The objects whose last reconcile failed, as another process reports them; `total` is how many there are."""
    found = [
        _problem(
            "reconcile",
            f"{name} {_WHAT.get(one['result'], 'failed')}{_attempt(one['attempt'])}",
            text_of(one["error"]),
            about={"kind": f"{one['api_version']}/{one['kind']}", "name": one["name"], "namespace": one["namespace"]},
            since=one["since"],
            retryAt=one["retry_at"],
            controller=name,
        )
        for one in failing
    ]
    forgotten = total - sum(one["result"] != "gave_up" for one in failing)
    if forgotten > 0:
        message = "their last reconciles are not reported; see the log of the manager for the errors"
        found.append(_problem("reconcile", f"{name}: {forgotten} more objects fail", message, controller=name))
    return found


def counted_failures(controller: str, manager: str, times: int, pod: Mapping[str, Any] | None) -> Problem:
    """A controller of which only the number of failed reconciles is known, and that it has grown just now."""
    message = f"{times} more since the reading before; the log of the manager has the errors"
    return _problem(
        "reconcile", f"{controller} in {manager}: reconciles fail", message, about=pod, controller=controller
    )


def reported_hot_loops(manager: str, loops: Iterable[Mapping[str, Any]], wall: datetime) -> list[Problem]:
    """The hot loops of the last minutes, as another process reports them."""
    return [
        _problem(
            "hot loop",
            f"{one['controller']} in {manager} writes {one['field']} over and over",
            one["message"],
            about={"kind": f"{one['api_version']}/{one['kind']}", "name": one["name"], "namespace": one["namespace"]},
            since=one["at"],
            controller=one["controller"],
        )
        for one in loops
        if (at := parse_time(one["at"])) is not None and wall - at <= HOT_LOOP_AGE
    ]


def lost_lease(lease: Mapping[str, Any], silent: float) -> Problem:
    """A Lease that its holder has stopped to renew, and that no other replica has taken."""
    about = {name: lease[name] for name in ("kind", "name", "namespace")}
    message = f"{lease['holder']} has not renewed it for {silent:.0f} s, and no other replica has taken it"
    return _problem("manager", "no manager holds this Lease", message, about=about)


def busy_objects(name: str, history: Sequence[Outcome[Any]], now: float) -> set[tuple[str, str]]:
    """The objects that a controller has reconciled many times in the last minute, each as its name and its key."""
    times = Counter(one.ref.key for one in history if now - one.at <= HOT_LOOP_SECONDS)
    return {(name, key) for key, count in times.items() if count >= HOT_LOOP_TIMES}


def hot_loops(
    loops: Iterable[tuple[datetime, str, HotLoop]], wall: datetime, busy: Container[tuple[str, str]] = ()
) -> list[Problem]:
    """The hot loops that go on: each is found once, and its object is `busy` since, or it was found in this minute."""
    return [
        _problem(
            "hot loop",
            f"{name} writes {one.field} over and over",
            str(one),
            about={"kind": kind_text(one.ref.gvk), "name": one.ref.name, "namespace": one.ref.namespace},
            since=_stamp(at),
            controller=name,
        )
        for at, name, one in loops
        if (wall - at).total_seconds() <= HOT_LOOP_SECONDS or (name, one.ref.key) in busy
    ]


def growing_queues(growing: Mapping[str, tuple[int, int]]) -> list[Problem]:
    """The controllers whose queue has grown for a minute."""
    return [
        _problem(
            "queue",
            f"the queue of {name} grows",
            f"from {before} to {now} in a minute: more is enqueued than its workers can reconcile",
            "busy",
            controller=name,
        )
        for name, (before, now) in growing.items()
    ]


def shards_without_owner(members: "Sequence[MemberReport]", moves: Mapping[str, Any]) -> list[Problem]:
    """Objects that no replica reconciles, because none is a member or a member has not taken over yet."""
    if not moves and not members:
        return []
    if not members:
        message = "no member has joined the shards; see its Leases"
        return [_problem("shards", "no replica owns the objects", message, kind=_LEASES)]
    return [found for one in members if not one.is_me and (found := _unowned(one))]


def _unowned(member: "MemberReport") -> Problem | None:
    if member.is_stopped:
        last = f"it had {member.keys} when it last renewed its Lease, {member.silent:.0f} s ago"
        message = f"{last}; the other replicas take over when the Lease ends"
        title = f"no replica reconciles the objects of member {member.name}"
        return _problem("shards", title, message, kind=_LEASES)
    if not member.is_acknowledged:
        message = f"{member.keys} objects wait until it has acknowledged"
        return _problem("shards", f"member {member.name} takes over", message, "busy", kind=_LEASES)
    return None


def one_list(problems: Iterable[Problem]) -> dict[str, Any]:
    """All problems in the order in which a person should read them, at most so many; `total` counts all.

    An event about an object that has another problem already is left out: it says the same once more.
    """
    found = list(problems)
    reported = {
        _name(each)
        for one in found
        if one["category"] != "event" and one["object"]
        for each in (one["object"], *one["others"], *one["above"])
    }
    shown = [one for one in found if one["category"] != "event" or _name(one["object"]) not in reported]
    shown.sort(key=lambda one: one["since"] or "", reverse=True)
    shown.sort(key=lambda one: (one["tone"] != "bad", _ORDER.index(one["category"])))
    return {"problems": shown[:MOST_PROBLEMS], "total": len(shown)}


def _name(about: Mapping[str, Any]) -> Name:
    return about["kind"], about["namespace"] or "", about["name"]


def _problem(category: str, title: str, message: str, tone: Tone = "bad", *, about: Any = None, **more: Any) -> Problem:
    shown = {"category": category, "tone": tone, "title": text_of(title), "message": text_of(message), "object": about}
    nothing: dict[str, object] = {
        "since": None,
        "retryAt": None,
        "times": 1,
        "controller": None,
        "manager": None,
        "kind": None,
        "others": [],
        "above": [],
    }
    return {**shown, **nothing, **more}


def _stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
