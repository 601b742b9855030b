"""ValidatingAdmissionPolicies: expressions that must be true of what is written, or the write is refused or noted."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from levelset.apiserver.admission.policies.bound_policy import Binding, BoundPolicy, Case, refused_request
from levelset.apiserver.admission.policies.params import BadPolicy
from levelset.apiserver.expressions.cel_programs import Composition, OutOfBudget, Run, Uncompilable
from levelset.apiserver.expressions.match_conditions import ConditionsFailed
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.server_state import Tree, World
from levelset.cel import BOOL, NULL, STRING, EvaluationError, Program, Type
from levelset.errors import ApiError

__all__ = ["ValidatingPolicy"]

log = logging.getLogger(__name__)

FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
_LONGEST_MESSAGE: Final = 5 * 1024
_LONGEST_NOTE: Final = 10 * 1024

_Made = Program | Uncompilable


@dataclass(frozen=True, slots=True)
class _Validation:
    """One expression that must be true, and what is said if it is not."""

    text: str
    program: _Made
    message: str
    teller: _Made | None
    reason: str


@dataclass(frozen=True, slots=True)
class _Denial:
    """That one validation was not met, or could not be evaluated."""

    index: int
    message: str
    reason: str = "Invalid"


@dataclass(slots=True)
class _Outcome:
    """What a policy has to say about one write."""

    denied: list[tuple[Binding | None, _Denial]] = field(default_factory=list[tuple[Binding | None, _Denial]])
    warnings: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])
    notes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


class ValidatingPolicy(BoundPolicy):
    """A ValidatingAdmissionPolicy with its bindings, as an `Admitter`."""

    def __init__(self, world: World, policy: Tree, bindings: Sequence[Tree]) -> None:
        super().__init__(world, policy, bindings)
        spec = part(policy, "spec")
        self._validations = tuple(_read(self.composition, one) for one in items(spec, "validations"))
        self._notes = {
            str(one.get("key")): _made(self.composition, str(one.get("valueExpression") or "").strip(), STRING, NULL)
            for one in items(spec, "auditAnnotations")
        }

    async def review(self, request: Tree, space: Tree | None, /) -> Tree:
        """The response of the policy to a request."""
        response: Tree = {"uid": request["uid"], "allowed": True}
        if not self.wants(request, space):
            return response
        outcome = _Outcome()
        try:
            async for case in self.cases(request, space):
                if isinstance(case, Case):
                    self._judge(case, outcome)
                elif not self.may_fail:
                    binding, error = case
                    outcome.denied.append((binding, _Denial(0, f"failed to configure binding: {error}")))
        except BadPolicy as error:
            log.warning("a policy cannot be held to", extra={"policy": self.name, "cause": str(error)})
            if not self.may_fail:
                outcome.denied.append((None, _Denial(0, f"failed to configure policy: {error}")))
        return {**response, **self._told(outcome)}

    def refusal(self, request: Tree, response: Tree, /) -> ApiError:
        """The error in the words of Kubernetes."""
        status = response["status"]
        text, details = refused_request(request)
        told = {**details, "causes": [{"message": status["message"]}]}
        message = f"{text}: {status['message']}"
        return ApiError(message, code=status["code"], reason=status["reason"], details=told)

    def _told(self, outcome: _Outcome) -> Tree:
        notes = {f"{self.name}/{key}": ", ".join(values) for key, values in outcome.notes.items()}
        if outcome.failures:
            notes[FAILURE] = outcome.failures[0]
        told: Tree = {"warnings": outcome.warnings, "auditAnnotations": notes}
        if not outcome.denied:
            return told
        binding, denial = outcome.denied[0]
        by = "" if binding is None else f" with binding '{binding.name}'"
        message = f"ValidatingAdmissionPolicy '{self.name}'{by} denied request: {denial.message}"
        status = {"message": message, "reason": denial.reason, "code": _CODES.get(denial.reason, 422)}
        return {**told, "allowed": False, "status": status}

    def _judge(self, case: Case, outcome: _Outcome) -> None:
        """Evaluates the policy for one binding and one parameter."""
        binding = case.binding
        try:
            if not self.conditions.hold(case.values):
                return
            denials = self._denials(case.values)
        except (ConditionsFailed, OutOfBudget) as error:
            denials = [] if self.may_fail else [_Denial(0, str(error))]
        for denial in denials:
            for action in binding.actions:
                self._act(action, binding, denial, outcome)
        self._annotate(case, outcome)

    def _act(self, action: str, binding: Binding, denial: _Denial, outcome: _Outcome) -> None:
        if action == "Deny":
            outcome.denied.append((binding, denial))
        elif action == "Warn":
            source = f"ValidatingAdmissionPolicy '{self.name}' with binding '{binding.name}'"
            outcome.warnings.append(f"Validation failed for {source}: {denial.message}")
        elif action == "Audit":
            told = {
                "message": denial.message,
                "policy": self.name,
                "binding": binding.name,
                "expressionIndex": denial.index,
                "validationActions": list(binding.actions),
            }
            outcome.failures.append(json.dumps([told], ensure_ascii=False, separators=(",", ":")))

    def _denials(self, values: Mapping[str, Any]) -> list[_Denial]:
        run, found = Run(self.composition, values), list[_Denial]()
        for index, one in enumerate(self._validations):
            try:
                if isinstance(one.program, Uncompilable):
                    raise EvaluationError(f"compilation error: {one.program}")
                if run.value(one.program) is not True:
                    found.append(_Denial(index, _message(one, run), one.reason))
            except EvaluationError as error:
                if not self.may_fail:
                    found.append(_Denial(index, str(error)))
        return found

    def _annotate(self, case: Case, outcome: _Outcome) -> None:
        if not self._notes:
            return
        run = Run(self.composition, case.values)
        for key, program in self._notes.items():
            try:
                if isinstance(program, Uncompilable):
                    raise EvaluationError(f"compilation error: {program}")
                value = run.value(program)
            except (EvaluationError, OutOfBudget) as error:
                if not self.may_fail:
                    outcome.denied.append((case.binding, _Denial(0, str(error))))
                continue
            text = value.strip()[:_LONGEST_NOTE] if isinstance(value, str) else ""
            if text and text not in outcome.notes.setdefault(key, []):
                outcome.notes[key].append(text)


def _read(composition: Composition, tree: Tree) -> _Validation:
    text, teller = str(tree.get("expression") or ""), str(tree.get("messageExpression") or "")
    return _Validation(
        text.strip(),
        _made(composition, text, BOOL),
        str(tree.get("message") or "").strip(),
        _made(composition, teller, STRING, has_authorizer=False) if teller.strip() else None,
        str(tree.get("reason") or "Invalid"),
    )


def _made(composition: Composition, text: str, *wanted: Type, has_authorizer: bool = True) -> _Made:
    """The program; if it cannot be one (an older server took it), what is wrong with it, told when it is needed."""
    try:
        return composition.compile(text, *wanted, has_authorizer=has_authorizer)
    except Uncompilable as error:
        return error


def _message(one: _Validation, run: Run) -> str:
    """What is said about a validation that is not met."""
    told = ""
    if isinstance(one.teller, Program):
        try:
            value = run.value(one.teller)
            told = value.strip() if isinstance(value, str) else ""
        except EvaluationError as error:
            log.info("a message cannot be evaluated", extra={"cause": str(error)})
        except OutOfBudget as error:
            raise EvaluationError(f"failed messageExpression: {error}") from error
    if len(told.encode()) > _LONGEST_MESSAGE or "\n" in told:
        told = ""
    return told or one.message or f"failed expression: {one.text}"
