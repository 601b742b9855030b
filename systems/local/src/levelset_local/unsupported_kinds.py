"""Admission webhooks that warn about kinds without a controller on this machine, such as Ingresses.

The objects are stored like any others; kubectl shows the warning when one is created.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from levelset import Object, Review, validates
from levelset.kinds.networking_v1 import Ingress, NetworkPolicy

__all__ = ["unsupported_kind_webhooks"]

_INSTEAD: Final[Mapping[type[Object], str]] = {
    Ingress: "Services have addresses that are reachable on this machine",
    NetworkPolicy: "every Pod of this machine can reach every other",
}


def unsupported_kind_webhooks() -> Sequence[Any]:
    """The validating webhooks, one for each unsupported kind; they admit every object with a warning."""
    return [validates(kind, _warning(kind.__name__, hint), on=("create",)) for kind, hint in _INSTEAD.items()]


def _warning(kind: str, hint: str) -> Callable[[Any, Review[Any]], None]:
    def warn(_new: Any, review: Review[Any]) -> None:
        review.warn(f"{kind} is stored, but has no controller on this machine; {hint}")

    return warn
