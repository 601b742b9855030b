"""Whether a Job is decided: done, failed too often, or too late; pure."""

from levelset_local import podstates
from levelset_local.jobs import conditions as conditions_
from levelset_local.jobs import timing
from levelset_local.jobs.conditions import Conditions, Verdict
from levelset_local.jobs.workers import Look

__all__ = ["find_verdict", "judge"]


def judge(look: Look) -> Verdict | None:
    """Whether the Job is decided by what has happened so far."""
    owner, count = look.owner, look.count
    limit = 6 if owner.spec.backoff_limit is None else owner.spec.backoff_limit
    if count.all_failed > limit or _restarts_too_often(look, limit):
        return Verdict(False, "BackoffLimitExceeded", f"more than {limit} of its Pods have failed")
    deadline = timing.deadline_of(owner, None if owner.status is None else owner.status.start_time)
    if deadline is not None and deadline <= look.now and not owner.spec.suspend:
        seconds = owner.spec.active_deadline_seconds
        return Verdict(False, "DeadlineExceeded", f"it was active for more than {seconds} seconds")
    wanted = owner.spec.completions
    is_reached = count.all_succeeded > 0 and not look.active if wanted is None else count.all_succeeded >= wanted
    return Verdict(True, "CompletionsReached", "as many Pods as wanted have succeeded") if is_reached else None


def find_verdict(conditions: Conditions) -> Verdict | None:
    """What was decided before: it is not decided again, whatever happens until the end."""
    found = conditions_.find(conditions, conditions_.SUCCESS_MET, conditions_.FAILURE_TARGET)
    if found is None:
        return None
    return Verdict(found.type == conditions_.SUCCESS_MET, found.reason or "", found.message or "")


def _restarts_too_often(look: Look, limit: int) -> bool:
    """Containers that a node starts again are no failed Pods, and count all the same."""
    template = look.owner.spec.template.spec
    if template.restart_policy != "OnFailure":
        return False
    restarts = sum(podstates.restarts_of(pod) for pod in look.active)
    return restarts > 0 if limit == 0 else restarts >= limit
