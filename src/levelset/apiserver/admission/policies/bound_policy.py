"""What validating and mutating admission policies have in common: whom they are for, and what their expressions see."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from levelset.apiserver.admission.chain import Policy, equivalents
from levelset.apiserver.admission.match_rules import MatchResources, Place, place_of, read_match
from levelset.apiserver.admission.policies.authorizer import authorizer_values
from levelset.apiserver.admission.policies.params import (
    BadBinding,
    ParamKind,
    ParamRef,
    collect_params,
    read_param_kind,
    read_param_ref,
)
from levelset.apiserver.expressions.cel_programs import Composition
from levelset.apiserver.expressions.match_conditions import Conditions, read_conditions
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.server_state import Tree, World

__all__ = ["Binding", "BoundPolicy", "Case", "refused_request"]

_GROUP: Final = "admissionregistration.k8s.io"
_NAMESPACES: Final = ("", "v1", "namespaces")
_POLICIES: Final = ("mutatingadmissionpolicies", "validatingadmissionpolicies")
_OWN: Final = frozenset({*_POLICIES, "mutatingadmissionpolicybindings", "validatingadmissionpolicybindings"})
_SHOWN: Final = {"metadata", "spec", "status"}


@dataclass(frozen=True, slots=True)
class Binding:
    """What puts a policy into force: for which writes, with which parameters, and with what consequence."""

    name: str
    match: MatchResources | None
    params: ParamRef | None
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One evaluation of a policy: by which binding, and what its expressions see."""

    binding: Binding
    values: Mapping[str, Any] = field(repr=False)


class BoundPolicy(Policy):
    """A policy with its bindings, as an `Admitter`; subclasses say what its expressions are for."""

    mutates: bool = False

    def __init__(self, world: World, policy: Tree, bindings: Sequence[Tree]) -> None:
        spec = part(policy, "spec")
        self.world = world
        self.name: str = policy["metadata"]["name"]
        self.match = read_match(part(spec, "matchConstraints"))
        self.param_kind: ParamKind | None = read_param_kind(spec.get("paramKind"))
        self.may_fail: bool = spec.get("failurePolicy") == "Ignore"
        self.reinvokes: bool = spec.get("reinvocationPolicy") == "IfNeeded"
        self.conditions = Conditions(
            read_conditions(items(spec, "matchConditions")), has_params=self.param_kind is not None
        )
        self.bindings = tuple(_read_binding(one) for one in bindings)
        self.composition = Composition(self.param_kind is not None, is_mutating=self.mutates)
        for one in items(spec, "variables"):
            self.composition = self.composition.with_variable(str(one.get("name")), str(one.get("expression")))

    def matches(self, operation: str, place: Place, subresource: str, /) -> bool:
        """Whether one of its rules is for this; policies and bindings are nobody's business but their own."""
        if place[0] == _GROUP and place[2] in _OWN:
            return False
        return self.match.matches(operation, place, subresource)

    @abstractmethod
    async def review(self, request: Tree, space: Tree | None, /) -> Tree:
        """The response of the policy to a request."""

    def wants(self, request: Tree, space: Tree | None) -> bool:
        """Whether the policy is for this very write."""
        return self.match.wants(request, space, self._others(request))

    async def cases(self, request: Tree, space: Tree | None) -> AsyncIterator[Case | tuple[Binding, BadBinding]]:
        """All evaluations that the bindings ask for, or what is wrong with a binding; raises BadPolicy."""
        others = self._others(request)
        seen = self._values(request, space)
        is_space = place_of(request["requestResource"]) == _NAMESPACES
        namespace = "" if is_space else request.get("namespace") or ""
        for binding in self.bindings:
            if binding.match is not None and not binding.match.covers(request, space, others):
                continue
            try:
                params = await collect_params(self.world, self.param_kind, binding.params, namespace)
            except BadBinding as error:
                yield binding, error
                continue
            for one in params:
                yield Case(binding, {**seen, "params": one})

    def _others(self, request: Tree) -> list[Place]:
        served = self.world.catalog.find(*place_of(request["requestResource"]))
        return [] if served is None else [one.place for one in equivalents(self.world.catalog, served)]

    def _values(self, request: Tree, space: Tree | None) -> dict[str, Any]:
        is_space = place_of(request["requestResource"]) == _NAMESPACES
        return {
            "object": request.get("object"),
            "oldObject": request.get("oldObject"),
            "request": request,
            "namespaceObject": None if is_space else _shown_space(space),
            **authorizer_values(self.world, request),
        }


def refused_request(request: Tree) -> tuple[str, Tree]:
    """What was asked for in words, `configmaps "a" is forbidden`, and the details that an error has about it."""
    resource, name = request["requestResource"], request.get("name") or _generated(request)
    qualified = f"{resource['resource']}.{resource['group']}" if resource["group"] else resource["resource"]
    details = {"name": name, "group": resource["group"], "kind": resource["resource"]}
    text = f'{qualified} "{name}" is forbidden' if name else f"{qualified} is forbidden"
    return text, {word: value for word, value in details.items() if value}


def _generated(request: Tree) -> str:
    return str(part(request.get("object"), "metadata").get("generateName") or "")


def _shown_space(space: Tree | None) -> Tree | None:
    """The namespace without what nobody needs to decide by."""
    if space is None:
        return None
    shown = {word: value for word, value in space.items() if word in _SHOWN}
    metadata = {word: value for word, value in space["metadata"].items() if word != "managedFields"}
    return {**shown, "metadata": metadata}


def _read_binding(tree: Tree) -> Binding:
    spec = part(tree, "spec")
    match = spec.get("matchResources")
    return Binding(
        tree["metadata"]["name"],
        None if match is None else read_match(match),
        read_param_ref(spec.get("paramRef")),
        tuple(spec.get("validationActions") or ()),
    )
