"""Whether what runs programs (Deployments, StatefulSets, DaemonSets, Jobs) has come to run what was applied. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from levelset.objects.trees import is_list, is_map

__all__ = ["Rollout", "is_rolled_out", "rollout_of"]

State = Literal["ready", "waiting", "failed"]
Tree = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far one is, and the words for it; one that has `failed` will not get any further by itself."""

    state: State
    said: str
    is_seen: bool = True
    """Whether a controller has looked at it at all."""


def is_rolled_out(api_version: str, kind: str) -> bool:
    """Whether objects of this kind take their time to run something."""
    return (api_version.partition("/")[0], kind) in _JUDGES


def rollout_of(tree: Tree) -> Rollout:
    """How far the rollout of an object is, judged by its status; anything of another kind is ready."""
    judge = _JUDGES.get((str(tree.get("apiVersion")).partition("/")[0], str(tree.get("kind"))))
    if judge is None:
        return Rollout("ready", "")
    return judge(_map(tree, "spec"), _map(tree, "status"), _map(tree, "metadata"))


def _deployment(spec: Tree, status: Tree, meta: Tree) -> Rollout:
    if spec.get("paused"):
        return Rollout("ready", "paused")
    unseen = _unseen(status, meta)
    if unseen:
        return unseen
    progressing = _condition(status, "Progressing")
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Rollout("failed", _with_reason("it makes no progress", progressing))
    wanted, updated = _count(spec, "replicas", 1), _count(status, "updatedReplicas")
    available, old = _count(status, "availableReplicas"), _count(status, "replicas") - updated
    if updated < wanted:
        return Rollout("waiting", _with_reason(f"{updated} of {wanted} replicas are new", _trouble(status)))
    if old > 0:
        return Rollout("waiting", f"{old} old {_plural(old, 'replica')} still there")
    if available < wanted:
        return Rollout("waiting", _with_reason(f"{available} of {wanted} replicas are available", _trouble(status)))
    return Rollout("ready", f"{available} of {wanted} replicas are available")


def _stateful_set(spec: Tree, status: Tree, meta: Tree) -> Rollout:
    unseen = _unseen(status, meta)
    if unseen:
        return unseen
    wanted, ready = _count(spec, "replicas", 1), _count(status, "readyReplicas")
    if ready < wanted:
        return Rollout("waiting", f"{ready} of {wanted} replicas are ready")
    strategy = _map(spec, "updateStrategy")
    if strategy.get("type") != "OnDelete":
        kept = _count(_map(strategy, "rollingUpdate"), "partition")
        updated, some = _count(status, "updatedReplicas"), max(wanted - kept, 0)
        if updated < some and status.get("updateRevision") != status.get("currentRevision"):
            return Rollout("waiting", f"{updated} of {some} replicas are new")
    return Rollout("ready", f"{ready} of {wanted} replicas are ready")


def _daemon_set(spec: Tree, status: Tree, meta: Tree) -> Rollout:
    unseen = _unseen(status, meta)
    if unseen:
        return unseen
    wanted, updated = _count(status, "desiredNumberScheduled"), _count(status, "updatedNumberScheduled")
    available = _count(status, "numberAvailable")
    if updated < wanted and _map(spec, "updateStrategy").get("type") != "OnDelete":
        return Rollout("waiting", f"{updated} of {wanted} nodes have the new one")
    state: State = "waiting" if available < wanted else "ready"
    return Rollout(state, f"available on {available} of {wanted} nodes")


def _job(spec: Tree, status: Tree, _: Tree) -> Rollout:
    if spec.get("suspend"):
        return Rollout("ready", "suspended")
    failed = _condition(status, "Failed")
    if failed.get("status") == "True":
        return Rollout("failed", _with_reason("it has failed", failed))
    if _condition(status, "Complete").get("status") == "True":
        return Rollout("ready", "complete")
    if not status:
        return _NEVER_SEEN
    wanted = _count(spec, "completions", _count(spec, "parallelism", 1))
    return Rollout("waiting", f"{_count(status, 'succeeded')} of {wanted} pods have succeeded")


_Judge = Callable[[Tree, Tree, Tree], Rollout]
_JUDGES: Final[Mapping[tuple[str, str], _Judge]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
}
_NOTHING: Final[Tree] = {}
_NEVER_SEEN: Final = Rollout("waiting", "no controller has looked at it", is_seen=False)


def _unseen(status: Tree, meta: Tree) -> Rollout | None:
    """What to wait for while the status is not about what was applied."""
    generation, seen = _count(meta, "generation"), _count(status, "observedGeneration")
    if not seen:
        return _NEVER_SEEN
    return Rollout("waiting", "its controller has not looked at the new one") if seen < generation else None


def _trouble(status: Tree) -> Tree:
    """The condition that says why it does not get on; empty if none does."""
    failure, available = _condition(status, "ReplicaFailure"), _condition(status, "Available")
    if failure.get("status") == "True":
        return failure
    return available if available.get("status") == "False" else _NOTHING


def _with_reason(said: str, condition: Tree) -> str:
    why = condition.get("message") or condition.get("reason")
    return f"{said} ({why})" if why else said


def _condition(status: Tree, type_: str) -> Tree:
    found: Any = status.get("conditions")
    several: list[Any] = found if is_list(found) else []
    return next((one for one in several if is_map(one) and one.get("type") == type_), _NOTHING)


def _map(tree: Tree, name: str) -> Tree:
    """A member that is a map; an empty one if it is not there, or of a server that is none."""
    found: Any = tree.get(name)
    return found if is_map(found) else _NOTHING


def _count(tree: Tree, name: str, default: int = 0) -> int:
    found = tree.get(name)
    return found if isinstance(found, int) else default


def _plural(count: int, word: str) -> str:
    return f"{word} is" if count == 1 else f"{word}s are"
