"""Differences that are meant to be, each with its reason. Everything else that differs is a defect of ours.

What cannot be compared at all is left out by the normal form (`normal_form.py`): ids, times, revisions, allocated
addresses and ports, the words about bodies and headers that cannot be read, and the status of new definitions.
"""

from collections.abc import Callable
from typing import Any

from tests.differential.normal_form import differences

__all__ = ["INTENDED", "reason"]

_LOOPBACK = "may not be in the loopback range"


def _panics(_step: Any, theirs: Any, _ours: Any) -> bool:
    return bool(theirs["status"] == 0)


def _attributes_class(step: Any, theirs: Any, ours: Any) -> bool:
    places = {one.path for one in differences(theirs, ours)}
    is_class = "/volumeattributesclasses" in (step.get("do") or step.get("watch"))
    return is_class and all("finalizers" in place or "deletion" in place for place in places)


def _loopback(_step: Any, theirs: Any, ours: Any) -> bool:
    return _LOOPBACK in str(theirs) and _LOOPBACK not in str(ours)


INTENDED: dict[str, Callable[[Any, Any, Any], bool]] = {
    "kube-apiserver panics, and closes the connection": _panics,
    "no controller would remove the finalizer of a VolumeAttributesClass": _attributes_class,
    "endpoints may have loopback addresses, since pods are processes of this machine": _loopback,
}


def reason(step: Any, theirs: Any, ours: Any) -> str:
    """Why two answers may differ; empty if they may not."""
    return next((text for text, holds in INTENDED.items() if holds(step, theirs, ours)), "")
