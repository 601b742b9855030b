"""Code generation: CRDs, schemas, RBAC, manifests and Helm charts from classes, and classes from CRDs or OpenAPI.

The results are plain trees or mappings from paths to contents; nothing here writes files or talks to a server. Names
are imported on first use: a running operator needs only CRDs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from levelset.codegen.breaking_changes import Finding, compare_definitions, compare_releases
    from levelset.codegen.call_records import CallRecords, RecordedCall, check_rules, compare_rules
    from levelset.codegen.crd import crd_of, crds_of, version_priority
    from levelset.codegen.dockerfile import docker_files
    from levelset.codegen.helm_chart import helm_chart
    from levelset.codegen.installation import Installation, installation_of
    from levelset.codegen.manifests import documents_of, kustomize_tree, manifests_of
    from levelset.codegen.models.from_crd import models_from_crd
    from levelset.codegen.models.from_openapi import models_from_openapi
    from levelset.codegen.openapi import openapi_of
    from levelset.codegen.permission import Permission
    from levelset.codegen.rbac import infer_permissions, merge_rules, permit, read_permissions, roles_of
    from levelset.codegen.schema import schema_of

__all__ = [
    "CallRecords",
    "Finding",
    "Installation",
    "Permission",
    "RecordedCall",
    "check_rules",
    "compare_definitions",
    "compare_releases",
    "compare_rules",
    "crd_of",
    "crds_of",
    "docker_files",
    "documents_of",
    "helm_chart",
    "infer_permissions",
    "installation_of",
    "kustomize_tree",
    "manifests_of",
    "merge_rules",
    "models_from_crd",
    "models_from_openapi",
    "openapi_of",
    "permit",
    "read_permissions",
    "roles_of",
    "schema_of",
    "version_priority",
]

_MODULES: Final = {
    "breaking_changes": "Finding compare_definitions compare_releases",
    "call_records": "CallRecords RecordedCall check_rules compare_rules",
    "crd": "crd_of crds_of version_priority",
    "dockerfile": "docker_files",
    "helm_chart": "helm_chart",
    "installation": "Installation installation_of",
    "manifests": "documents_of kustomize_tree manifests_of",
    "models.from_crd": "models_from_crd",
    "models.from_openapi": "models_from_openapi",
    "openapi": "openapi_of",
    "permission": "Permission",
    "rbac": "infer_permissions merge_rules permit read_permissions roles_of",
    "schema": "schema_of",
}
_LATE: Final = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
