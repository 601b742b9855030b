"""Custom resource definitions: they are served from the moment they are stored, and looked after as long as they live.

The rules of the kind fill in what a definition leaves out and settle its status before it is stored, so that the
answer to its creation says whether its names are accepted. When it is stored, the catalog changes at once: there is no
time between "established" and "can be used".
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from levelset.apiserver.registry.builtin.strategies import rules_of
from levelset.apiserver.registry.crd.names import Names, is_established, is_terminating, settle_status, with_condition
from levelset.apiserver.registry.crd.served_versions import served_of
from levelset.apiserver.registry.crd.validation import check_definition
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, Rules, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.objects.timestamps import format_time

__all__ = ["CLEANUP", "GROUP", "KIND", "PLURAL", "Converter", "Definition", "Definitions"]

GROUP = "apiextensions.k8s.io"
KIND = "CustomResourceDefinition"
PLURAL = "customresourcedefinitions"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"

Converter = Callable[[Object, str], Object]
"""Makes of an object of any version of a kind one of the apiVersion that is wanted."""


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A stored definition, and all its versions as they are or would be served."""

    tree: Object
    since: int
    """The revision at which its schemas last changed."""
    versions: tuple[ServedResource, ...]
    served: tuple[ServedResource, ...]
    """Those of them that are in the catalog."""
    remote: Converter | None = None
    """The webhook that converts between the versions; None if there is none."""

    @property
    def name(self) -> str:
        """The name of the definition, `widgets.example.com`."""
        return str(self.tree["metadata"]["name"])

    @property
    def storage(self) -> ServedResource:
        """The version in which objects are stored."""
        return next(one for one in self.versions if one.version == one.storage_version)


class Definitions:
    """All definitions of a server, kept in step with the catalog.

    `changed` is called, if set, after a definition was stored or removed, with its former and its present state.
    """

    def __init__(self, *, now: Callable[[], datetime]) -> None:
        self._now = now
        self._catalog: Catalog | None = None
        self._known: dict[str, Definition] = {}
        self._names = Names()
        self._logs: dict[tuple[str, str], Callable[..., Any]] = {}
        self._converters: dict[tuple[str, str], Converter] = {}
        self.remote: Callable[[Object], Converter] | None = None
        """Makes a converter of the `webhook` in a definition; None if none is called."""
        self.changed: Callable[[Definition | None, Definition | None], None] | None = None
        self.rules: Rules = replace(
            rules_of(GROUP, KIND),
            default=_fill,
            prepare_create=self._prepare_create,
            prepare_update=self._prepare_update,
            prepare_delete=self._prepare_delete,
            validate=check_definition,
        )

    async def load(self, world: World) -> None:
        """Serves what is stored already, and from then on follows every write."""
        self._catalog = world.catalog
        kind = world.catalog.find(GROUP, "v1", PLURAL)
        if kind is None:
            return
        world.follow(kind.prefix, self._stored)
        page = await world.storage.list(kind.prefix)
        for item in page.items:
            self.accept(served_tree(kind, item))

    def find(self, name: str) -> Definition | None:
        """The definition of this name, None if there is none."""
        return self._known.get(name)

    def all(self) -> list[Definition]:
        """All definitions."""
        return list(self._known.values())

    def of_kind(self, served: ServedResource) -> Definition | None:
        """The definition that a custom resource comes from."""
        return self._known.get(served.qualified) if served.custom else None

    def settle(self, tree: Object) -> Object:
        """The status that this definition should have now."""
        return settle_status(tree, self._names, self._time())

    def serve_logs(self, group: str, kind: str, handler: Callable[..., Any]) -> None:
        """Has the `log` subresource of a custom kind answered by this handler, now and whenever it is defined."""
        self._logs[group, kind] = handler
        self._remake(group, kind)

    def convert_with(self, group: str, kind: str, convert: Callable[[Object, str], Object]) -> Callable[[], None]:
        """Has the versions of a custom kind converted by this function, now and whenever it is defined.

        It gets an object, which it leaves as it is, and an apiVersion; it may raise anything. What is returned ends it,
        unless another function has taken its place.
        """
        self._converters[group, kind] = convert
        self._remake(group, kind)

        def end() -> None:
            if self._converters.get((group, kind)) is convert:
                del self._converters[group, kind]
                self._remake(group, kind)

        return end

    def _remake(self, group: str, kind: str) -> None:
        for one in self.all():
            if one.storage.group == group and one.storage.kind == kind:
                self._replace(one, self._made(one.tree, one))

    def accept(self, tree: Object) -> None:
        """Serves a definition as it is now stored, from this very moment."""
        former = self._known.get(tree["metadata"]["name"])
        if former is not None and _looks_alike(former.tree, tree):
            present = replace(former, tree=copy.deepcopy(tree))
        else:
            present = self._made(copy.deepcopy(tree), former)
        self._replace(former, present)

    def forget(self, name: str) -> None:
        """Serves a definition no longer, because it is gone."""
        former = self._known.pop(name, None)
        if former is not None:
            self._names.release(name)
            self._serve(former, ())
            self._tell(former, None)

    def _replace(self, former: Definition | None, present: Definition) -> None:
        if former is None or former.served is not present.served:
            self._serve(former, present.served)
        self._known[present.name] = present
        self._names.claim(present.tree)
        self._tell(former, present)

    def _stored(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self.accept(after)
        elif before is not None:
            self.forget(before["metadata"]["name"])

    def _made(self, tree: Object, former: Definition | None) -> Definition:
        revision = int(tree["metadata"].get("resourceVersion") or 0)
        same = former is not None and former.tree["spec"]["versions"] == tree["spec"]["versions"]
        since = former.since if former is not None and same else revision
        named = (tree["spec"]["group"], tree["spec"]["names"]["kind"])
        own, remote = self._converters.get(named), self._remote(tree, former)
        versions = served_of(
            tree, since, logs=self._logs.get(named), convert=own or remote, awaits=own is None and remote is not None
        )
        listed = {one["name"] for one in tree["spec"]["versions"] if one.get("served")}
        is_shown = is_established(tree) and not self._names.are_contested(tree)
        shown = tuple(one for one in versions if one.version in listed) if is_shown else ()
        return Definition(tree, since, versions, shown, remote)

    def _remote(self, tree: Object, former: Definition | None) -> Converter | None:
        """The webhook that converts, if the definition names one; the former one if it is the same."""
        conversion = part(tree["spec"], "conversion")
        if self.remote is None or conversion.get("strategy") != "Webhook":
            return None
        if former is not None and former.remote is not None and former.tree["spec"] == tree["spec"]:
            return former.remote
        return self.remote(part(conversion, "webhook"))

    def _serve(self, former: Definition | None, present: tuple[ServedResource, ...]) -> None:
        if self._catalog is not None:
            self._catalog.change(remove=() if former is None else former.served, add=present)

    def _tell(self, former: Definition | None, present: Definition | None) -> None:
        if self.changed is not None:
            self.changed(former, present)

    def _prepare_create(self, tree: Object) -> None:
        tree["status"] = self.settle({**tree, "status": {}})

    def _prepare_update(self, new: Object, old: Object) -> None:
        new["status"] = part(old, "status")
        new["status"] = self.settle(new)

    def _prepare_delete(self, tree: Object) -> None:
        finalizers = items(tree["metadata"], "finalizers")
        if CLEANUP not in finalizers:
            tree["metadata"]["finalizers"] = [*finalizers, CLEANUP]
        status = dict(part(tree, "status"))
        reason, message = "InstanceDeletionPending", "the definition is marked for deletion; its objects go first"
        status["conditions"] = with_condition(
            items(status, "conditions"), "Terminating", "True", reason, message, now=self._time()
        )
        tree["status"] = status

    def _time(self) -> str:
        return format_time(self._now())


def _fill(tree: Object) -> None:
    """Fills in what a definition leaves out."""
    spec = tree.setdefault("spec", {})
    names = spec.setdefault("names", {})
    spec.setdefault("versions", [])
    kind = names.get("kind") or ""
    names["singular"] = names.get("singular") or kind.lower()
    names["listKind"] = names.get("listKind") or f"{kind}List"
    conversion = part(spec, "conversion")
    spec["conversion"] = {**conversion, "strategy": conversion.get("strategy") or "None"}
    service = (part(part(conversion, "webhook"), "clientConfig")).get("service")
    if service is not None:
        service.setdefault("port", 443)
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]


def _looks_alike(former: Object, tree: Object) -> bool:
    """Whether nothing changed that shows in what is served."""
    if former["spec"] != tree["spec"] or is_established(former) != is_established(tree):
        return False
    if is_terminating(former) != is_terminating(tree):
        return False
    names = [part(one, "status").get("acceptedNames") for one in (former, tree)]
    return names[0] == names[1]
