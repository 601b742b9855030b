"""Discovery: `/api`, `/apis` and below, unaggregated and aggregated, and `/version`.

Unaggregated discovery has a list of groups, and an APIResourceList per group and version. Aggregated discovery
(`apidiscovery.k8s.io`) has two documents: the core group at `/api`, all others at `/apis`. A document is built when it
is first requested, and cached until the catalog changes.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping

import msgspec

from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.schema import builtin_resources
from levelset.apiserver.wire.accept_header import parse_accept
from levelset.apiserver.wire.body_encoding import BodyForm, is_pretty
from levelset.apiserver.wire.document_cache import DocumentCache
from levelset.apiserver.wire.negotiation import JSON, YAML, check_produced, negotiate
from levelset.apiserver.wire.protobuf import PROTOBUF
from levelset.apiserver.wire.status_errors import method_not_allowed, no_such_resource
from levelset.errors import ConfigError
from levelset.http import Request, Response
from levelset.objects.lazy_pattern import Pattern

__all__ = [
    "VERSION",
    "DiscoveryPages",
    "Subresource",
    "aggregated_groups",
    "api_resources",
    "discovery_verbs",
    "subresources_of",
    "version_info",
]


# The verbs of a custom resource while its definition is being deleted.
TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
# As upstream lists them.
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
READ_WRITE_VERBS = ("get", "patch", "update")
PROXY_VERBS = ("create", "delete", *READ_WRITE_VERBS)
STREAM_VERBS = ("create", "get")
"""The verbs of what a client connects to by GET or POST: `exec`, `attach` and `portforward`."""
# The Kubernetes version whose behaviour this server follows.
VERSION: Mapping[str, str] = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.0+levelset",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_DOCUMENT_TYPES = (JSON, YAML, PROTOBUF)
_KUBERNETES_VERSION = Pattern(r"v?1\.(\d{1,3})(?:\.(\d{1,3}))?", re.ASCII)
AGGREGATED = {"g": "apidiscovery.k8s.io", "v": "v2", "as": "APIGroupDiscoveryList"}
_AGGREGATED_PARAMETERS = "".join(f";{name}={value}" for name, value in AGGREGATED.items())


def version_info(text: str | None) -> Mapping[str, str]:
    """What `/version` says for a Kubernetes version such as "1.34"; that of this server without one; ConfigError.

    Clients compare it with their own and warn of differences. It changes nothing else.
    """
    if text is None:
        return VERSION
    found = _KUBERNETES_VERSION.fullmatch(text)
    if found is None:
        raise ConfigError(f"{text!r} is not a version of Kubernetes; write it as 1.34 or v1.34.2")
    minor, patch = int(found[1]), int(found[2] or 0)
    older = {"minor": str(minor), "emulationMinor": str(minor), "minCompatibilityMinor": str(max(0, minor - 1))}
    return {**VERSION, **older, "gitVersion": f"v1.{minor}.{patch}+levelset"}


class DiscoveryPages:
    """Serves the discovery paths and `/version` from a catalog."""

    def __init__(self, catalog: Catalog, version: Mapping[str, str] = VERSION) -> None:
        self._catalog = catalog
        self._version = version
        self._documents = DocumentCache(lambda: catalog.generation)

    def respond(self, request: Request) -> Response | None:
        """Returns the document at this path; None if it is not a discovery path of a served group or version."""
        build = self._find(request.segments)
        if build is None:
            return None
        self._check_method(request)
        segments, accept = request.segments, request.headers.get("accept")
        is_root = segments in (("api",), ("apis",))
        if accept and accept != JSON and self._is_routed(segments):
            check_produced(accept, (JSON,) if segments == ("version",) else _DOCUMENT_TYPES)
        if is_root and (media := _aggregated_type(accept)) is not None:
            form: BodyForm = "yaml" if media == YAML else _json_form(request)
            core = segments == ("api",)
            document = self._documents.get(
                ("aggregated", core), lambda: aggregated_groups(self._catalog, core=core), form
            )
            return document.respond(request, content_type=media + _AGGREGATED_PARAMETERS, vary="Accept", cache="public")
        if segments in ((), ("version",)):
            return self._documents.get(segments, build, "pretty").respond(request)
        chosen = negotiate(accept, "document", custom=True)
        form = "yaml" if chosen.media == YAML else "pretty" if chosen.pretty else _json_form(request)
        document = self._documents.get(segments, build, form)
        return document.respond(request, content_type=chosen.media, vary="Accept" if is_root else None)

    def _is_routed(self, segments: tuple[str, ...]) -> bool:
        """Whether upstream's router serves a path, which has its own words for a 406."""
        match segments:
            case () | ("apis",) | ("apis", _):
                return False
            case ("apis", group, _):
                return self._catalog.is_builtin(group)
            case _:
                return True

    def _check_method(self, request: Request) -> None:
        """As upstream, which serves groups and the versions of custom ones for all methods, the rest for GET only."""
        match request.segments:
            case () | ("apis",) | ("apis", _):
                return
            case ("apis", group, _) if not self._catalog.is_builtin(group):
                return
            case _:
                if request.method != "GET":
                    raise method_not_allowed()

    def _find(self, segments: tuple[str, ...]) -> Callable[[], Object] | None:
        """Returns the function that builds the document at a path, or None."""
        catalog = self._catalog
        match segments:
            case ():
                return self._root_paths
            case ("version",):
                return lambda: dict(self._version)
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
            case ("api", _):
                raise no_such_resource()
            case ("apis", group, _) if group and catalog.is_builtin(group):
                raise no_such_resource()
            case _:
                return None

    def _core(self) -> Object:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
        return {"kind": "APIVersions", "versions": self._catalog.versions(""), "serverAddressByClientCIDRs": addresses}

    def _groups(self) -> Object:
        groups = [_group(name, self._catalog) for name in self._catalog.groups() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _root_paths(self) -> Object:
        paths = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        for group in self._catalog.groups():
            root = f"/apis/{group}" if group else "/api"
            paths += [*([root] if group else []), *(f"{root}/{version}" for version in self._catalog.versions(group))]
        return {"paths": sorted(paths)}


class Subresource(msgspec.Struct, frozen=True):
    """A subresource in discovery: its name, the kind of its objects, and its verbs."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


def api_resources(served: ServedResource) -> list[Object]:
    """Returns the APIResource of a resource and those of its subresources."""
    return [_api_resource(served), *(_api_subresource(served, subresource) for subresource in subresources_of(served))]


def discovery_verbs(served: ServedResource) -> list[str]:
    """Returns the verbs that discovery shows, sorted; those of a custom resource are in an order of their own."""
    if served.custom and "create" in served.verbs:
        return list(TERMINATING_VERBS if served.terminating else CUSTOM_VERBS)
    return sorted(served.verbs)  # a computed kind is custom, too


def subresources_of(served: ServedResource) -> list[Subresource]:
    """Returns the subresources of a resource, sorted by name; as upstream, those of a custom one begin with status."""
    found: list[Subresource] = []
    if served.status:
        found.append(Subresource("status", *served.gvk, READ_WRITE_VERBS))
    if served.scale is not None:
        found.append(Subresource("scale", "autoscaling", "v1", "Scale", READ_WRITE_VERBS))
    if served.logs is not None:
        found.append(Subresource("log", *served.gvk, ("get",)))
    resource = None if served.custom else builtin_resources(served.group, served.version).get(served.plural)
    for name in served.subresources:
        data = None if resource is None else resource.subresources.get(name)
        if name == "proxy":
            kind = f"{served.kind}ProxyOptions"
            found.append(Subresource(name, served.group, served.version, kind, PROXY_VERBS))
        elif data is None:
            found.append(Subresource(name, *served.gvk, ("get",)))
        else:
            verbs = STREAM_VERBS if data.verbs == ("connect",) else data.verbs
            found.append(Subresource(name, data.group, data.version, data.kind, verbs))
    return found if served.custom else sorted(found, key=lambda subresource: subresource.name)


def _api_resource(served: ServedResource) -> Object:
    entry: Object = {
        "name": served.plural,
        "singularName": served.singular,
        "namespaced": served.namespaced,
        "kind": served.kind,
        "verbs": discovery_verbs(served),
    }
    if served.short_names:
        entry["shortNames"] = list(served.short_names)
    if served.categories:
        entry["categories"] = list(served.categories)
    if "watch" in served.verbs:  # of what is stored
        entry["storageVersionHash"] = _storage_version_hash(served)
    return entry


def _api_subresource(served: ServedResource, subresource: Subresource) -> Object:
    entry: Object = {"name": f"{served.plural}/{subresource.name}", "singularName": "", "namespaced": served.namespaced}
    if (subresource.group, subresource.version) != (served.group, served.version):
        entry |= {"group": subresource.group, "version": subresource.version}
    return {**entry, "kind": subresource.kind, "verbs": list(subresource.verbs)}


def _storage_version_hash(served: ServedResource) -> str:
    """Returns the `storageVersionHash`, which changes only with the storage version (for storage migration tools)."""
    core = "" if "/" in served.storage_api_version else "/"
    stored = f"{core}{served.storage_api_version}/{served.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def aggregated_groups(catalog: Catalog, *, core: bool) -> Object:
    """Returns the APIGroupDiscoveryList of the core group, or of all others."""
    groups = [group for group in catalog.groups() if (not group) == core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{AGGREGATED['g']}/{AGGREGATED['v']}",
        "metadata": {},
        "items": [_aggregated_group(catalog, group) for group in groups],
    }


def _aggregated_group(catalog: Catalog, group: str) -> Object:
    metadata: Object = {"name": group} if group else {}
    versions = [_aggregated_version_entry(catalog, group, version) for version in catalog.versions(group)]
    return {"metadata": metadata, "versions": versions}


def _aggregated_version_entry(catalog: Catalog, group: str, version: str) -> Object:
    resources = [_aggregated_resource(served) for served in catalog.resources(group, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _aggregated_resource(served: ServedResource) -> Object:
    entry: Object = {
        "resource": served.plural,
        "responseKind": _kind(served, *served.gvk),
        "scope": "Namespaced" if served.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": discovery_verbs(served),
    }
    if served.short_names:
        entry["shortNames"] = list(served.short_names)
    if served.categories:
        entry["categories"] = list(served.categories)
    subresources = subresources_of(served)
    if subresources:
        entry["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": _kind(served, subresource.group, subresource.version, subresource.kind),
                "verbs": list(subresource.verbs),
            }
            for subresource in subresources
        ]
    return entry


def _kind(served: ServedResource, group: str, version: str, kind: str) -> Object:
    if not served.custom and (group, version) == (served.group, served.version):
        group = version = ""  # as upstream: those of the document around it
    return {"group": group, "version": version, "kind": kind}


def _aggregated_type(accept: str | None) -> str | None:
    """The media type of aggregated discovery that the client accepts, if any; it is preferred to the unaggregated."""
    for clause in parse_accept(accept or ""):
        if all(clause.parameters.get(name) == value for name, value in AGGREGATED.items()):
            found = next((media for media in (JSON, YAML) if clause.matches(media)), None)
            if found is not None:
                return found
    return None


def _json_form(request: Request) -> BodyForm:
    return "pretty" if is_pretty(request) else "json"


def _group(name: str, catalog: Catalog) -> Object:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in catalog.versions(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str, catalog: Catalog) -> Object:
    rows = [entry for served in catalog.resources(group, version) for entry in api_resources(served)]
    # Upstream quirk: the APIResourceList of the core group has no apiVersion, and clients compare it.
    head: Object = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group else {})}
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": rows}
