"""Discovery: the documents in which clients read what is served, in the plain form and the aggregated one.

The documents are made when somebody asks and kept until the catalog changes. In the plain form there is a list of
groups and a list of resources per version; in the aggregated one, two documents tell everything.

The rows of discovery: what a client is told about one resource and each of its subresources.

Aggregated discovery: all groups, versions and resources in one document.

Which Kubernetes this server behaves like: what `/version` says.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.schema import builtin_resources
from levelset.apiserver.wire.document_cache import DocumentCache, accepts, check_reading
from levelset.http import Request, Response

__all__ = ["VERSION", "DiscoveryPages", "Part", "aggregated_groups", "parts_of", "resource_rows", "shown_verbs"]

# What is said of a custom resource while its definition is being deleted.
WHILE_TERMINATING = ("delete", "deletecollection", "get", "list", "watch")
CHANGING = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Part:
    """A subresource: its name, the kind that it takes and gives, and its verbs."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


def resource_rows(served: ServedResource) -> list[Object]:
    """The row of a resource and those of its subresources."""
    return [_row(served), *(_part_row(served, part) for part in parts_of(served))]


def shown_verbs(served: ServedResource) -> list[str]:
    """The verbs that a client is told of, sorted."""
    return sorted(WHILE_TERMINATING if served.terminating else served.verbs)


def parts_of(served: ServedResource) -> list[Part]:
    """The subresources of a resource, in the order of their names."""
    found: list[Part] = []
    if served.status:
        found.append(Part("status", *served.gvk, CHANGING))
    if served.scale is not None:
        found.append(Part("scale", "autoscaling", "v1", "Scale", CHANGING))
    if served.logs is not None:
        found.append(Part("log", *served.gvk, ("get",)))
    resource = None if served.custom else builtin_resources(served.group, served.version).get(served.plural)
    for name in served.subresources:
        data = None if resource is None else resource.subresources.get(name)
        if data is None:
            found.append(Part(name, *served.gvk, ("get",)))
        else:
            found.append(Part(name, data.group, data.version, data.kind, data.verbs))
    return sorted(found, key=lambda part: part.name)


def _row(served: ServedResource) -> Object:
    row: Object = {
        "name": served.plural,
        "singularName": served.singular,
        "namespaced": served.namespaced,
        "kind": served.kind,
        "verbs": shown_verbs(served),
    }
    if served.short_names:
        row["shortNames"] = list(served.short_names)
    if served.categories:
        row["categories"] = list(served.categories)
    if "get" in served.verbs:
        row["storageVersionHash"] = _storage_hash(served)
    return row


def _part_row(served: ServedResource, part: Part) -> Object:
    row: Object = {"name": f"{served.plural}/{part.name}", "singularName": "", "namespaced": served.namespaced}
    if (part.group, part.version) != (served.group, served.version):
        row |= {"group": part.group, "version": part.version}
    return {**row, "kind": part.kind, "verbs": list(part.verbs)}


def _storage_hash(served: ServedResource) -> str:
    """Changes exactly if objects are stored in another version: a sign for tools that migrate storage."""
    stored = f"{served.storage_api_version}/{served.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def aggregated_groups(catalog: Catalog, form: str, *, core: bool) -> Object:
    """The document of the core group, or that of all others, in the given version of the form."""
    groups = [group for group in catalog.groups() if (not group) == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": [_aggregated_group(catalog, group) for group in groups],
    }


def _aggregated_group(catalog: Catalog, group: str) -> Object:
    metadata: Object = {"name": group} if group else {}
    versions = [_version(catalog, group, version) for version in catalog.versions(group)]
    return {"metadata": {**metadata, "creationTimestamp": None}, "versions": versions}


def _version(catalog: Catalog, group: str, version: str) -> Object:
    resources = [_resource(served) for served in catalog.resources(group, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _resource(served: ServedResource) -> Object:
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


VERSION: Mapping[str, str] = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+levelset",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}


AGGREGATED = {
    "v2": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "v2beta1": "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
}


class DiscoveryPages:
    """Answers the paths of discovery from a catalog, and `/version` beside them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._documents = DocumentCache(lambda: catalog.generation)

    def respond(self, request: Request) -> Response | None:
        """The document at this path; None if it is no path of discovery, or of nothing that is served."""
        make = self._find(request.segments)
        if make is None:
            return None
        check_reading(request)
        is_root = request.segments in (("api",), ("apis",))
        form = _form(request.headers.get("accept")) if is_root else None
        if form is not None:
            core = request.segments == ("api",)
            document = self._documents.get((core, form), lambda: aggregated_groups(self._catalog, form, core=core))
            return document.respond(request, content_type=AGGREGATED[form], vary="Accept", cache="public")
        document = self._documents.get(request.segments, make)
        return document.respond(request, vary="Accept" if is_root else None)

    def _find(self, segments: tuple[str, ...]) -> Callable[[], Object] | None:
        """What makes the document at a path, if there is one."""
        catalog = self._catalog
        match segments:
            case ():
                return self._paths
            case ("version",):
                return lambda: dict(VERSION)
            case ("api",):
                return self._core
            case ("apis",):
                return self._groups
            case ("api", version) if version in catalog.versions(""):
                return lambda: _resources("", version, catalog)
            case ("apis", group) if group and catalog.versions(group):
                return lambda: {"kind": "APIGroup", "apiVersion": "v1", **_group(group, catalog)}
            case ("apis", group, version) if group and version in catalog.versions(group):
                return lambda: _resources(group, version, catalog)
            case _:
                return None

    def _core(self) -> Object:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
        return {"kind": "APIVersions", "versions": self._catalog.versions(""), "serverAddressByClientCIDRs": addresses}

    def _groups(self) -> Object:
        groups = [_group(name, self._catalog) for name in self._catalog.groups() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _paths(self) -> Object:
        paths = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        for group in self._catalog.groups():
            root = f"/apis/{group}" if group else "/api"
            paths += [*([root] if group else []), *(f"{root}/{version}" for version in self._catalog.versions(group))]
        return {"paths": sorted(paths)}


def _form(accept: str | None) -> str | None:
    """The aggregated form that the client would rather have than the plain one, if any."""
    for media, parameters in accepts(accept):
        if media == "application/json" and parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("g") == "apidiscovery.k8s.io" and parameters.get("v") in AGGREGATED:
                return parameters["v"]
        elif media in ("application/json", "application/*", "*/*") and "as" not in parameters:
            return None
    return None


def _group(name: str, catalog: Catalog) -> Object:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in catalog.versions(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str, catalog: Catalog) -> Object:
    rows = [row for served in catalog.resources(group, version) for row in resource_rows(served)]
    # The core group's list has carried no apiVersion since the first release, and clients compare it.
    head: Object = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group else {})}
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": rows}
