"""Differences that are meant to be, each with its reason. Everything else that differs is a defect of ours.

What cannot be compared at all is left out by the normal form (`normal_form.py`): ids, times, revisions, allocated
addresses and ports, the words about bodies that cannot be read, and the status of new definitions.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from tests.differential.normal_form import differences

__all__ = ["INTENDED", "reason"]

_WITH_PARAMETERS = ("deviceclasses", "resourceclaims", "resourceclaimtemplates")
_ADDING = {"add", "copy", "move", "replace"}
_UNWRITTEN = re.compile(r'"creationTimestamp": "[^"]*\.[0-9]+Z"|"(labels|annotations)": \{\}')
_LOOPBACK = "may not be in the loopback range"


def _may_have(answer: Any, member: str, step: Any) -> bool:
    """Whether a member is in a request or its answer, which may not show it."""
    shown = json.dumps([step, answer["body"]])
    return member in shown or '"spec"' not in json.dumps(answer["body"])


def _null_of_review(step: Any, theirs: Any, ours: Any) -> bool:
    places = [one.path for one in differences(theirs, ours)]
    is_review = "reviews" in (step.get("do") or "") and theirs["status"] == ours["status"] == 201
    return is_review and all("extra" in place for place in places)


def _bytes_of_owners(step: Any, theirs: Any, ours: Any) -> bool:
    causes = (((theirs.get("body") or {}).get("details") or {}).get("causes")) or [{}]
    refused = {(one.get("field"), "field is immutable" in one.get("message", "")) for one in causes}
    is_job = "/jobs/" in (step.get("do") or "") and refused == {("spec.template", True)} and ours["status"] == 200
    return is_job and '"fieldsV1"' in json.dumps(ours["body"].get("spec"))


def _unwritten(step: Any, theirs: Any, ours: Any) -> bool:
    if not theirs["status"] == ours["status"] == 200 or not _UNWRITTEN.search(json.dumps(step.get("body"))):
        return False
    return all(one.path.endswith("metadata.generation") for one in differences(theirs, ours))


def _metrics_of_status(step: Any, theirs: Any, ours: Any) -> bool:
    is_autoscaler = "/apis/autoscaling/v1/" in (step.get("do") or "") and theirs["status"] == ours["status"] == 200
    return is_autoscaler and all(one.path.endswith("fieldsV1.f:metadata") for one in differences(theirs, ours))


def _taken(_step: Any, theirs: Any, ours: Any) -> bool:
    words = ("is already allocated", "duplicate nodePort")
    return any((word in str(theirs)) is not (word in str(ours)) for word in words)


def _stale_scale(step: Any, theirs: Any, ours: Any) -> bool:
    is_scale = step.get("type") == "apply" and (step.get("do") or "").endswith("/scale")
    return (
        is_scale and (theirs["status"], ours["status"]) == (500, 409) and "resourceVersion" in json.dumps(step["body"])
    )


def _emptied_map(step: Any, theirs: Any, ours: Any) -> bool:
    causes = (((theirs.get("body") or {}).get("details") or {}).get("causes")) or ()
    is_null = any('must be of type object: "null"' in one["message"] for one in causes)
    return step.get("type") == "apply" and is_null and (theirs["status"], ours["status"]) == (422, 200)


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
    return is_status and ours["status"] == 404 and theirs["status"] in (201, 400, 409, 422, 500)


def _root_paths(step: Any, theirs: Any, ours: Any) -> bool:
    return (step.get("do") or "").endswith(" /") and theirs["status"] == ours["status"] == 200


def _version(step: Any, theirs: Any, ours: Any) -> bool:
    build = ("git", "buildDate", "goVersion", "compiler", "platform")
    places = [one.path.removeprefix("body.") for one in differences(theirs, ours)]
    return (step.get("do") or "").endswith(" /version") and all(one.startswith(build) for one in places)


def _openapi_paths(step: Any, theirs: Any, ours: Any) -> bool:
    return (step.get("do") or "").endswith(" /openapi/v3") and theirs["status"] == ours["status"] == 200


def _order_of_definitions(step: Any, theirs: Any, ours: Any) -> bool:
    if (
        not (step.get("do") or "").endswith(" /apis/fuzz.example.com/v1")
        or not theirs["status"] == ours["status"] == 200
    ):
        return False
    lists = [sorted(one["body"]["resources"], key=lambda resource: str(resource["name"])) for one in (theirs, ours)]
    return bool(lists[0] == lists[1])


def _bytes_of_revision(step: Any, theirs: Any, ours: Any) -> bool:
    if "/controllerrevisions/" not in (step.get("do") or "") or theirs["status"] != 422:
        return False
    causes, mine = (((one.get("body") or {}).get("details") or {}).get("causes") or [] for one in (theirs, ours))
    others = [one for one in causes if (one["field"], "field is immutable" in one["message"]) != ("data", True)]
    return len(others) == len(causes) - 1 and others == mine and ours["status"] in ((422,) if others else (200, 406))


def _bytes_of_parameters(step: Any, theirs: Any, ours: Any) -> bool:
    """Parameters that are written in other bytes count as changed there, which what is immutable may not be."""
    if not any(f"/{one}/" in (step.get("do") or "") for one in _WITH_PARAMETERS):
        return False
    if theirs["status"] == ours["status"] == 200:
        places = {one.path.partition("metadata.")[2] for one in differences(theirs, ours)}
        return all(one.startswith(("generation", "managedFields")) for one in places)
    causes = (((theirs.get("body") or {}).get("details") or {}).get("causes")) or [{}]
    refused = {(one.get("field"), "field is immutable" in one.get("message", "")) for one in causes}
    is_refused = refused in ({("spec", True)}, {("status.allocation", True)})
    return is_refused and ours["status"] in (200, 406) and _may_have(ours, '"parameters"', step)


def _removed_namespace(step: Any, theirs: Any, ours: Any) -> bool:
    path = (step.get("do") or "").partition(" ")[2]
    is_namespace = path.startswith("/api/v1/namespaces/${id}")
    return is_namespace and ours["status"] == 404 and theirs["status"] != 404


def _node_by_update(step: Any, theirs: Any, ours: Any) -> bool:
    causes = (((theirs.get("body") or {}).get("details") or {}).get("causes")) or [{}]
    is_refused = len(causes) == 1 and "pod updates may not change fields other than" in causes[0].get("message", "")
    is_pod = "/pods/" in (step.get("do") or "") and ours["status"] == 200
    return is_pod and is_refused and bool((ours["body"].get("spec") or {}).get("nodeName"))


def _cell_without_column(step: Any, theirs: Any, ours: Any) -> bool:
    is_table = "/ipaddresses" in (step.get("do") or "") and theirs["status"] == ours["status"]
    return is_table and all(one.path.endswith(".cells") for one in differences(theirs, ours))


def _compacted(_step: Any, theirs: Any, ours: Any) -> bool:
    message = str((theirs.get("body") or {}).get("message"))
    return theirs["status"] == 410 and ours["status"] == 200 and message.startswith("The resourceVersion")


def _ranges_of_devices(step: Any, theirs: Any, ours: Any) -> bool:
    if "/resourceslices/" not in (step.get("do") or "") or not theirs["status"] == ours["status"] == 200:
        return False
    places = {one.path.partition("metadata.")[2] for one in differences(theirs, ours)}
    is_owners = all(one.startswith(("generation", "managedFields")) for one in places)
    return is_owners and _may_have(ours, '"validRange"', step)


def _order_of_added(step: Any, theirs: Any, ours: Any) -> bool:
    operations = step.get("body") if step.get("type") == "json" else None
    if not isinstance(operations, list) or not _ADDING & {one.get("op") for one in operations}:
        return False
    warnings = [sorted(one for one in each.get("warning", ()) if ".uid" not in one) for each in (theirs, ours)]
    rest = [{name: value for name, value in each.items() if name != "warning"} for each in (theirs, ours)]
    return bool(warnings[0] == warnings[1] and rest[0] == rest[1])


def _test_of_text(step: Any, theirs: Any, ours: Any) -> bool:
    operations = step.get("body") if step.get("type") == "json" else None
    if not isinstance(operations, list) or (theirs["status"], ours["status"]) != (422, 200):
        return False
    values = [json.dumps(one.get("value")) for one in operations if one.get("op") == "test"]
    return any("null" in one or "\\u" in one for one in values) and not theirs["body"].get("details")


def _post_to_name(step: Any, _theirs: Any, ours: Any) -> bool:
    return (step.get("do") or "").startswith("POST /apis/fuzz.example.") and ours["status"] == 405


def _dry_deletion(step: Any, theirs: Any, ours: Any) -> bool:
    is_dry = "All" in json.dumps([step.get("query"), step.get("body")])
    if not (step.get("do") or "").startswith("DELETE ") or not is_dry or not theirs["status"] == ours["status"] == 200:
        return False
    return "name" not in (theirs["body"].get("metadata") or {}) and "spec" in theirs["body"]


INTENDED: dict[str, Callable[[Any, Any, Any], bool]] = {
    "kube-apiserver panics, and closes the connection": _panics,
    "no controller would remove the finalizer of a VolumeAttributesClass": _attributes_class,
    "endpoints may have loopback addresses, since pods are processes of this machine": _loopback,
    "no Service is created by a write to the status of one that does not exist": _service_of_status,
    "a scheduler may set the node of a Pod by an update": _node_by_update,
    "a namespace without finalizers is removed at once, and not by a controller": _removed_namespace,
    "a row of an IPAddress has no cell without a column": _cell_without_column,
    "the data of a ControllerRevision is compared as JSON, and not by its bytes": _bytes_of_revision,
    "the parameters of a device are compared as JSON, and not by their bytes": _bytes_of_parameters,
    "kube-apiserver has compacted its history after five minutes, and ours is as young as the test": _compacted,
    "a write takes over nothing of a ResourceSlice that it does not change, with ranges, too": _ranges_of_devices,
    "unknown fields of what a JSON patch adds are warned of in the order of their names": _order_of_added,
    "the test of a JSON patch compares values, and not how their texts and nulls are written": _test_of_text,
    "no custom resource is created by a POST to the name of one": _post_to_name,
    "a dry run of a deletion that removes the last finalizer shows the object, and not an empty one": _dry_deletion,
    "a review has no extra attribute that is null, which says nothing of its user": _null_of_review,
    "the managedFields of the template of a Job are compared as JSON, and not by their bytes": _bytes_of_owners,
    "what of embedded metadata is not written, such as parts of seconds, counts as no change": _unwritten,
    "an apply that takes the last value out of a map leaves an empty map, and not null": _emptied_map,
    "an applied Scale with an old resourceVersion is a conflict, and not an internal error": _stale_scale,
    "a port that a sequence has taken, which ended at an intended difference, is taken on one server only": _taken,
    "no manager owns the annotation for a status of an autoscaler that an endpoint ignores": _metrics_of_status,
    "kube-apiserver lists the definitions of a group in no order": _order_of_definitions,
    "the root lists the paths that this server has": _root_paths,
    "the version tells how the server was built": _version,
    "OpenAPI has the documents that this server has, with its own hashes": _openapi_paths,
}


def reason(step: Any, theirs: Any, ours: Any) -> str:
    """Why two answers may differ; empty if they may not."""
    return next((text for text, holds in INTENDED.items() if holds(step, theirs, ours)), "")
