"""Aggregated discovery: all groups, versions and resources in one document."""

from levelset.apiserver.catalog import Catalog
from levelset.apiserver.discovery_rows import parts_of, shown_verbs
from levelset.apiserver.served import Object, Served

__all__ = ["aggregated_groups"]


def aggregated_groups(catalog: Catalog, form: str, *, core: bool) -> Object:
    """The document of the core group, or that of all others, in the given version of the form."""
    groups = [group for group in catalog.groups() if (not group) == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": [_group(catalog, group) for group in groups],
    }


def _group(catalog: Catalog, group: str) -> Object:
    metadata: Object = {"name": group} if group else {}
    versions = [_version(catalog, group, version) for version in catalog.versions(group)]
    return {"metadata": {**metadata, "creationTimestamp": None}, "versions": versions}


def _version(catalog: Catalog, group: str, version: str) -> Object:
    resources = [_resource(served) for served in catalog.resources(group, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _resource(served: Served) -> Object:
    row: Object = {
        "resource": served.plural,
        "responseKind": _kind(*served.gvk),
        "scope": "Namespaced" if served.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": shown_verbs(served),
    }
    if served.short_names:
        row["shortNames"] = list(served.short_names)
    if served.categories:
        row["categories"] = list(served.categories)
    parts = parts_of(served)
    if parts:
        row["subresources"] = [
            {
                "subresource": part.name,
                "responseKind": _kind(part.group, part.version, part.kind),
                "verbs": list(part.verbs),
            }
            for part in parts
        ]
    return row


def _kind(group: str, version: str, kind: str) -> Object:
    return {"group": group, "version": version, "kind": kind}
