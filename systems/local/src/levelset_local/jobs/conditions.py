"""The conditions of a Job: suspended, about to be complete or failed, and complete or failed; pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from levelset import replace
from levelset.kinds.batch_v1 import JobCondition
from levelset.objects import seconds_precision

__all__ = ["COMPLETE", "FAILED", "FAILURE_TARGET", "SUCCESS_MET", "SUSPENDED", "Conditions", "Verdict", "find", "put"]

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
SUCCESS_MET: Final = "SuccessCriteriaMet"
FAILURE_TARGET: Final = "FailureTarget"

Conditions = tuple[JobCondition, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a Job ends: well or not, for which reason, in which words."""

    is_success: bool
    reason: str
    message: str


def find(conditions: Iterable[JobCondition], *types: str) -> JobCondition | None:
    """The first condition of one of these types that is True, or None."""
    return next((one for one in conditions if one.type in types and one.status == "True"), None)


def put(
    conditions: Conditions, kind: str, status: Literal["True", "False"], *, reason: str, message: str, now: datetime
) -> Conditions:
    """The conditions with this one; its time is that of the last change of its status."""
    time = seconds_precision(now)
    present = next((one for one in conditions if one.type == kind), None)
    made = JobCondition(
        type=kind, status=status, reason=reason, message=message, last_probe_time=time, last_transition_time=time
    )
    if present is None:
        return (*conditions, made)
    if (present.status, present.reason) == (status, reason):
        return conditions
    if present.status == status:
        made = replace(made, last_transition_time=present.last_transition_time)
    return tuple(made if one is present else one for one in conditions)
