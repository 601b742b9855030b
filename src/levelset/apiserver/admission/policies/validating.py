"""ValidatingAdmissionPolicy: evaluates its validations, and denies, warns or audits as its bindings say."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

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
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.cel import BOOL, NULL, STRING, EvaluationError, Program, Type
from levelset.errors import ApiError

__all__ = ["ValidatingPolicy"]

log = logging.getLogger(__name__)

FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
_MAX_MESSAGE_BYTES: Final = 5 * 1024
_MAX_ANNOTATION_LENGTH: Final = 10 * 1024

_Compiled = Program | ExpressionCompileError


class _Validation(msgspec.Struct, frozen=True):
    """One expression that must be true, and the message and reason if it is not."""

    text: str
    program: _Compiled
    message: str
    message_program: _Compiled | None
    reason: str


class _Denial(msgspec.Struct, frozen=True):
    """One validation that is false or failed to evaluate."""

    index: int
    message: str
    reason: str = "Invalid"


@dataclass(slots=True)
class _Outcome:
    """The result of a policy for one write."""

    denied: list[tuple[PolicyBinding | None, _Denial]] = field(
        default_factory=list[tuple[PolicyBinding | None, _Denial]]
    )
    warnings: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])
    annotations: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def copied(self) -> "_Outcome":
        """A copy to add to: an evaluation may be repeated."""
        annotations = {key: [*values] for key, values in self.annotations.items()}
        return _Outcome([*self.denied], [*self.warnings], [*self.failures], annotations)


class ValidatingPolicy(BoundPolicy):
    """A ValidatingAdmissionPolicy with its bindings as an `AdmissionPlugin`."""

    def __init__(self, state: ServerState, policy: Tree, bindings: Sequence[Tree]) -> None:
        super().__init__(state, policy, bindings)
        spec = map_member(policy, "spec")
        self._validations = tuple(_read_validation(self.environment, one) for one in list_member(spec, "validations"))
        self._annotations = {
            str(one.get("key")): _compile(self.environment, str(one.get("valueExpression") or "").strip(), STRING, NULL)
            for one in list_member(spec, "auditAnnotations")
        }

    async def review(self, request: Tree, namespace: Tree | None, /) -> Tree:
        """The response of the policy to a review request."""
        response: Tree = {"uid": request["uid"], "allowed": True}
        if not self.matches_request(request, namespace):
            return response
        outcome = _Outcome()
        try:
            async for invocation in self.invocations(request, namespace):
                if isinstance(invocation, PolicyInvocation):
                    outcome = await self.evaluate(partial(self._validated, invocation, outcome))
                elif not self.ignores_failures:
                    binding, error = invocation
                    outcome.denied.append((binding, _Denial(0, f"failed to configure binding: {error}")))
        except PolicyConfigurationError as error:
            log.warning("admission policy failed", extra={"policy": self.name, "cause": str(error)})
            if not self.ignores_failures:
                outcome.denied.append((None, _Denial(0, f"failed to configure policy: {error}")))
        return {**response, **self._response_fields(outcome)}

    def denial(self, request: Tree, response: Tree, /) -> ApiError:
        """The error with the message of kube-apiserver."""
        status = response["status"]
        text, details = forbidden_message(request)
        status_details = {**details, "causes": [{"message": status["message"]}]}
        message = f"{text}: {status['message']}"
        return ApiError(message, code=status["code"], reason=status["reason"], details=status_details)

    def _response_fields(self, outcome: _Outcome) -> Tree:
        annotations = {f"{self.name}/{key}": ", ".join(values) for key, values in outcome.annotations.items()}
        if outcome.failures:
            annotations[FAILURE] = outcome.failures[0]
        fields: Tree = {"warnings": outcome.warnings, "auditAnnotations": annotations}
        if not outcome.denied:
            return fields
        binding, denial = outcome.denied[0]
        by = "" if binding is None else f" with binding '{binding.name}'"
        message = f"ValidatingAdmissionPolicy '{self.name}'{by} denied request: {denial.message}"
        status = {"message": message, "reason": denial.reason, "code": _CODES.get(denial.reason, 422)}
        return {**fields, "allowed": False, "status": status}

    def _validated(self, invocation: PolicyInvocation, before: _Outcome) -> _Outcome:
        """Evaluates the policy for one binding and one parameter; the outcome `before` with what that adds."""
        binding, outcome = invocation.binding, before.copied()
        try:
            if not self.conditions.match(invocation.variables):
                return outcome
            denials = self._denials(invocation.variables)
        except (MatchConditionError, CostBudgetExceeded) as error:
            denials = [] if self.ignores_failures else [_Denial(0, str(error))]
        for denial in denials:
            for action in binding.actions:
                self._act(action, binding, denial, outcome)
        self._annotate(invocation, outcome)
        return outcome

    def _act(self, action: str, binding: PolicyBinding, denial: _Denial, outcome: _Outcome) -> None:
        if action == "Deny":
            outcome.denied.append((binding, denial))
        elif action == "Warn":
            source = f"ValidatingAdmissionPolicy '{self.name}' with binding '{binding.name}'"
            outcome.warnings.append(f"Validation failed for {source}: {denial.message}")
        elif action == "Audit":
            failure = {
                "message": denial.message,
                "policy": self.name,
                "binding": binding.name,
                "expressionIndex": denial.index,
                "validationActions": list(binding.actions),
            }
            outcome.failures.append(json.dumps([failure], ensure_ascii=False, separators=(",", ":")))

    def _denials(self, values: Mapping[str, Any]) -> list[_Denial]:
        evaluation, found = PolicyEvaluation(self.environment, values), list[_Denial]()
        for index, one in enumerate(self._validations):
            try:
                if isinstance(one.program, ExpressionCompileError):
                    raise EvaluationError(f"compilation error: {one.program}")
                if evaluation.value(one.program) is not True:
                    found.append(_Denial(index, _message(one, evaluation), one.reason))
            except EvaluationError as error:
                if not self.ignores_failures:
                    found.append(_Denial(index, str(error)))
        return found

    def _annotate(self, invocation: PolicyInvocation, outcome: _Outcome) -> None:
        if not self._annotations:
            return
        evaluation = PolicyEvaluation(self.environment, invocation.variables)
        for key, program in self._annotations.items():
            try:
                if isinstance(program, ExpressionCompileError):
                    raise EvaluationError(f"compilation error: {program}")
                value = evaluation.value(program)
            except (EvaluationError, CostBudgetExceeded) as error:
                if not self.ignores_failures:
                    outcome.denied.append((invocation.binding, _Denial(0, str(error))))
                continue
            text = value.strip()[:_MAX_ANNOTATION_LENGTH] if isinstance(value, str) else ""
            if text and text not in outcome.annotations.setdefault(key, []):
                outcome.annotations[key].append(text)


def _read_validation(environment: PolicyEnvironment, tree: Tree) -> _Validation:
    text, message_text = str(tree.get("expression") or ""), str(tree.get("messageExpression") or "")
    return _Validation(
        text.strip(),
        _compile(environment, text, BOOL),
        str(tree.get("message") or "").strip(),
        _compile(environment, message_text, STRING, has_authorizer=False) if message_text.strip() else None,
        str(tree.get("reason") or "Invalid"),
    )


def _compile(environment: PolicyEnvironment, text: str, *types: Type, has_authorizer: bool = True) -> _Compiled:
    """The program, or its compile error for when it is evaluated: an older server may have stored it."""
    try:
        return environment.compile(text, *types, has_authorizer=has_authorizer)
    except ExpressionCompileError as error:
        return error


def _message(one: _Validation, evaluation: PolicyEvaluation) -> str:
    """The message of a failed validation."""
    message = ""
    if isinstance(one.message_program, Program):
        try:
            value = evaluation.value(one.message_program)
            message = value.strip() if isinstance(value, str) else ""
        except EvaluationError as error:
            log.info("messageExpression failed", extra={"cause": str(error)})
        except CostBudgetExceeded as error:
            raise EvaluationError(f"failed messageExpression: {error}") from error
    if len(message.encode()) > _MAX_MESSAGE_BYTES or "\n" in message:
        message = ""
    return message or one.message or f"failed expression: {one.text}"
