"""Which Pods go first when there are too many: those that would be missed least; pure.

Pods that no node has yet, then those that wait, then those that are not ready. Among equals the annotation
`controller.kubernetes.io/pod-deletion-cost` decides, the lowest first; then who became ready last, who was restarted
most often, and who is the youngest.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from levelset.kinds.core_v1 import Pod
from levelset_local import podstates

__all__ = ["COST", "cost_of", "rank_for_deletion"]

COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_LOWEST: Final = -(2**31)


def rank_for_deletion(pods: Iterable[Pod]) -> list[Pod]:
    """The same Pods, the first to go first."""
    return sorted(pods, key=_key)


def cost_of(pod: Pod) -> int:
    """What the deletion of the Pod costs; 0 if it does not say, or says nonsense."""
    text = pod.metadata.annotations.get(COST, "0")
    try:
        found = int(text)
    except ValueError:
        return 0
    # No sign, no leading zeros and 32 bits: who writes anything else did not mean a number.
    return found if str(found) == text and _LOWEST <= found < -_LOWEST else 0


def _key(pod: Pod) -> tuple[Any, ...]:
    is_bound = bool(pod.spec.node_name)
    phase = None if pod.status is None else pod.status.phase
    return (
        is_bound,
        _PHASES.get(phase or "Pending", 0),
        podstates.is_ready(pod),
        cost_of(pod),
        _youngest_first(podstates.ready_since(pod)),
        -podstates.restarts_of(pod),
        _youngest_first(pod.metadata.creation_timestamp),
        pod.name,  # so that everybody would choose the same
    )


def _youngest_first(at: datetime | None) -> float:
    return 0.0 if at is None else -at.timestamp()
