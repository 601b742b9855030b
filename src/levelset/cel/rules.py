"""The rules of a schema (x-kubernetes-validations), checked on whole objects.

```python
rules = compile_rules(schema)
if not rules.problems:
    findings = rules.check(new, old)
```
"""

import contextlib
from collections.abc import Mapping
from typing import Any

from levelset.cel.faults import CostExceeded, EvaluationError
from levelset.cel.program import OBJECT_LIMIT, Budget, Program
from levelset.cel.rulenodes import OMITTED, Finding, Rule, RuleNode
from levelset.cel.rulepaths import child_path, key_path
from levelset.cel.rulesets import build_rules
from levelset.cel.values import NONE, Optional, equal, is_list, is_map

__all__ = ["Rules", "compile_rules"]

_INVALID = "FieldValueInvalid"
_MAX_MESSAGE = 5 * 1024  # bytes of a computed message
_SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"


class Rules:
    """The compiled rules of a schema; `problems` says what is wrong with those that could not be compiled."""

    __slots__ = ("_root", "problems")

    def __init__(self, root: RuleNode, problems: tuple[Finding, ...]) -> None:
        self._root = root
        self.problems = problems

    def __bool__(self) -> bool:
        return not self._root.is_idle

    def check(self, new: Any, old: Any = None) -> list[Finding]:
        """What is wrong with an object, which may be an update of a former one.

        Rules about parts that are as they were before are not held against anybody. The object must fit its schema.
        """
        if self._root.is_idle:
            return []
        run = _Check()
        with contextlib.suppress(_Spent):
            run.visit(self._root, "", (new, old), _Past(new, old) if old is not None else None)
        return run.findings


def compile_rules(schema: Mapping[str, Any], path: str = "spec.validation.openAPIV3Schema") -> Rules:
    """The rules of a structural schema at the root of a resource; `path` is where the schema stands, for problems."""
    root, problems = build_rules(schema, path)
    return Rules(root, tuple(problems))


class _Spent(Exception):
    """No steps are left."""


class _Past:
    """A value beside its former one, or beside nothing, but below one that has a former one."""

    __slots__ = ("_is_same", "new", "old", "parent")

    def __init__(self, new: Any, old: Any, parent: "_Past | None" = None) -> None:
        self.new, self.old, self.parent = new, old, parent
        self._is_same: bool | None = None

    def is_same(self, forms: tuple[Any, Any] | None = None) -> bool:
        """Whether nothing has changed, in the value or in the nearest one around it that has a former one.

        `forms` are both values in the form that their schema gives them, in which keyed lists have no order.
        """
        if self._is_same is None:
            self._is_same = equal(self.new, self.old) if self.old is not None else self._is_parent_same()
        return self._is_same or (self.old is not None and forms is not None and equal(*forms))

    def _is_parent_same(self) -> bool:
        return self.parent is not None and self.parent.is_same()

    def inner(self, new: Any, old: Any) -> "_Past":
        return _Past(new, old, self) if self.old is not None else self


class _Check:
    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._budget = Budget(OBJECT_LIMIT)

    def visit(self, node: RuleNode, path: str, pair: tuple[Any, Any], past: _Past | None) -> None:
        """Checks a new and a former value, and all below."""
        new, old = pair
        if new is None:
            return
        if node.rules:
            self._rules(node, path, pair, past)
        for each in node.all_of:
            self.visit(each, path, pair, past)
        if is_list(new) and node.items is not None:
            self._items(node, node.items, path, (new, old if is_list(old) else []), past)
        elif is_map(new) and (node.properties or node.values is not None):
            self._members(node, path, (new, old if is_map(old) else {}), past)

    def _members(
        self, node: RuleNode, path: str, pair: tuple[Mapping[str, Any], Mapping[str, Any]], past: _Past | None
    ) -> None:
        new, old = pair
        for name, value in new.items():
            before = old.get(name)
            inner = past.inner(value, before) if past is not None else None
            if name in node.properties:
                self.visit(node.properties[name], child_path(path, name), (value, before), inner)
            if node.values is not None:
                self.visit(node.values, key_path(path, name), (value, before), inner)

    def _items(
        self, node: RuleNode, below: RuleNode, path: str, pair: tuple[list[Any], list[Any]], past: _Past | None
    ) -> None:
        former = {node.key_of(item): item for item in pair[1]} if node.keys else {}
        former.pop(None, None)
        for place, item in enumerate(pair[0]):
            before = former.get(node.key_of(item)) if former else None
            inner = past.inner(item, before) if past is not None else None
            self.visit(below, f"{path}[{place}]", (item, before), inner)

    def _rules(self, node: RuleNode, path: str, pair: tuple[Any, Any], past: _Past | None) -> None:
        (new, old), (value, former) = pair, pair
        if node.convert is not None:
            try:
                value, former = node.convert(new), None if old is None else node.convert(old)
            except EvaluationError as error:
                self.findings.append(Finding(path, _INVALID, str(error), node.kind))
                return
        for rule in node.rules:
            if rule.is_transition and old is None and not rule.is_optional:
                continue
            before: Any = former
            if rule.is_optional:
                before = NONE if old is None else Optional(former)
            if self._holds(node, rule, path, value, before):
                continue
            if past is not None and not rule.is_transition and past.is_same((value, former)):
                continue
            self._blame(node, rule, path, new, (value, before))

    def _holds(self, node: RuleNode, rule: Rule, path: str, value: Any, before: Any) -> bool:
        """Whether a rule holds, or cannot be evaluated, which is a finding of its own."""
        if self._budget.total <= 0:
            self._give_up(path, node, _SPENT)
        is_last = self._budget.total < OBJECT_LIMIT // 10
        try:
            return bool(rule.program.evaluate(self._budget, value, before))
        except CostExceeded as error:
            limit = f"'{error}': no further validation rules will be run due to call cost exceeds limit"
            limit = f"{limit} for rule: {rule.shown}"
            self._give_up(path, node, _SPENT if is_last else limit)
        except EvaluationError as error:
            told = f"{error} evaluating rule: {rule.shown}"
            if str(error).startswith("no such overload"):
                told = (
                    f"'{error}': call arguments did not match a supported operator, function or macro signature for "
                    f"rule: {rule.shown}"
                )
            self.findings.append(Finding(path, _INVALID, told, node.kind))
        return True

    def _give_up(self, path: str, node: RuleNode, message: str) -> None:
        self.findings.append(Finding(path, _INVALID, message, node.kind))
        raise _Spent

    def _blame(self, node: RuleNode, rule: Rule, path: str, new: Any, values: tuple[Any, Any]) -> None:
        message = self._computed(rule.message_program, values) if rule.message_program is not None else None
        told = message or rule.message.strip() or f"failed rule: {rule.shown}"
        where = child_path(path, rule.field) if rule.field else path
        shown = OMITTED if node.kind in ("object", "array") else new
        self.findings.append(Finding(where, rule.reason, told, shown))

    def _computed(self, program: Program, values: tuple[Any, Any]) -> str | None:
        """The message that an expression gives; None if it gives none that can be used."""
        try:
            found = program.evaluate(self._budget, *values)
        except (CostExceeded, EvaluationError):
            return None
        text = found.strip() if isinstance(found, str) else ""
        return text if text and "\n" not in text and len(text.encode("utf-8", "replace")) <= _MAX_MESSAGE else None
