"""MutatingAdmissionPolicies: expressions that change what is written, as an apply or as a JSON patch would.

How the value of a mutating policy's expression changes an object: laid over it, or applied as a JSON patch; pure.
"""

import base64
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.admission.match_rules import place_of
from levelset.apiserver.admission.policies.bound_policy import Binding, BoundPolicy, Case, refused_request
from levelset.apiserver.admission.policies.params import BadPolicy
from levelset.apiserver.expressions.cel_programs import Composition, OutOfBudget, Run, Uncompilable
from levelset.apiserver.expressions.match_conditions import ConditionsFailed
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.cel import APPLIED, PATCHES, EvaluationError, Made, Program, plain_value
from levelset.errors import ApiError, BadPatch, LevelsetError, PatchFailed
from levelset.objects.json_tree import copy_tree, is_list, is_map
from levelset.patch import Shape, apply_operations, diff_operations
from levelset.patch.apply import overlay

__all__ = ["MutatingPolicy", "NotChanged", "apply_configuration", "apply_patch"]

_ROOT: Final = ("apiVersion", "kind")


class NotChanged(LevelsetError):
    """What an expression gave cannot be done to the object."""


def apply_configuration(served: ServedResource, tree: Tree, value: Any) -> Tree:
    """The object with the value of `Object{...}` laid over it; what the value does not mention stays as it is."""
    _check_names(value, ["Object"])
    wanted = {**_tree(value), "apiVersion": tree.get("apiVersion"), "kind": tree.get("kind")}
    _check_fields(served, wanted)
    shape = served.shape()
    whole = list(_wholes(wanted, shape, ""))
    if whole:
        problem = f"may not mutate atomic arrays, maps or structs: {', '.join(whole)}"
        raise NotChanged(f"error applying patch: invalid ApplyConfiguration: {problem}")
    try:
        return cast("Tree", copy_tree(overlay(tree, wanted, shape)))
    except BadPatch as error:
        raise NotChanged(f"error applying patch: failed to merge patch: {error}") from error


def apply_patch(tree: Tree, value: Any) -> Tree:
    """The object after the operations that are the value; unchanged if one of their tests fails."""
    operations = [_operation(one) for one in value]
    try:
        made = apply_operations(tree, operations, like_kubernetes=True)
    except PatchFailed as error:
        if error.index is not None and operations[error.index].get("op") == "test":
            return tree
        raise NotChanged(f"JSONPath: {error}") from error
    except BadPatch as error:
        raise NotChanged(f"JSONPath: {error}") from error
    if not is_map(made):
        raise NotChanged("JSONPath: the patch leaves no object")
    return cast("Tree", copy_tree(made))


def _operation(value: Any) -> Tree:
    if isinstance(value.get("value"), Made):
        _check_names(value["value"], value["value"].name.split("."))
    made = _tree(value)
    if "value" not in value and made.get("op") in ("add", "replace", "test"):
        made["value"] = None
    return made if made.get("from") else {word: one for word, one in made.items() if word != "from"}


def _check_names(value: Any, path: list[str]) -> None:
    """Makes sure that what was written as `Object.spec{...}` stands at `spec`."""
    if isinstance(value, Made):
        wanted = ".".join(path)
        if value.name != wanted:
            tail = "which matches field name path from root Object type"
            raise NotChanged(f'type mismatch: unexpected type name "{value.name}", expected "{wanted}", {tail}')
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
        raise NotChanged(f"the value of the expression is no JSON: {error}") from error
    if not is_map(made):
        raise NotChanged("the value of the expression is no object")
    return made


def _check_fields(served: ServedResource, wanted: Tree) -> None:
    schema = served.schema()
    unknown = [] if schema is None else schema.prune(cast("Tree", copy_tree(wanted)))
    if not unknown:
        return
    told = [f".{path}: field not declared in schema" for path in unknown]
    text = told[0] if len(told) == 1 else "\n  ".join(["errors:", *told])
    raise NotChanged(f"error applying patch: failed to convert patch object to typed object: {text}")


def _wholes(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """Where the value has something that can only be replaced as a whole."""
    if is_map(value):
        if shape.atomic:
            yield path
        for name, member in value.items():
            if path or name not in _ROOT:
                yield from _wholes(member, shape.member(name), f"{path}.{name}")
    elif is_list(value):
        if shape.list_type == "atomic":
            yield path
        for index, member in enumerate(value):
            yield from _wholes(member, shape.item(), f"{path}[{index}]")


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
