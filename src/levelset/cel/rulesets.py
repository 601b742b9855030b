"""The rules of a whole schema compiled: every place of it, with what is wrong and what they may cost together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from levelset.cel.converting import converter
from levelset.cel.faults import BadProgram, CompileError
from levelset.cel.program import Declarations, Program, compile_rule
from levelset.cel.rulechecks import REASONS, check_rule
from levelset.cel.rulenodes import Finding, Rule, RuleNode
from levelset.cel.rulepaths import field_path
from levelset.cel.schemas import MAX_REQUEST, declared_type, with_meta
from levelset.cel.spans import LARGEST
from levelset.cel.types import BOOL, STRING, Type, optional_of
from levelset.cel.values import is_list, is_map

__all__ = ["RULE_LIMIT", "SCHEMA_LIMIT", "build_rules"]

RULE_LIMIT = 10_000_000  # what one rule may cost at most
SCHEMA_LIMIT = 100_000_000  # what all rules of a schema may cost at most together
_KEYWORD = "x-kubernetes-validations"
_MAX_DEPTH = 100
Schema = Mapping[str, Any]


def build_rules(schema: Schema, path: str) -> tuple[RuleNode, list[Finding]]:
    """The compiled rules of a schema that stands at this path, and what is wrong with them."""
    builder = _Builder()
    root = builder.node(schema, schema, _Place(path, is_root=True))
    return root, [*builder.findings, *builder.total(path)]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a part of a schema stands: how often values of it may occur, and whether they have a former value."""

    path: str
    is_root: bool = False
    times: int | None = 1
    unrelated: str = ""
    depth: int = 0

    def child(self, suffix: str, schema: Schema, parent: Schema) -> "_Place":
        most = _most(parent)
        return replace(
            self,
            path=f"{self.path}.{suffix}",
            is_root=schema.get("x-kubernetes-embedded-resource") is True,
            times=None if most is None or self.times is None else min(self.times * most, LARGEST),
            unrelated=self.unrelated or (self.path if _is_unrelated(parent) else ""),
            depth=self.depth + 1,
        )


def _most(schema: Schema) -> int | None:
    """How many values a value of this schema holds at most; None if there is no bound."""
    if schema.get("type") == "array":
        limit = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        limit = schema.get("maxProperties")
    else:
        return 1
    return max(limit, 0) if isinstance(limit, int) else None


def _is_unrelated(schema: Schema) -> bool:
    return schema.get("type") == "array" and schema.get("x-kubernetes-list-type") != "map"


class _Builder:
    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._costs: list[tuple[int, str]] = []

    def total(self, path: str) -> list[Finding]:
        """What is wrong if all rules together may cost too much: those that cost most, and the schema."""
        total = min(sum(cost for cost, _ in self._costs), LARGEST)
        if total <= SCHEMA_LIMIT:
            return []
        worst = sorted((each for each in self._costs if each[0] >= SCHEMA_LIMIT // 100), reverse=True)[:4]
        told = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        findings = [Finding(where, "FieldValueForbidden", told) for _, where in worst]
        return [*findings, Finding(path, "FieldValueForbidden", _over(name, total, SCHEMA_LIMIT))]

    def node(self, schema: Schema, values: Schema, place: _Place) -> RuleNode:
        """The rules of a schema for values of another one, which is the same except inside allOf."""
        kind = values.get("type")
        keys = values.get("x-kubernetes-list-map-keys") if values.get("x-kubernetes-list-type") == "map" else None
        found = RuleNode(kind if isinstance(kind, str) else "", tuple(keys or ()))
        if place.depth > _MAX_DEPTH:
            return found
        before = len(self.findings)
        self._below(found, schema, values, place)
        rules = schema.get(_KEYWORD)
        if is_list(rules) and rules:
            self._rules(found, rules, values, place, is_sound=len(self.findings) == before)
        return found

    def _below(self, found: RuleNode, schema: Schema, values: Schema, place: _Place) -> None:
        properties, known = _part(schema, "properties"), _part(values, "properties")
        for name, each in properties.items():
            if name in known:
                below = self.node(each, known[name], place.child(f"properties[{name}]", each, values))
                if not below.is_idle:
                    found.properties[name] = below
        for name, attribute in (("additionalProperties", "values"), ("items", "items")):
            inner, outer = _part(schema, name), _part(values, name)
            if inner and outer:
                below = self.node(inner, outer, place.child(name, inner, values))
                if not below.is_idle:
                    setattr(found, attribute, below)
        for index, each in enumerate(schema.get("allOf") or ()):
            inner_place = replace(place, path=f"{place.path}.allOf[{index}]", depth=place.depth + 1)
            inside = self.node(each, values, inner_place)
            if not inside.is_idle:
                found.all_of.append(inside)

    def _rules(self, found: RuleNode, rules: list[Any], values: Schema, place: _Place, *, is_sound: bool) -> None:
        wrong = [
            finding
            for index, rule in enumerate(rules)
            for finding in check_rule(rule, values, f"{place.path}.{_KEYWORD}[{index}]")
        ]
        self.findings += wrong
        if wrong or not is_sound:
            return
        kind = declared_type(values, is_root=place.is_root)
        if kind is None:
            told = "internal error: failed to retrieve type information for x-kubernetes-validations"
            self.findings.append(Finding(f"{place.path}.{_KEYWORD}", "InternalError", told))
            return
        found.convert = converter(with_meta(values) if place.is_root else values)
        for index, rule in enumerate(rules):
            compiled = self._rule(rule, kind, values, place, f"{place.path}.{_KEYWORD}[{index}]")
            if compiled is not None:
                found.rules.append(compiled)

    def _rule(self, rule: Schema, kind: Type, values: Schema, place: _Place, path: str) -> Rule | None:
        is_optional = rule.get("optionalOldSelf") is True
        known = Declarations({"self": kind, "oldSelf": optional_of(kind) if is_optional else kind})
        program = self._compiled(rule, "rule", known, path)
        if program is None:
            return None
        times = place.times if place.times is not None else MAX_REQUEST // (kind.min_size + 1)
        self._observe(f"{path}.rule", "estimated rule cost", min(program.cost.most * times, LARGEST))
        message = self._compiled(rule, "messageExpression", known, path) if rule.get("messageExpression") else None
        if message is not None:
            self._observe(f"{path}.messageExpression", "estimated messageExpression cost", message.cost.most)
        self._check_former(rule, program, place, path)
        return Rule(
            rule["rule"],
            program,
            rule.get("message") or "",
            message,
            rule.get("reason") or REASONS[0],
            field_path(rule.get("fieldPath") or "", values) or "",
            is_optional,
        )

    def _compiled(self, rule: Schema, name: str, known: Declarations, path: str) -> Program | None:
        text = rule[name]
        prefix = "" if name == "rule" else "messageExpression "
        wanted, told = (
            (BOOL, "cel expression must evaluate to a bool")
            if name == "rule"
            else (STRING, f"{prefix}must evaluate to a string")
        )
        try:
            program = compile_rule(text, known, None)
        except BadProgram as error:
            words = "program instantiation failed" if name == "rule" else "messageExpression instantiation failed"
            self.findings.append(Finding(f"{path}.{name}", REASONS[0], f"{words}: {error}", rule))
            return None
        except CompileError as error:
            self.findings.append(Finding(f"{path}.{name}", REASONS[0], f"{prefix}compilation failed: {error}", rule))
            return None
        if program.type.same(wanted):
            return program
        self.findings.append(Finding(f"{path}.{name}", REASONS[0], told, rule))
        return None

    def _observe(self, path: str, name: str, cost: int) -> None:
        self._costs.append((cost, path))
        if cost > RULE_LIMIT:
            self.findings.append(Finding(path, "FieldValueForbidden", _over(name, cost, RULE_LIMIT)))

    def _check_former(self, rule: Schema, program: Program, place: _Place, path: str) -> None:
        if "oldSelf" in program.uses:
            if place.unrelated:
                told = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.unrelated}"
                self.findings.append(Finding(f"{path}.rule", REASONS[0], told, rule["rule"]))
        elif rule.get("optionalOldSelf") is not None:
            told = "may not be set if oldSelf is not used in rule"
            self.findings.append(Finding(f"{path}.optionalOldSelf", REASONS[0], told, rule["optionalOldSelf"]))


def _part(schema: Schema, name: str) -> Mapping[str, Any]:
    found = schema.get(name)
    return found if is_map(found) else {}


def _over(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{name} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )
