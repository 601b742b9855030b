"""MutatingAdmissionPolicies: expressions that change what is written, as an apply or as a JSON patch would."""

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from levelset.apiserver.match_conditions import ConditionsFailed
from levelset.apiserver.match_resources import place_of
from levelset.apiserver.members import items, part
from levelset.apiserver.policy_base import Binding, BoundPolicy, Case, refused_request
from levelset.apiserver.policy_changes import NotChanged, apply_configuration, apply_patch
from levelset.apiserver.policy_params import BadPolicy
from levelset.apiserver.policy_programs import Composition, OutOfBudget, Run, Uncompilable
from levelset.apiserver.world import Tree, World
from levelset.cel import APPLIED, PATCHES, EvaluationError, Program
from levelset.errors import ApiError
from levelset.patch import diff_operations

__all__ = ["MutatingPolicy"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Mutation:
    """One change: the expression that says what it is, and how that is meant."""

    program: Program | Uncompilable
    applies: bool


class MutatingPolicy(BoundPolicy):
    """A MutatingAdmissionPolicy with its bindings, as an `Admitter`."""

    mutates = True

    def __init__(self, world: World, policy: Tree, bindings: Sequence[Tree]) -> None:
        super().__init__(world, policy, bindings)
        spec = part(policy, "spec")
        self._mutations = tuple(_read(self.composition, one) for one in items(spec, "mutations"))

    async def review(self, request: Tree, space: Tree | None, /) -> Tree:
        """The response of the policy to a request, with a patch if it changes anything."""
        response: Tree = {"uid": request["uid"], "allowed": True}
        before = request.get("object")
        if before is None or not self.wants(request, space):
            return response
        problems: list[tuple[str, str]] = []
        tree: Tree = before
        try:
            async for case in self.cases(request, space):
                if isinstance(case, Case):
                    tree = self._changed(case, tree, request, problems)
                else:
                    binding, error = case
                    problems.append((self._by(binding, f"failed to configure binding: {error}"), "Forbidden"))
        except BadPolicy as error:
            text = f'policy "{self.name}" denied request: failed to configure policy: {error}'
            problems.append((text, "Forbidden"))
        if problems:
            log.warning("a policy cannot be held to", extra={"policy": self.name, "cause": problems[0][0]})
            if not self.may_fail:
                return {**response, "allowed": False, "status": {"problems": problems}}
        return response if tree is before else {**response, **_patch(before, tree)}

    def refusal(self, request: Tree, response: Tree, /) -> ApiError:
        """The error in the words of Kubernetes, which has 403 for all of them, whatever their reason."""
        problems = response["status"]["problems"]
        _, details = refused_request(request)
        told = {**details, "causes": [{"message": message} for message, _ in problems]}
        message, reason = problems[0]
        return ApiError(message, code=403, reason=reason, details=told)

    def _changed(self, case: Case, tree: Tree, request: Tree, problems: list[tuple[str, str]]) -> Tree:
        """The object after all mutations, for one binding and one parameter."""
        try:
            if not self.conditions.hold({**case.values, "object": tree}):
                return tree
        except ConditionsFailed as error:
            problems.append((self._by(case.binding, str(error)), "Invalid"))
            return tree
        for mutation in self._mutations:
            try:
                tree = self._mutated(mutation, {**case.values, "object": tree}, request)
            except (EvaluationError, NotChanged, OutOfBudget) as error:
                problems.append((self._by(case.binding, str(error)), "Invalid"))
        return tree

    def _mutated(self, mutation: _Mutation, values: dict[str, Any], request: Tree) -> Tree:
        if isinstance(mutation.program, Uncompilable):
            raise EvaluationError(f"compilation error: {mutation.program}")
        tree: Tree = values["object"]
        value = Run(self.composition, values).value(mutation.program)
        if not mutation.applies:
            return apply_patch(tree, value)
        served = self.world.catalog.find(*place_of(request["resource"]))
        if served is None or tree.get("kind") != served.kind:
            raise NotChanged(f"Resource kind {tree.get('apiVersion')}, Kind={tree.get('kind')} not found")
        return apply_configuration(served, tree, value)

    def _by(self, binding: Binding, problem: str) -> str:
        return f"policy '{self.name}' with binding '{binding.name}' denied request: {problem}"


def _patch(before: Tree, after: Tree) -> Tree:
    operations = msgspec.json.encode(diff_operations(before, after))
    return {"patchType": "JSONPatch", "patch": base64.b64encode(operations).decode()}


def _read(composition: Composition, tree: Tree) -> _Mutation:
    applies = tree.get("patchType") == "ApplyConfiguration"
    text = part(tree, "applyConfiguration" if applies else "jsonPatch").get("expression")
    try:
        return _Mutation(composition.compile(str(text or "").strip(), APPLIED if applies else PATCHES), applies)
    except Uncompilable as error:
        return _Mutation(error, applies)
