"""Discovery: the documents in which clients read what is served, in the plain form and the aggregated one.

The documents are made when somebody asks and kept until the catalog changes. In the plain form there is a list of
groups and a list of resources per version; in the aggregated one, two documents tell everything.
"""

from collections.abc import Callable

from levelset.apiserver.aggregated import aggregated_groups
from levelset.apiserver.catalog import Catalog
from levelset.apiserver.discovery_rows import resource_rows
from levelset.apiserver.documents import DocumentCache, accepts, check_reading
from levelset.apiserver.served import Object
from levelset.apiserver.versioninfo import VERSION
from levelset.web import Request, Response

__all__ = ["DiscoveryPages"]

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
