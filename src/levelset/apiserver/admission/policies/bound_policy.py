"""A policy with its bindings: the base of validating and mutating admission policies.

It decides which writes the policy applies to, collects the parameters of each binding, and provides the variables of
the expressions. What the expressions do is in `validating.py` and `mutating.py`.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from levelset.apiserver.admission.chain import AdmissionPolicy, equivalent_resources
from levelset.apiserver.admission.match_rules import GroupVersionResource, MatchResources, gvr_of, read_match_resources
from levelset.apiserver.admission.policies.authorizer_variable import authorizer_values
from levelset.apiserver.admission.policies.params import (
    BindingConfigurationError,
    ParamKind,
    ParamRef,
    collect_params,
    read_param_kind,
    read_param_ref,
)
from levelset.apiserver.expressions.cel_programs import PolicyEnvironment
from levelset.apiserver.expressions.match_conditions import MatchConditions, read_match_conditions
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.wire.step_limits import run_limited

__all__ = ["BoundPolicy", "PolicyBinding", "PolicyInvocation", "forbidden_message"]

T = TypeVar("T")

_GROUP: Final = "admissionregistration.k8s.io"
_NAMESPACES: Final = ("", "v1", "namespaces")
_POLICIES: Final = ("mutatingadmissionpolicies", "validatingadmissionpolicies")
_EXEMPT: Final = frozenset({*_POLICIES, "mutatingadmissionpolicybindings", "validatingadmissionpolicybindings"})
_NAMESPACE_FIELDS: Final = {"metadata", "spec", "status"}


class PolicyBinding(msgspec.Struct, frozen=True):
    """A binding of a policy: for which writes, with which parameters, and what a failed validation does."""

    name: str
    match: MatchResources | None
    params: ParamRef | None
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PolicyInvocation:
    """One evaluation of a policy: its binding, and the variables of the expressions."""

    binding: PolicyBinding
    variables: Mapping[str, Any] = field(repr=False)


class BoundPolicy(AdmissionPolicy):
    """A policy with its bindings as an `AdmissionPlugin`; subclasses evaluate the expressions."""

    mutates: bool = False

    def __init__(self, state: ServerState, policy: Tree, bindings: Sequence[Tree]) -> None:
        spec = map_member(policy, "spec")
        self.state = state
        self.name: str = policy["metadata"]["name"]
        self.match = read_match_resources(map_member(spec, "matchConstraints"))
        self.param_kind: ParamKind | None = read_param_kind(spec.get("paramKind"))
        self.ignores_failures: bool = spec.get("failurePolicy") == "Ignore"
        self.reinvokes: bool = spec.get("reinvocationPolicy") == "IfNeeded"
        self.conditions = MatchConditions(
            read_match_conditions(list_member(spec, "matchConditions")), has_params=self.param_kind is not None
        )
        self.bindings = tuple(_read_binding(one) for one in bindings)
        self.environment = PolicyEnvironment(self.param_kind is not None, is_mutating=self.mutates)
        for one in list_member(spec, "variables"):
            self.environment = self.environment.with_variable(str(one.get("name")), str(one.get("expression")))

    async def evaluate(self, work: Callable[[], T]) -> T:
        """The result of evaluating expressions; in a thread if that takes long. The work may be repeated."""
        return await run_limited(self.state.expensive_work, work)

    def matches(self, operation: str, resource: GroupVersionResource, subresource: str, /) -> bool:
        """Whether one of its rules matches; policies and bindings are exempt, so that a bad one can be fixed."""
        if resource[0] == _GROUP and resource[2] in _EXEMPT:
            return False
        return self.match.matches(operation, resource, subresource)

    @abstractmethod
    async def review(self, request: Tree, namespace: Tree | None, /) -> Tree:
        """The response of the policy to a review request."""

    def matches_request(self, request: Tree, namespace: Tree | None) -> bool:
        """Whether the policy applies to this write."""
        return self.match.matches_request(request, namespace, self._equivalents(request))

    async def invocations(
        self, request: Tree, namespace: Tree | None
    ) -> AsyncIterator[PolicyInvocation | tuple[PolicyBinding, BindingConfigurationError]]:
        """All evaluations for a request: one per binding and parameter, or the error of a binding.

        Raises PolicyConfigurationError.
        """
        equivalents = self._equivalents(request)
        variables = self._variables(request, namespace)
        is_namespace = gvr_of(request["requestResource"]) == _NAMESPACES
        params_namespace = "" if is_namespace else request.get("namespace") or ""
        for binding in self.bindings:
            if binding.match is not None and not binding.match.matches_any_version(request, namespace, equivalents):
                continue
            try:
                params = await collect_params(self.state, self.param_kind, binding.params, params_namespace)
            except BindingConfigurationError as error:
                yield binding, error
                continue
            for one in params:
                yield PolicyInvocation(binding, {**variables, "params": one})

    def _equivalents(self, request: Tree) -> list[GroupVersionResource]:
        served = self.state.catalog.find(*gvr_of(request["requestResource"]))
        return [] if served is None else [one.gvr for one in equivalent_resources(self.state.catalog, served)]

    def _variables(self, request: Tree, namespace: Tree | None) -> dict[str, Any]:
        is_namespace = gvr_of(request["requestResource"]) == _NAMESPACES
        return {
            "object": request.get("object"),
            "oldObject": request.get("oldObject"),
            "request": request,
            "namespaceObject": None if is_namespace else _namespace_object(namespace),
            **authorizer_values(self.state, request),
        }


def forbidden_message(request: Tree) -> tuple[str, Tree]:
    """The message `configmaps "a" is forbidden` for the object of a request, and the details of its Status."""
    resource, name = request["requestResource"], request.get("name") or _generate_name(request)
    qualified = f"{resource['resource']}.{resource['group']}" if resource["group"] else resource["resource"]
    details = {"name": name, "group": resource["group"], "kind": resource["resource"]}
    text = f'{qualified} "{name}" is forbidden' if name else f"{qualified} is forbidden"
    return text, {word: value for word, value in details.items() if value}


def _generate_name(request: Tree) -> str:
    return str(map_member(request.get("object"), "metadata").get("generateName") or "")


def _namespace_object(namespace: Tree | None) -> Tree | None:
    """The namespace as `namespaceObject`: metadata, spec and status, without managedFields."""
    if namespace is None:
        return None
    fields = {word: value for word, value in namespace.items() if word in _NAMESPACE_FIELDS}
    metadata = {word: value for word, value in namespace["metadata"].items() if word != "managedFields"}
    return {**fields, "metadata": metadata}


def _read_binding(tree: Tree) -> PolicyBinding:
    spec = map_member(tree, "spec")
    match = spec.get("matchResources")
    return PolicyBinding(
        tree["metadata"]["name"],
        None if match is None else read_match_resources(match),
        read_param_ref(spec.get("paramRef")),
        tuple(spec.get("validationActions") or ()),
    )
