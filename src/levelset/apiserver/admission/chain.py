"""The admission chain: the mutating and validating plugins that are called before a client's write is committed.

An `AdmissionPlugin` gets the `request` of an AdmissionReview and returns its `response`, both as plain JSON trees of
`admission.k8s.io/v1`. The server does not distinguish a function in this process from a webhook behind a connection.
`verbs/write_admission.py` runs the chain.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

import msgspec

from levelset.apiserver.authn.users import User, user_info
from levelset.apiserver.registry.builtin.conversions import STORAGE_CONVERSIONS
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.errors import ApiError

__all__ = [
    "AdmissionChain",
    "AdmissionContext",
    "AdmissionPlugin",
    "AdmissionPolicy",
    "AdmissionRequest",
    "Operation",
    "SubresourceView",
    "equivalent_resources",
    "review_request",
]

Operation = Literal["CONNECT", "CREATE", "DELETE", "UPDATE"]

_WRITES: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE", "DELETE")
_MANY: Final = 100
"""Plugins beyond which the rules of all of them take too long to be compared at once."""
_KINDS_WITH_CONVERSION: Final = frozenset(kind for _, _, kind in STORAGE_CONVERSIONS)


class AdmissionPlugin(Protocol):
    """Something that may change or reject a write before it is committed."""

    @property
    def name(self) -> str:
        """The name in error messages: a domain name of at least three segments."""
        ...

    @property
    def mutates(self) -> bool:
        """Whether it may change the object; mutating plugins run before the object is validated."""
        ...

    @property
    def reinvokes(self) -> bool:
        """Whether it is called a second time if a later plugin changed the object (`reinvocationPolicy: IfNeeded`)."""
        ...

    def matches(self, operation: str, resource: tuple[str, str, str], subresource: str, /) -> bool:
        """Whether its rules match the operation on (group, version, resource); must be quick: every write calls it."""
        ...

    async def review(self, request: Tree, namespace: Tree | None, /) -> Tree:
        """The `response` to the `request` of an AdmissionReview; must not modify its arguments.

        `namespace` is the Namespace of the object, None if it has none. The plugin itself evaluates its selectors and
        match conditions, and applies its failure policy: an exception fails the request.
        """
        ...


class AdmissionPolicy(ABC):
    """A plugin that evaluates an admission policy: called before all other plugins, with its own error messages.

    The keys of its `auditAnnotations` are complete; those of other plugins get the plugin's name as a prefix.
    """

    @abstractmethod
    def denial(self, request: Tree, response: Tree, /) -> ApiError:
        """The error for the client if the response does not allow the request."""


class SubresourceView(NamedTuple):
    """How a subresource such as `scale` appears in reviews, and how a mutated view is merged into the object."""

    show: Callable[[ServedResource, Tree], Tree]
    merge: Callable[[ServedResource, Tree, Tree], Tree]


class AdmissionChain:
    """The admission plugins of a server in the order in which they are called: policies first, as in Kubernetes."""

    __slots__ = ("mutating", "plugins", "validating", "validating_policies")

    def __init__(self, plugins: Iterable[AdmissionPlugin] = ()) -> None:
        self.plugins: Sequence[AdmissionPlugin] = tuple(
            sorted(plugins, key=lambda one: not isinstance(one, AdmissionPolicy))
        )
        self.mutating = tuple(one for one in self.plugins if one.mutates)
        validating = [one for one in self.plugins if not one.mutates]
        self.validating_policies = tuple(one for one in validating if isinstance(one, AdmissionPolicy))
        """The ValidatingAdmissionPolicies; webhooks are not called if one of them rejects the write."""
        self.validating = tuple(one for one in validating if not isinstance(one, AdmissionPolicy))

    def handles(
        self, served: ServedResource, subresource: str, catalog: Catalog, operations: Sequence[Operation] = _WRITES
    ) -> bool:
        """Whether any plugin matches such an operation on this resource, in any version; true if there are many.

        Admission compares many with pauses in between; without a match it changes nothing.
        """
        if len(self.plugins) > _MANY:
            return True
        resources = [served.gvr, *(other.gvr for other in equivalent_resources(catalog, served))]
        return any(
            one.matches(operation, resource, subresource)
            for one in self.plugins
            for resource in resources
            for operation in operations
        )

    def with_plugins(self, plugins: Iterable[AdmissionPlugin]) -> "AdmissionChain":
        """A chain with these plugins appended."""
        return AdmissionChain((*self.plugins, *plugins))

    def without_plugins(self, plugins: Iterable[AdmissionPlugin]) -> "AdmissionChain":
        """A chain without these plugins, compared by identity."""
        removed = {id(one) for one in plugins}
        return AdmissionChain(one for one in self.plugins if id(one) not in removed)

    def or_none(self) -> "AdmissionChain | None":
        """The chain, or None if it is empty."""
        return self if self.plugins else None


def equivalent_resources(catalog: Catalog, served: ServedResource) -> list[ServedResource]:
    """The other resources that serve the same objects, the preferred version first."""
    if served.custom:
        found = (catalog.find(served.group, version, served.plural) for version in catalog.versions(served.group))
        return [one for one in found if one is not None and one is not served]
    if served.kind not in _KINDS_WITH_CONVERSION:
        return []
    return [one for one in catalog.all() if one.prefix == served.prefix and one is not served]


class AdmissionContext(msgspec.Struct, frozen=True):
    """What all admission calls of one client request share: the chain, the user, and what they report."""

    chain: AdmissionChain
    user: User
    warnings: list[str]
    """Collects the warnings for the client."""
    view: SubresourceView | None = None
    annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Collects the audit annotations by key, `webhook.example.com/key`."""


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One write that is reviewed: the attributes of an AdmissionReview request, without the objects."""

    uid: str
    operation: Operation
    served: ServedResource
    subresource: str
    name: str
    namespace: str | None
    user: User
    options: Tree | None
    """None of a request that connects."""
    dry_run: bool


def review_request(request: AdmissionRequest, matched: ServedResource, new: Tree | None, old: Tree | None) -> Tree:
    """The `request` of an AdmissionReview; `matched` is the resource in whose version the objects are given."""
    kind, resource = _kind(request, matched, new or old), _resource(matched)
    requested_kind, requested_resource = _kind(request, request.served, new or old), _resource(request.served)
    tree: Tree = {"uid": request.uid, "kind": kind, "resource": resource}
    subresource = request.subresource
    if subresource:
        tree["subResource"] = subresource
    tree |= {"requestKind": requested_kind, "requestResource": requested_resource}
    if subresource:
        tree["requestSubResource"] = subresource
    if request.name:
        tree["name"] = request.name
    if request.namespace:
        tree["namespace"] = request.namespace
    tree |= {"operation": request.operation, "userInfo": user_info(request.user), "object": new, "oldObject": old}
    return {**tree, "dryRun": request.dry_run, "options": request.options}


def _kind(request: AdmissionRequest, matched: ServedResource, tree: Tree | None) -> Tree:
    """The kind of the given object; a subresource may have another kind, such as Scale."""
    shown: Any = None if tree is None or not request.subresource else tree
    if shown is not None and cast("Tree", shown).get("kind") != matched.kind:
        group, _, version = str(shown.get("apiVersion")).rpartition("/")
        return {"group": group, "version": version, "kind": shown.get("kind")}
    return {"group": matched.group, "version": matched.version, "kind": matched.kind}


def _resource(served: ServedResource) -> Tree:
    return {"group": served.group, "version": served.version, "resource": served.plural}
