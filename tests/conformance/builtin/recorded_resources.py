"""What kube-apiserver serves by default, as it was recorded, and the subresources that levelset does not serve."""

import json
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["FILE", "normal_form", "openapi_of_definitions", "pod_security", "recorded"]

FILE = Path(__file__).parent / "answers" / "served" / "resources.json"


@cache
def recorded() -> dict[str, dict[str, Any]]:
    """The resources and subresources of each group version, by their paths and names."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    return found


@cache
def openapi_of_definitions() -> dict[str, Any]:
    """CustomResourceDefinitions, and their schemas in kube-apiserver's OpenAPI documents of both versions."""
    found: dict[str, Any] = json.loads((FILE.parent / "openapi_of_definitions.json").read_text())
    return found


@cache
def pod_security() -> list[dict[str, Any]]:
    """Writes to a namespace with labels of the Pod Security Standards, and how kube-apiserver answered them."""
    found: list[dict[str, Any]] = json.loads((FILE.parent / "pod_security.json").read_text())
    return found


def normal_form(body: Any) -> dict[str, Any]:
    """An APIResourceList by the names of its resources, without the hashes of storage versions."""
    keys = ("kind", "group", "version", "singularName", "namespaced", "verbs", "shortNames", "categories")
    return {one["name"]: {key: one[key] for key in keys if key in one} for one in body["resources"]}
