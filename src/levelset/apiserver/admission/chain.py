"""Who is asked before a client's write: the chain of those who may change an object, and of those who may refuse it.

An `Admitter` is asked with the `request` of an AdmissionReview and answers with its `response`, both as plain trees of
`admission.k8s.io/v1`. So it makes no difference to the server whether the one who answers is a function in this process
or a webhook at the other end of a connection.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol, cast

from levelset.apiserver.authn.users import Caller, user_info
from levelset.apiserver.registry.builtin.equivalent_kinds import VIEWS
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.errors import ApiError

__all__ = [
    "Admitter",
    "Asking",
    "Chain",
    "Form",
    "Operation",
    "Policy",
    "Question",
    "equivalents",
    "request_tree",
]

Operation = Literal["CONNECT", "CREATE", "DELETE", "UPDATE"]

_WRITES: Final = ("CREATE", "UPDATE", "DELETE")
_VIEWED: Final = frozenset(kind for _, _, kind in VIEWS)


class Admitter(Protocol):
    """Somebody who is asked before a write."""

    @property
    def name(self) -> str:
        """What a refusal is signed with; a domain name of three parts or more."""
        ...

    @property
    def mutates(self) -> bool:
        """Whether it may change the object; all who may are asked before the object is judged."""
        ...

    @property
    def reinvokes(self) -> bool:
        """Whether it wants to be asked once more if somebody after it has changed the object, too."""
        ...

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str, /) -> bool:
        """Whether it is for this operation on this group, version and resource, as rules say it; must be quick."""
        ...

    async def review(self, request: Tree, space: Tree | None, /) -> Tree:
        """The `response` to the `request` of an AdmissionReview; neither of the trees it is given may be changed.

        `space` is the Namespace of the object, None if it has none. It is this method's own affair to leave objects
        alone that its selectors and conditions leave out, and to do as its failure policy says if it cannot answer:
        what it raises ends the request.
        """
        ...


class Policy(ABC):
    """An admitter that the server evaluates itself: asked before all others, and it refuses in words of its own.

    The keys of its `auditAnnotations` are whole, while others' get the name of the one who answered in front.
    """

    @abstractmethod
    def refusal(self, request: Tree, response: Tree, /) -> ApiError:
        """The error that a client is told, if the response to this request does not allow it."""


class Form(NamedTuple):
    """How an object is shown to those who are asked, if not as it is, and how their answer is taken back."""

    show: Callable[[ServedResource, Tree], Tree]
    take: Callable[[ServedResource, Tree, Tree], Tree]


class Chain:
    """The admitters of a server, in the order in which they are asked: policies first, as in Kubernetes."""

    __slots__ = ("admitters", "judging", "mutating", "validating")

    def __init__(self, admitters: Iterable[Admitter] = ()) -> None:
        self.admitters: Sequence[Admitter] = tuple(sorted(admitters, key=lambda one: not isinstance(one, Policy)))
        self.mutating = tuple(one for one in self.admitters if one.mutates)
        validating = [one for one in self.admitters if not one.mutates]
        self.judging = tuple(one for one in validating if isinstance(one, Policy))
        """The policies that may only refuse."""
        self.validating = tuple(one for one in validating if not isinstance(one, Policy))

    def concerns(self, served: ServedResource, subresource: str, catalog: Catalog) -> bool:
        """Whether anybody is to be asked about some write of this resource, in whatever version."""
        places = [served.place, *(other.place for other in equivalents(catalog, served))]
        return any(
            one.matches(operation, place, subresource)
            for one in self.admitters
            for place in places
            for operation in _WRITES
        )

    def with_more(self, admitters: Iterable[Admitter]) -> "Chain":
        """The chain with more of them at its end."""
        return Chain((*self.admitters, *admitters))

    def without(self, admitters: Iterable[Admitter]) -> "Chain":
        """The chain without these very ones."""
        gone = [id(one) for one in admitters]
        return Chain(one for one in self.admitters if id(one) not in gone)

    def or_none(self) -> "Chain | None":
        """The chain, or None if there is nobody in it."""
        return self if self.admitters else None


def equivalents(catalog: Catalog, served: ServedResource) -> list[ServedResource]:
    """The other places where the same objects are served, the preferred version first."""
    if served.custom:
        found = (catalog.find(served.group, version, served.plural) for version in catalog.versions(served.group))
        return [one for one in found if one is not None and one is not served]
    if served.kind not in _VIEWED:
        return []
    return [one for one in catalog.all() if one.prefix == served.prefix and one is not served]


@dataclass(frozen=True, slots=True)
class Asking:
    """What all questions about one request have in common: who is asked, and in whose name."""

    chain: Chain
    caller: Caller
    warnings: list[str]
    """Where the warnings go that the client is told of."""
    form: Form | None = None
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    """What those who were asked want to have noted about the request, by their names: `webhook.example.com/key`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One write that somebody is to be asked about."""

    uid: str
    operation: Operation
    served: ServedResource
    subresource: str
    name: str
    namespace: str | None
    caller: Caller
    options: Tree
    dry_run: bool


def request_tree(question: Question, seen: ServedResource, new: Tree | None, old: Tree | None) -> Tree:
    """The `request` of an AdmissionReview; `seen` is the version in which the objects are shown."""
    kind, resource = _kind(question, seen, new or old), _resource(seen)
    asked_kind, asked_resource = _kind(question, question.served, new or old), _resource(question.served)
    tree: Tree = {"uid": question.uid, "kind": kind, "resource": resource}
    part = question.subresource
    if part:
        tree["subResource"] = part
    tree |= {"requestKind": asked_kind, "requestResource": asked_resource}
    if part:
        tree["requestSubResource"] = part
    if question.name:
        tree["name"] = question.name
    if question.namespace:
        tree["namespace"] = question.namespace
    tree |= {"operation": question.operation, "userInfo": user_info(question.caller), "object": new, "oldObject": old}
    return {**tree, "dryRun": question.dry_run, "options": question.options}


def _kind(question: Question, seen: ServedResource, tree: Tree | None) -> Tree:
    """The kind of what is shown; behind a subresource that may be another kind, such as a Scale."""
    shown: Any = None if tree is None or not question.subresource else tree
    if shown is not None and cast("Tree", shown).get("kind") != seen.kind:
        group, _, version = str(shown.get("apiVersion")).rpartition("/")
        return {"group": group, "version": version, "kind": shown.get("kind")}
    return {"group": seen.group, "version": seen.version, "kind": seen.kind}


def _resource(served: ServedResource) -> Tree:
    return {"group": served.group, "version": served.version, "resource": served.plural}
