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


def _service_of_status(step: Any, theirs: Any, ours: Any) -> bool:
    path = (step.get("do") or "").partition(" ")[2]
    is_status = "/services/" in path and path.endswith("/status")
    return is_status and ours["status"] == 404 and theirs["status"] in (201, 422)


def _root_paths(step: Any, theirs: Any, ours: Any) -> bool:
    return (step.get("do") or "").endswith(" /") and theirs["status"] == ours["status"] == 200


def _kubelet_resources(step: Any, theirs: Any, ours: Any) -> bool:
    places = {one.path for one in differences(theirs, ours)}
    return (step.get("do") or "").endswith(" /api/v1") and places == {"body.resources"}


def _bytes_of_revision(step: Any, theirs: Any, ours: Any) -> bool:
    is_revision = (step.get("do") or "").startswith("PATCH ") and "/controllerrevisions/" in step["do"]
    return is_revision and theirs["status"] == 422 and ours["status"] == 200 and "field is immutable" in str(theirs)


INTENDED: dict[str, Callable[[Any, Any, Any], bool]] = {
    "kube-apiserver panics, and closes the connection": _panics,
    "no controller would remove the finalizer of a VolumeAttributesClass": _attributes_class,
    "endpoints may have loopback addresses, since pods are processes of this machine": _loopback,
    "no Service is created by a write to the status of one that does not exist": _service_of_status,
    "discovery of the core group does not list what only a kubelet serves": _kubelet_resources,
    "the data of a ControllerRevision is compared as JSON, and not by its bytes": _bytes_of_revision,
    "the root lists the paths that this server has": _root_paths,
}


def reason(step: Any, theirs: Any, ours: Any) -> str:
    """Why two answers may differ; empty if they may not."""
    return next((text for text, holds in INTENDED.items() if holds(step, theirs, ours)), "")
