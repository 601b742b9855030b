"""The registry of CustomResourceDefinitions: keeps the catalog of served resources in sync with the stored CRDs.

The rules of the kind set the defaults of a CRD and compute its status before it is stored, so that the response to its
creation says whether its names are accepted. When it is stored, the catalog changes at once: an established CRD can be
used without delay.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.apiserver.registry.builtin.strategies import builtin_rules
from levelset.apiserver.registry.builtin.written_members import component_members, omit_empty
from levelset.apiserver.registry.crd.names import (
    CrdNames,
    accepted_names,
    compute_status,
    is_established,
    is_terminating,
    with_condition,
)
from levelset.apiserver.registry.crd.served_versions import served_versions
from levelset.apiserver.registry.crd.validation import check_definition, format_warnings
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, Rules, ServedResource
from levelset.apiserver.resources.server_state import ServerState, add_missing_claims, new_claims
from levelset.apiserver.schema.builtin_schemas import builtin_type, library
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.apiserver.wire.step_limits import LARGE_OBJECT
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.timestamps import format_time

__all__ = [
    "CLEANUP_FINALIZER",
    "GROUP",
    "KIND",
    "PLURAL",
    "Converter",
    "CrdRegistry",
    "CustomResourceDefinition",
    "drop_unknown_keywords",
    "name_claims",
]

GROUP = "apiextensions.k8s.io"
KIND = "CustomResourceDefinition"
PLURAL = "customresourcedefinitions"
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

Converter = Callable[[Object, str], Object]
"""Converts an object of any version of a kind to the given apiVersion."""


class CustomResourceDefinition(msgspec.Struct, frozen=True, eq=False):
    """A stored CRD with the resources of its versions, whether they are served or not."""

    tree: Object
    since: int
    """The storage revision at which its schemas last changed."""
    versions: tuple[ServedResource, ...]
    served: tuple[ServedResource, ...]
    """The versions that are in the catalog."""
    webhook_converter: Converter | None = None
    """The conversion webhook; None if there is none."""

    @property
    def name(self) -> str:
        """The name of the CRD, `widgets.example.com`."""
        return str(self.tree["metadata"]["name"])

    @property
    def storage(self) -> ServedResource:
        """The resource of the storage version."""
        return next(one for one in self.versions if one.version == one.storage_version)


class CrdRegistry:
    """All CRDs of a server, kept in sync with the catalog.

    `on_change` is called, if set, after a CRD was stored or removed, with its former and its current state.
    """

    def __init__(self, *, now: Callable[[], datetime]) -> None:
        self._now = now
        self._catalog: Catalog | None = None
        self._definitions: dict[str, CustomResourceDefinition] = {}
        self._names = CrdNames()
        self._logs: dict[tuple[str, str], Callable[..., Any]] = {}
        self._converters: dict[tuple[str, str], Converter] = {}
        self.webhook_converter: Callable[[Object], Converter] | None = None
        """Makes a converter from the `conversion.webhook` of a CRD; None if webhooks are not called."""
        self.on_change: Callable[[CustomResourceDefinition | None, CustomResourceDefinition | None], None] | None = None
        self.rules: Rules = replace(
            builtin_rules(GROUP, KIND),
            default=_set_defaults,
            prepare_create=self._prepare_create,
            prepare_update=self._prepare_update,
            prepare_delete=self._prepare_delete,
            validate=check_definition,
            complete=True,
            warnings=format_warnings,
        )

    async def load(self, state: ServerState) -> None:
        """Serves the stored CRDs, and follows every write from then on."""
        self._catalog = state.catalog
        kind = state.catalog.find(GROUP, "v1", PLURAL)
        if kind is None:
            return
        state.add_resource_listener(kind.prefix, self._stored)
        state.claimers[kind.prefix] = name_claims
        page = await state.storage.list(kind.prefix)
        for item in page.items:
            tree = served_tree(kind, item)
            self.serve(tree)
            await add_missing_claims(state, name_claims(tree))
            if len(item.value) > LARGE_OBJECT:  # read now, rather than on the event loop for the first object
                for one in self._definitions[tree["metadata"]["name"]].versions:
                    one.schema()

    def find(self, name: str) -> CustomResourceDefinition | None:
        """The CRD of this name; None if there is none."""
        return self._definitions.get(name)

    def all(self) -> list[CustomResourceDefinition]:
        """All CRDs."""
        return list(self._definitions.values())

    def of_kind(self, served: ServedResource) -> CustomResourceDefinition | None:
        """The CRD of a custom resource; None for a built-in kind."""
        return self._definitions.get(served.qualified) if served.custom else None

    def desired_status(self, tree: Object) -> Object:
        """The status that a CRD should have, given the names of the others."""
        return compute_status(tree, self._names, self._time())

    def serve_logs(self, group: str, kind: str, handler: Callable[..., Any]) -> None:
        """Sets the handler of the `log` subresource of a custom kind, whether its CRD exists already or not."""
        self._logs[group, kind] = handler
        self._rebuild(group, kind)

    def set_converter(self, group: str, kind: str, convert: Callable[[Object, str], Object]) -> Callable[[], None]:
        """Sets the converter between the versions of a custom kind, whether its CRD exists already or not.

        It gets an object, which it must not modify, and an apiVersion; it may raise anything. The returned function
        removes it, unless another converter has replaced it.
        """
        self._converters[group, kind] = convert
        self._rebuild(group, kind)

        def remove() -> None:
            if self._converters.get((group, kind)) is convert:
                del self._converters[group, kind]
                self._rebuild(group, kind)

        return remove

    def _rebuild(self, group: str, kind: str) -> None:
        for one in self.all():
            if one.storage.group == group and one.storage.kind == kind:
                self._replace(one, self._build(one.tree, one))

    def serve(self, tree: Object) -> None:
        """Updates the catalog with a CRD as it is stored."""
        former = self._definitions.get(tree["metadata"]["name"])
        copied = _copied(tree, None if former is None else former.tree)
        if former is not None and _is_served_alike(former.tree, copied):
            present = replace(former, tree=copied)
        else:
            present = self._build(copied, former)
        self._replace(former, present)

    def remove(self, name: str) -> None:
        """Removes a deleted CRD from the catalog."""
        former = self._definitions.pop(name, None)
        if former is not None:
            self._names.release(name)
            self._update_catalog(former, ())
            self._notify(former, None)

    def _replace(self, former: CustomResourceDefinition | None, present: CustomResourceDefinition) -> None:
        if former is None or former.served is not present.served:
            self._update_catalog(former, present.served)
        self._definitions[present.name] = present
        self._names.claim(present.tree)
        self._notify(former, present)

    def _stored(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self.serve(after)
        elif before is not None:
            self.remove(before["metadata"]["name"])

    def _build(self, tree: Object, former: CustomResourceDefinition | None) -> CustomResourceDefinition:
        revision = int(tree["metadata"].get("resourceVersion") or 0)
        same = former is not None and former.tree["spec"]["versions"] == tree["spec"]["versions"]
        since = former.since if former is not None and same else revision
        kind = (tree["spec"]["group"], tree["spec"]["names"]["kind"])
        converter, webhook = self._converters.get(kind), self._webhook_converter(tree, former)
        versions = served_versions(
            tree,
            since,
            logs=self._logs.get(kind),
            convert=converter or webhook,
            converts_by_webhook=converter is None and webhook is not None,
        )
        served_names = {one["name"] for one in tree["spec"]["versions"] if one.get("served")}
        is_served = is_established(tree) and not self._names.has_conflict(tree)
        served = tuple(one for one in versions if one.version in served_names) if is_served else ()
        return CustomResourceDefinition(tree, since, versions, served, webhook)

    def _webhook_converter(self, tree: Object, former: CustomResourceDefinition | None) -> Converter | None:
        """The conversion webhook of a CRD; the former one with its cache if the CRD has not changed."""
        conversion = map_member(tree["spec"], "conversion")
        if self.webhook_converter is None or conversion.get("strategy") != "Webhook":
            return None
        if former is not None and former.webhook_converter is not None and former.tree["spec"] == tree["spec"]:
            return former.webhook_converter
        return self.webhook_converter(map_member(conversion, "webhook"))

    def _update_catalog(self, former: CustomResourceDefinition | None, present: tuple[ServedResource, ...]) -> None:
        if self._catalog is not None:
            self._catalog.change(remove=() if former is None else former.served, add=present)

    def _notify(self, former: CustomResourceDefinition | None, present: CustomResourceDefinition | None) -> None:
        if self.on_change is not None:
            self.on_change(former, present)

    def _prepare_create(self, tree: Object) -> None:
        tree["status"] = self.desired_status({**tree, "status": {}})

    def _prepare_update(self, new: Object, old: Object) -> None:
        new["status"] = map_member(old, "status")
        new["status"] = self.desired_status(new)

    def _prepare_delete(self, tree: Object) -> None:
        finalizers = list_member(tree["metadata"], "finalizers")
        if CLEANUP_FINALIZER not in finalizers:
            tree["metadata"]["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
        status = dict(map_member(tree, "status"))
        reason, message = "InstanceDeletionPending", "the definition is marked for deletion; its objects go first"
        status["conditions"] = with_condition(
            list_member(status, "conditions"), "Terminating", "True", reason, message, now=self._time()
        )
        tree["status"] = status

    def _time(self) -> str:
        return format_time(self._now())


def name_claims(tree: Object) -> dict[str, bytes]:
    """The claims of the accepted names of a CRD; see `Claimer`."""
    names = [(f"{scope}-names/{group}", name) for group, scope, name in accepted_names(tree)]
    return new_claims(tree["metadata"]["name"], names)


def _set_defaults(tree: Object) -> None:
    """Sets the defaults of a CRD."""
    spec = tree.setdefault("spec", {})
    names = spec.setdefault("names", {})
    for version in list_member(spec, "versions"):
        drop_unknown_keywords(map_member(version, "schema").get("openAPIV3Schema"))
    kind = names.get("kind") or ""
    names["singular"] = names.get("singular") or kind.lower()
    names["listKind"] = names.get("listKind") or (f"{kind}List" if kind else "")
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    conversion = map_member(spec, "conversion")
    service = (map_member(map_member(conversion, "webhook"), "clientConfig")).get("service")
    if service is not None:
        service.setdefault("port", 443)
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]


def _copied(tree: Object, former: Object | None) -> Object:
    """A deep copy; through JSON, which takes a tenth of the time of `copy.deepcopy`.

    It shares the spec of the former copy if that has not changed: a status is written more often than a large schema,
    and to compare the two copies takes no time then.
    """
    if former is None or former["spec"] != tree["spec"]:
        whole: Object = decode_tree(encode_tree(tree))
        return whole
    copied: Object = decode_tree(encode_tree({name: value for name, value in tree.items() if name != "spec"}))
    return {**copied, "spec": former["spec"]}


def _is_served_alike(former: Object, tree: Object) -> bool:
    """Whether the served resources are the same, so that they need not be rebuilt."""
    if former["spec"] != tree["spec"] or is_established(former) != is_established(tree):
        return False
    if is_terminating(former) != is_terminating(tree):
        return False
    names = [map_member(one, "status").get("acceptedNames") for one in (former, tree)]
    return names[0] == names[1]


_TYPES: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_SCHEMA: Final = f"{_TYPES}.JSONSchemaProps"
_MAPS: Final = ("properties", "patternProperties", "definitions")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_FREE: Final = ("items", "additionalProperties", "additionalItems")


def drop_unknown_keywords(schema: Any, *, is_free: bool = False) -> None:
    """Drops unknown keywords from the schemas inside of a schema, in place; from itself if it `is_free`.

    Those of `items` and `additionalProperties` are decoded by code of their own upstream, which does not report unknown
    fields; all others are those of the kind, and are pruned with it. Raises Undecodable for values of another type.
    """
    if not is_map(schema):
        return
    if is_free:
        known: Any = library()[_SCHEMA]["properties"]
        for name in [name for name in schema if name not in known]:
            del schema[name]
        for owner, kind in _typed_parts(schema):
            parts: Any = library()[kind]["properties"]
            for name in [name for name in owner if name not in parts]:
                del owner[name]
        wrong = builtin_type(_SCHEMA).first_type_error(schema)
        if wrong is not None:
            raise Undecodable(f"the definition cannot be decoded: {wrong.field}: {wrong.message}")
        members = component_members(_SCHEMA)
        if members is not None:
            omit_empty(members, schema)
    for one in _inside(schema):
        drop_unknown_keywords(one, is_free=is_free)
    for name in schema.keys() & _FREE:
        for one in schema[name] if is_list(schema[name]) else (schema[name],):
            drop_unknown_keywords(one, is_free=True)


def _typed_parts(schema: Any) -> Iterator[tuple[Any, str]]:
    """The parts of a schema that are no schemas, and have members of their own, with their types."""
    rules = schema.get("x-kubernetes-validations")
    yield from [(one, f"{_TYPES}.ValidationRule") for one in rules or () if is_map(one)] if is_list(rules) else ()
    if is_map(schema.get("externalDocs")):
        yield schema["externalDocs"], f"{_TYPES}.ExternalDocumentation"


def _inside(schema: Any) -> Iterator[Any]:
    """The schemas inside of a schema that are decoded as it is."""
    for name in schema.keys() & _MAPS:
        if is_map(schema[name]):
            yield from schema[name].values()
    for name in schema.keys() & _LISTS:
        if is_list(schema[name]):
            yield from schema[name]
    yield schema.get("not")
