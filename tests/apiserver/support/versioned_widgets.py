"""A custom kind with two versions that differ in a field name, and the conversion between them."""

from typing import Any

from tests.apiserver.support.in_process_server import widgets

__all__ = ["CRDS", "MERGE", "NEW", "OLD", "convert", "definition", "widget"]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OLD = "/apis/example.com/v1/namespaces/default/widgets"
NEW = "/apis/example.com/v2/namespaces/default/widgets"
MERGE = "application/merge-patch+json"


def convert(tree: dict[str, Any], api_version: str) -> dict[str, Any]:
    """Converts between v1, which has `spec.color`, and v2, which has `spec.colour`."""
    spec = dict(tree.get("spec") or {})
    before, after = ("color", "colour") if api_version.endswith("v2") else ("colour", "color")
    if spec.get(before) == "broken":
        raise ValueError("that colour is broken")
    if before in spec:
        spec[after] = spec.pop(before)
    labels = {**tree["metadata"].get("labels", {}), "came": "from"}
    metadata = {**tree["metadata"], "labels": labels, "uid": "stolen"}
    return {**tree, "apiVersion": api_version, "metadata": metadata, "spec": spec}


def definition(stored: str = "v2", **spec: Any) -> Any:
    """The CRD of widgets with both versions, stored in one of them."""
    made = widgets(**spec)
    made["spec"]["versions"] = [
        _version("v1", "color", is_stored=stored == "v1"),
        _version("v2", "colour", is_stored=stored == "v2"),
    ]
    return made


def _version(name: str, field: str, *, is_stored: bool) -> Any:
    spec = {"type": "object", "properties": {field: {"type": "string"}, "size": {"type": "integer", "default": 1}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {"name": name, "served": True, "storage": is_stored, "schema": {"openAPIV3Schema": schema}}


def widget(name: str, version: str, **spec: Any) -> Any:
    """A widget of one of the versions."""
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
