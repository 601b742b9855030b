"""MutatingAdmissionPolicy: evaluates its expressions, and applies their ApplyConfiguration or JSONPatch values."""

import base64
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.admission.match_rules import gvr_of
from levelset.apiserver.admission.policies.bound_policy import (
    BoundPolicy,
    PolicyBinding,
    PolicyInvocation,
    forbidden_message,
)
from levelset.apiserver.admission.policies.params import PolicyConfigurationError
from levelset.apiserver.expressions.cel_programs import (
    CostBudgetExceeded,
    ExpressionCompileError,
    PolicyEnvironment,
    PolicyEvaluation,
)
from levelset.apiserver.expressions.match_conditions import MatchConditionError
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.cel import APPLIED, PATCHES, EvaluationError, Made, Program, plain_value
from levelset.errors import ApiError, BadPatch, LevelsetError, PatchFailed
from levelset.objects.json_tree import copy_tree, is_list, is_map
from levelset.patch import Shape, apply_operations, diff_operations
from levelset.patch.apply import overlay

__all__ = ["MutatingPolicy", "MutationError", "apply_configuration", "apply_json_patch"]

log = logging.getLogger(__name__)

_ROOT: Final = ("apiVersion", "kind")


class MutationError(LevelsetError):
    """The value of an expression cannot be applied to the object."""


class _Mutation(msgspec.Struct, frozen=True):
    """One mutation: its compiled expression, and whether its value is an ApplyConfiguration or a JSONPatch."""

    program: Program | ExpressionCompileError
    is_apply: bool


class MutatingPolicy(BoundPolicy):
    """A MutatingAdmissionPolicy with its bindings as an `AdmissionPlugin`."""

    mutates = True

    def __init__(self, state: ServerState, policy: Tree, bindings: Sequence[Tree]) -> None:
        super().__init__(state, policy, bindings)
        spec = map_member(policy, "spec")
        self._mutations = tuple(_read_mutation(self.environment, one) for one in list_member(spec, "mutations"))

    async def review(self, request: Tree, namespace: Tree | None, /) -> Tree:
        """The response of the policy to a review request, with a patch if it changes the object."""
        response: Tree = {"uid": request["uid"], "allowed": True}
        before = request.get("object")
        if before is None or not self.matches_request(request, namespace):
            return response
        problems: list[tuple[str, str]] = []
        tree: Tree = before
        try:
            async for invocation in self.invocations(request, namespace):
                if isinstance(invocation, PolicyInvocation):
                    tree, found = await self.evaluate(partial(self._mutated, invocation, tree, request))
                    problems += found
                else:
                    binding, error = invocation
                    problems.append((self._denied(binding, f"failed to configure binding: {error}"), "Forbidden"))
        except PolicyConfigurationError as error:
            text = f'policy "{self.name}" denied request: failed to configure policy: {error}'
            problems.append((text, "Forbidden"))
        if problems:
            log.warning("admission policy failed", extra={"policy": self.name, "cause": problems[0][0]})
            if not self.ignores_failures:
                return {**response, "allowed": False, "status": {"problems": problems}}
        return response if tree is before else {**response, **_patch(before, tree)}

    def denial(self, request: Tree, response: Tree, /) -> ApiError:
        """The error with kube-apiserver's message and code, which is 403 for every reason."""
        problems = response["status"]["problems"]
        _, details = forbidden_message(request)
        status_details = {**details, "causes": [{"message": message} for message, _ in problems]}
        message, reason = problems[0]
        return ApiError(message, code=403, reason=reason, details=status_details)

    def _mutated(self, invocation: PolicyInvocation, tree: Tree, request: Tree) -> tuple[Tree, list[tuple[str, str]]]:
        """The object after all mutations of one invocation, and the errors."""
        problems: list[tuple[str, str]] = []
        try:
            if not self.conditions.match({**invocation.variables, "object": tree}):
                return tree, problems
        except MatchConditionError as error:
            problems.append((self._denied(invocation.binding, str(error)), "Invalid"))
            return tree, problems
        for mutation in self._mutations:
            try:
                tree = self._apply_mutation(mutation, {**invocation.variables, "object": tree}, request)
            except (EvaluationError, MutationError, CostBudgetExceeded) as error:
                problems.append((self._denied(invocation.binding, str(error)), "Invalid"))
        return tree, problems

    def _apply_mutation(self, mutation: _Mutation, values: dict[str, Any], request: Tree) -> Tree:
        if isinstance(mutation.program, ExpressionCompileError):
            raise EvaluationError(f"compilation error: {mutation.program}")
        tree: Tree = values["object"]
        value = PolicyEvaluation(self.environment, values).value(mutation.program)
        if not mutation.is_apply:
            return apply_json_patch(tree, value)
        served = self.state.catalog.find(*gvr_of(request["resource"]))
        if served is None or tree.get("kind") != served.kind:
            raise MutationError(f"Resource kind {tree.get('apiVersion')}, Kind={tree.get('kind')} not found")
        return apply_configuration(served, tree, value)

    def _denied(self, binding: PolicyBinding, problem: str) -> str:
        return f"policy '{self.name}' with binding '{binding.name}' denied request: {problem}"


def _patch(before: Tree, after: Tree) -> Tree:
    operations = msgspec.json.encode(diff_operations(before, after))
    return {"patchType": "JSONPatch", "patch": base64.b64encode(operations).decode()}


def _read_mutation(environment: PolicyEnvironment, tree: Tree) -> _Mutation:
    is_apply = tree.get("patchType") == "ApplyConfiguration"
    text = map_member(tree, "applyConfiguration" if is_apply else "jsonPatch").get("expression")
    try:
        return _Mutation(environment.compile(str(text or "").strip(), APPLIED if is_apply else PATCHES), is_apply)
    except ExpressionCompileError as error:
        return _Mutation(error, is_apply)


def apply_configuration(served: ServedResource, tree: Tree, value: Any) -> Tree:
    """The object after applying the value of an `Object{...}` expression; fields it does not mention stay."""
    _check_names(value, ["Object"])
    configuration = {**_tree(value), "apiVersion": tree.get("apiVersion"), "kind": tree.get("kind")}
    _check_fields(served, configuration)
    shape = served.shape()
    atomic = list(_atomic_paths(configuration, shape, ""))
    if atomic:
        problem = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise MutationError(f"error applying patch: invalid ApplyConfiguration: {problem}")
    try:
        return cast("Tree", copy_tree(overlay(tree, configuration, shape)))
    except BadPatch as error:
        raise MutationError(f"error applying patch: failed to merge patch: {error}") from error


def apply_json_patch(tree: Tree, value: Any) -> Tree:
    """The object after the JSON patch operations in the value; unchanged if a `test` operation fails."""
    operations = [_operation(one) for one in value]
    try:
        made = apply_operations(tree, operations, like_kubernetes=True)
    except PatchFailed as error:
        if error.index is not None and operations[error.index].get("op") == "test":
            return tree
        raise MutationError(f"JSONPath: {error}") from error
    except BadPatch as error:
        raise MutationError(f"JSONPath: {error}") from error
    if not is_map(made):
        raise MutationError("JSONPath: the patch leaves no object")
    return cast("Tree", copy_tree(made))


def _operation(value: Any) -> Tree:
    if isinstance(value.get("value"), Made):
        _check_names(value["value"], value["value"].name.split("."))
    made = _tree(value)
    if "value" not in value and made.get("op") in ("add", "replace", "test"):
        made["value"] = None
    return made if made.get("from") else {word: one for word, one in made.items() if word != "from"}


def _check_names(value: Any, path: list[str]) -> None:
    """Checks that a value written as `Object.spec{...}` is at the path `spec`; raises MutationError."""
    if isinstance(value, Made):
        expected = ".".join(path)
        if value.name != expected:
            tail = "which matches field name path from root Object type"
            raise MutationError(f'type mismatch: unexpected type name "{value.name}", expected "{expected}", {tail}')
    if is_map(value):
        for name, member in value.items():
            _check_names(member, [*path, str(name)])
    elif is_list(value):
        for member in value:
            _check_names(member, path)


def _tree(value: Any) -> Tree:
    try:
        made = plain_value(value)
    except LevelsetError as error:
        raise MutationError(f"the value of the expression is not JSON: {error}") from error
    if not is_map(made):
        raise MutationError("the value of the expression is not an object")
    return made


def _check_fields(served: ServedResource, configuration: Tree) -> None:
    schema = served.schema()
    unknown = [] if schema is None else schema.prune(cast("Tree", copy_tree(configuration)))
    if not unknown:
        return
    errors = [f".{path}: field not declared in schema" for path in unknown]
    text = errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors])
    raise MutationError(f"error applying patch: failed to convert patch object to typed object: {text}")


def _atomic_paths(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """The paths of the value that the schema declares atomic: they can only be replaced as a whole."""
    if is_map(value):
        if shape.atomic:
            yield path
        for name, member in value.items():
            if path or name not in _ROOT:
                yield from _atomic_paths(member, shape.member(name), f"{path}.{name}")
    elif is_list(value):
        if shape.list_type == "atomic":
            yield path
        for index, member in enumerate(value):
            yield from _atomic_paths(member, shape.item(), f"{path}[{index}]")
