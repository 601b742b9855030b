"""CEL validation rules of CRD schemas (x-kubernetes-validations): compiled once, checked on whole objects.

```python
rules = compile_rules(schema)
if not rules.problems:
    findings = rules.check(new, old)
```

`build_rules` compiles the rules of every node of a schema, validates them (including `fieldPath` and
`messageExpression`), and estimates their cost. Messages are those of kube-apiserver.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from levelset.cel.cost_estimate import LARGEST
from levelset.cel.errors import BadProgram, CompileError, CostExceeded, EvaluationError
from levelset.cel.program import OBJECT_LIMIT, Budget, Declarations, Program, compile_rule
from levelset.cel.schema_types import MAX_REQUEST, declared_type, with_meta
from levelset.cel.types import BOOL, STRING, Type, optional_of
from levelset.cel.values import NONE, Convert, Optional, converter, equal, is_list, is_map
from levelset.objects.lazy_pattern import Pattern

__all__ = [
    "OMITTED",
    "REASONS",
    "RULE_LIMIT",
    "SCHEMA_LIMIT",
    "Finding",
    "Rule",
    "RuleNode",
    "Rules",
    "build_rules",
    "check_rule",
    "check_rules",
    "child_path",
    "compile_rules",
    "estimated_costs",
    "field_path",
    "key_path",
]

OMITTED: Any = object()


class Finding(msgspec.Struct, frozen=True):
    """One error: the field, a reason such as FieldValueInvalid, the message, and the invalid value.

    `value` is OMITTED where it is not shown.
    """

    field: str
    reason: str
    message: str
    value: Any = OMITTED

    @property
    def is_shown(self) -> bool:
        """Whether there is a value to show."""
        return self.value is not OMITTED


class Rule(msgspec.Struct, frozen=True):
    """One compiled rule."""

    text: str
    program: Program
    message: str = ""
    message_program: Program | None = None
    reason: str = "FieldValueInvalid"
    field: str = ""
    is_optional: bool = False

    @property
    def is_transition(self) -> bool:
        """Whether the rule uses `oldSelf`."""
        return "oldSelf" in self.program.uses

    @property
    def shown(self) -> str:
        """The rule as messages show it."""
        return self.message.strip() or self.text.strip()


class RuleNode(msgspec.Struct):
    """The rules of one schema node and of those below it."""

    kind: str
    keys: tuple[str, ...] = ()
    rules: list[Rule] = []
    convert: Convert | None = None
    properties: dict[str, "RuleNode"] = {}
    values: "RuleNode | None" = None
    items: "RuleNode | None" = None
    all_of: list["RuleNode"] = []
    broken: list[str] = []
    """Why rules could not be compiled."""

    @property
    def is_idle(self) -> bool:
        """Whether there are no rules here or below."""
        return not (self.rules or self.properties or self.values or self.items or self.all_of or self.broken)

    def key_of(self, item: Any) -> tuple[Any, ...] | None:
        """The key of an item of a keyed list; None if it has none."""
        if not self.keys or not is_map(item):
            return None
        members: Mapping[str, Any] = item
        found = tuple(members.get(key) for key in self.keys)
        return None if any(isinstance(value, dict | list) for value in found) else found


_STEP = Pattern(r"\.(?P<name>[^.\[\]']+)|\['(?P<key>(?:\\.|[^'\\])*)'\]")
_ESCAPE = Pattern(r"\\(.)")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def field_path(text: str, schema: Mapping[str, Any]) -> str | None:
    """The path below a value of this schema, in the form used in causes; None if the schema has no such field."""
    at, found = 0, ""
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return None
        name = match["name"] if match["name"] is not None else _unescaped(match["key"])
        properties, values = schema.get("properties"), schema.get("additionalProperties")
        if name is not None and properties:
            if name not in properties:
                return None
            schema, found = properties[name], child_path(found, name)
        elif name is not None and is_map(values):
            schema, found = values, key_path(found, name)
        else:
            return None
        at = match.end()
    return found or None


def child_path(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name


def key_path(path: str, key: str) -> str:
    """The path of an entry of a map."""
    return f"{path}[{key}]"


def _unescaped(text: str) -> str | None:
    if any(sign not in _ESCAPES for sign in _ESCAPE.findall(text)):
        return None
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], text)


REASONS = ("FieldValueInvalid", "FieldValueDuplicate", "FieldValueForbidden", "FieldValueRequired")
_BREAK = Pattern(r"[\n\r]")
_FIELD_INVALID, _REQUIRED = "FieldValueInvalid", "FieldValueRequired"


def check_rule(rule: Any, schema: Mapping[str, Any], path: str) -> Iterator[Finding]:
    """The errors in a rule of this schema, except in its expressions."""
    if not is_map(rule):
        yield Finding(f"{path}.rule", _REQUIRED, "rule is not specified")
        return
    members: Mapping[str, Any] = rule
    text, message = _text(members, "rule").strip(), _text(members, "message")
    if not text:
        yield Finding(f"{path}.rule", _REQUIRED, "rule is not specified")
    elif message and not message.strip():
        yield Finding(f"{path}.message", _FIELD_INVALID, "must be non-empty if specified", message)
    elif _BREAK.search(message.strip()):
        yield Finding(f"{path}.message", _FIELD_INVALID, "must not contain line breaks", message)
    elif _BREAK.search(text) and not message.strip():
        yield Finding(f"{path}.message", _REQUIRED, "message must be specified if rule contains line breaks")
    computed = _text(members, "messageExpression")
    if computed and not computed.strip():
        yield Finding(f"{path}.messageExpression", _REQUIRED, "messageExpression must be non-empty if specified")
    reason = members.get("reason")
    if reason is not None and reason not in REASONS:
        message = "supported values: " + ", ".join(f'"{each}"' for each in sorted(REASONS))
        yield Finding(f"{path}.reason", "FieldValueNotSupported", message, reason)
    yield from _check_field(_text(members, "fieldPath"), schema, f"{path}.fieldPath")


def _check_field(text: str, schema: Mapping[str, Any], path: str) -> Iterator[Finding]:
    if text and not text.strip():
        yield Finding(path, _FIELD_INVALID, "must be non-empty if specified", text)
    if _BREAK.search(text):
        yield Finding(path, _FIELD_INVALID, "must not contain line breaks", text)
    if text and field_path(text, schema) is None and not _is_unsupported(schema):
        yield Finding(path, _FIELD_INVALID, "must be a valid path", text)


_UNSUPPORTED = ("id", "patternProperties", "definitions", "$schema", "$ref", "additionalItems", "dependencies")
_NESTED = ("items", "additionalProperties", "not")


def _is_unsupported(schema: Any) -> bool:
    """Whether a schema has a keyword that structural schemas cannot have: then no path is looked up in it."""
    pending = [schema]
    while pending:
        one = pending.pop()
        if not is_map(one):
            continue
        if any(one.get(name) for name in _UNSUPPORTED) or one.get("$ref") == "" or is_list(one.get("items")):
            return True
        pending += [one[name] for name in _NESTED if name in one]
        properties = one.get("properties")
        pending += list(properties.values()) if is_map(properties) else []
        for name in ("allOf", "anyOf", "oneOf"):
            pending += one[name] if is_list(one.get(name)) else []
    return False


def _text(rule: Mapping[str, Any], name: str) -> str:
    found = rule.get(name)
    return found if isinstance(found, str) else ""


RULE_LIMIT = 10_000_000  # the maximum estimated cost of one rule
SCHEMA_LIMIT = 100_000_000  # the maximum estimated cost of all rules of a schema together
_KEYWORD = "x-kubernetes-validations"
_SELF = "selfType0"  # upstream has a random number
_CONTAINERS = frozenset({dict, list})
_TYPES = frozenset({"array", "boolean", "integer", "number", "object", "string"})
_MAX_DEPTH = 100
Schema = Mapping[str, Any]


def check_rules(schema: Schema, path: str) -> list[Finding]:
    """The errors in the rules of a schema that is not structural: their expressions cannot be compiled."""
    ruled: set[int] = set()
    _find_ruled(schema, ruled)
    return list(_check_texts(schema, path, ruled))


def _check_texts(schema: Schema, path: str, ruled: set[int]) -> Iterator[Finding]:
    if id(schema) not in ruled:
        return
    for index, rule in enumerate(schema.get(_KEYWORD) or ()):
        yield from check_rule(rule, schema, f"{path}.{_KEYWORD}[{index}]")
    for name in ("properties", "definitions", "dependencies"):
        for key, each in _part(schema, name).items():
            if is_map(each):
                yield from _check_texts(each, f"{path}.{name}[{key}]", ruled)
    for name in ("additionalProperties", "items", "not"):
        yield from _check_texts(_part(schema, name), f"{path}.{name}", ruled)
    for name in ("allOf", "oneOf", "anyOf", "items"):
        several = schema.get(name)
        for index, each in enumerate(several if is_list(several) else ()):
            if is_map(each):
                yield from _check_texts(each, f"{path}.{name}[{index}]", ruled)


def build_rules(
    schema: Schema, path: str, *, is_root: bool = True, is_lenient: bool = False
) -> tuple[RuleNode, list[Finding]]:
    """The compiled rules of the schema at this path, which may be that of a resource, and the errors found in them."""
    builder = _Builder(schema, is_lenient=is_lenient)
    root = builder.node(schema, schema, _SchemaLocation(path, is_root=is_root))
    return root, [*builder.findings, *builder.total(path)]


def estimated_costs(schema: Schema) -> dict[str, int]:
    """The estimated costs of all rules and messageExpressions of a schema, by their paths in it."""
    builder = _Builder(schema)
    builder.node(schema, schema, _SchemaLocation("", is_root=True))
    return builder.costs()


class _SchemaLocation(msgspec.Struct, frozen=True):
    """The location of a sub-schema: how often its values may occur, and whether they have an old value."""

    path: str
    is_root: bool = False
    times: int | None = 1
    unrelated: str = ""
    depth: int = 0
    is_ruled: bool = False
    is_untyped: bool = False
    """Whether it is inside of a schema with rules, from which on a type is none that expressions know."""
    is_misplaced: bool = False
    """Whether it is of the items of what is no list, or the values of what is no map, inside of a schema with rules."""

    def child(self, suffix: str, schema: Schema, parent: Schema) -> "_SchemaLocation":
        most = _most(parent)
        return replace(
            self,
            path=f"{self.path}.{suffix}",
            is_root=schema.get("x-kubernetes-embedded-resource") is True,
            times=None if most is None or self.times is None else min(self.times * most, LARGEST),
            unrelated=self.unrelated or (self.path if _is_unrelated(parent, suffix) else ""),
            depth=self.depth + 1,
            is_misplaced=False,
        )


def _most(schema: Schema) -> int | None:
    """The maximum number of items or entries of a list or map of this schema (1 for other types); None if unbounded."""
    if schema.get("type") == "array":
        limit = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        limit = schema.get("maxProperties")
    else:
        return 1
    return max(limit, 0) if isinstance(limit, int) else None


def _is_unrelated(parent: Schema, suffix: str) -> bool:
    """Whether a part of new values has no part of old ones that it replaces."""
    if suffix == "items":
        return parent.get("x-kubernetes-list-type") != "map"
    return suffix != "additionalProperties" and parent.get("x-kubernetes-map-type") not in (None, "granular", "atomic")


class _Builder:
    def __init__(self, schema: Schema, *, is_lenient: bool = False) -> None:
        self._is_lenient = is_lenient
        """Whether rules are compiled in spite of errors in their texts."""
        self.findings: list[Finding] = []
        self._failed = ""
        """Why the last rule could not be compiled."""
        self._texts = 0
        """How many of the findings are about the texts of rules: the rules around them are not compiled."""
        self._ruled: set[int] = set()
        """The identities of the schemas that have rules, or something inside of them that has: few of them."""
        _find_ruled(schema, self._ruled)
        self._costs: list[tuple[int, str]] = []

    def costs(self) -> dict[str, int]:
        """The estimated costs that were observed, by path."""
        return {path: cost for cost, path in self._costs}

    def total(self, path: str) -> list[Finding]:
        """The errors if all rules together may cost too much: the most expensive rules, and the schema."""
        total = min(sum(cost for cost, _ in self._costs), LARGEST)
        if total <= SCHEMA_LIMIT:
            return []
        worst = sorted((each for each in self._costs if each[0] >= SCHEMA_LIMIT // 100), reverse=True)[:4]
        message = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        findings = [Finding(where, "FieldValueForbidden", message) for _, where in worst]
        return [*findings, Finding(path, "FieldValueForbidden", _over(name, total, SCHEMA_LIMIT))]

    def node(self, schema: Schema, values: Schema, place: _SchemaLocation) -> RuleNode:
        """The rules of a schema for values of another one; both are the same except inside allOf."""
        kind = values.get("type")
        keys = values.get("x-kubernetes-list-map-keys") if values.get("x-kubernetes-list-type") == "map" else None
        found = RuleNode(kind if isinstance(kind, str) else "", tuple(keys or ()))
        if place.depth > _MAX_DEPTH:
            return found
        before, rules = self._texts, schema.get(_KEYWORD)
        if place.is_ruled or rules:
            is_untyped = place.is_untyped or (found.kind not in _TYPES and found.kind != "")
            place = replace(place, is_ruled=True, is_untyped=is_untyped)
        self._below(found, schema, values, place)
        if is_list(rules) and rules:
            self._rules(found, rules, values, place, is_sound=self._texts == before)
        return found

    def _below(self, found: RuleNode, schema: Schema, values: Schema, place: _SchemaLocation) -> None:
        properties, known = _part(schema, "properties"), _part(values, "properties")
        for name, each in properties.items():
            if name in known and id(each) in self._ruled:
                below = self.node(each, known[name], place.child(f"properties[{name}]", each, values))
                if not below.is_idle:
                    found.properties[name] = below
        for name, attribute in (("additionalProperties", "values"), ("items", "items")):
            inner, outer = _part(schema, name), _part(values, name)
            if inner and outer and id(inner) in self._ruled:
                is_other = found.kind != ("array" if name == "items" else "object")
                is_misplaced = place.is_ruled and (is_other or values.get("x-kubernetes-int-or-string") is True)
                below = self.node(inner, outer, replace(place.child(name, inner, values), is_misplaced=is_misplaced))
                if not below.is_idle:
                    setattr(found, attribute, below)
        for index, each in enumerate(schema.get("allOf") or ()):
            if id(each) not in self._ruled:
                continue
            inner_place = replace(place, path=f"{place.path}.allOf[{index}]", depth=place.depth + 1)
            inside = self.node(each, values, inner_place)
            if not inside.is_idle:
                found.all_of.append(inside)

    def _rules(
        self, found: RuleNode, rules: list[Any], values: Schema, place: _SchemaLocation, *, is_sound: bool
    ) -> None:
        wrong = [
            finding
            for index, rule in enumerate(rules)
            for finding in check_rule(rule, values, f"{place.path}.{_KEYWORD}[{index}]")
        ]
        self.findings += wrong
        self._texts += len(wrong)
        if (wrong or not is_sound) and not self._is_lenient:
            return
        if place.is_misplaced:
            message = "failed to convert to declType for CEL validation rules"
            self.findings.append(Finding(f"{place.path}.{_KEYWORD}", "InternalError", message))
            return
        if place.is_untyped:
            message = "internal error: failed to construct type information for x-kubernetes-validations rules"
            problem = f"{message}: unable to convert structural schema to CEL declarations"
            self.findings.append(Finding(f"{place.path}.{_KEYWORD}", "InternalError", problem))
            return
        kind = declared_type(values, is_root=place.is_root, name=_SELF)
        if kind is None:
            message = "internal error: failed to retrieve type information for x-kubernetes-validations"
            self.findings.append(Finding(f"{place.path}.{_KEYWORD}", "InternalError", message))
            return
        found.convert = converter(with_meta(values) if place.is_root else values)
        for index, rule in enumerate(rules):
            if not is_map(rule) or not _text(rule, "rule").strip():
                continue
            compiled = self._rule(rule, kind, values, place, f"{place.path}.{_KEYWORD}[{index}]")
            if compiled is not None:
                found.rules.append(compiled)
            elif self._failed:
                found.broken.append(self._failed)

    def _rule(self, rule: Schema, kind: Type, values: Schema, place: _SchemaLocation, path: str) -> Rule | None:
        is_optional = rule.get("optionalOldSelf") is True
        known = Declarations({"self": kind, "oldSelf": optional_of(kind) if is_optional else kind})
        before = len(self.findings)
        program = self._compiled(rule, "rule", known, path)
        self._failed = self.findings[before].message if program is None else ""
        self._check_former(rule, program, place, path)
        if program is None:
            return None
        times = place.times if place.times is not None else MAX_REQUEST // (kind.min_size + 1)
        self._observe(f"{path}.rule", "estimated rule cost", min(program.cost.most * times, LARGEST))
        message = self._compiled(rule, "messageExpression", known, path) if rule.get("messageExpression") else None
        if message is not None:
            self._observe(f"{path}.messageExpression", "estimated messageExpression cost", message.cost.most)
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
        wanted, message = (
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
        self.findings.append(Finding(f"{path}.{name}", REASONS[0], message, rule))
        return None

    def _observe(self, path: str, name: str, cost: int) -> None:
        self._costs.append((cost, path))
        if cost > RULE_LIMIT:
            self.findings.append(Finding(path, "FieldValueForbidden", _over(name, cost, RULE_LIMIT)))

    def _check_former(self, rule: Schema, program: Program | None, place: _SchemaLocation, path: str) -> None:
        if program is not None and "oldSelf" in program.uses:
            if place.unrelated:
                message = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.unrelated}"
                self.findings.append(Finding(f"{path}.rule", REASONS[0], message, rule["rule"]))
        elif rule.get("optionalOldSelf") is not None:
            message = "may not be set if oldSelf is not used in rule"
            self.findings.append(Finding(f"{path}.optionalOldSelf", REASONS[0], message, rule["optionalOldSelf"]))


def _find_ruled(value: Any, found: set[int]) -> bool:
    """Adds the identities of all maps with rules, or with such a map inside; returns whether this value is one."""
    # Classes are compared instead of `isinstance`: this visits every value of every schema, and most have no rules.
    is_array = value.__class__ is list
    if not is_array and not is_map(value):
        return False
    members = value if is_array else value.values()
    inside = [_find_ruled(one, found) for one in members if one.__class__ in _CONTAINERS]  # all of them are visited
    if not is_array and (_KEYWORD in value or True in inside):
        found.add(id(value))
        return True
    return True in inside


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


_INVALID = "FieldValueInvalid"
_MAX_MESSAGE = 5 * 1024  # maximum bytes of a computed message
_SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"


class Rules:
    """The compiled rules of a schema; `problems` are the errors in those that could not be compiled."""

    __slots__ = ("_root", "problems")

    def __init__(self, root: RuleNode, problems: tuple[Finding, ...]) -> None:
        self._root = root
        self.problems = problems

    def __bool__(self) -> bool:
        return not self._root.is_idle

    def check(self, new: Any, old: Any = None) -> list[Finding]:
        """The errors in an object, which may be an update of an old one.

        Violations in unchanged parts are ignored (ratcheting). The object must be valid under its schema.
        """
        if self._root.is_idle:
            return []
        run = _Check()
        with contextlib.suppress(_BudgetSpent):
            run.visit(self._root, "", (new, old), _Correlation(new, old) if old is not None else None)
        return run.findings

    def check_default(self, value: Any) -> list[Finding]:
        """The errors in a default: as a value that stays as it is, and as a new one."""
        for old in (value, None):
            run = _Check()
            with contextlib.suppress(_BudgetSpent):
                run.visit(self._root, "", (value, old), None)
            if run.findings:
                return run.findings
        return []


def compile_rules(
    schema: Mapping[str, Any],
    path: str = "spec.validation.openAPIV3Schema",
    *,
    is_root: bool = True,
    is_lenient: bool = False,
) -> Rules:
    """Compiles the rules of a structural schema, by default at the root of a resource; `path` is for errors.

    With `is_lenient`, rules with errors in their texts, such as a wrong `fieldPath`, are compiled, too.
    """
    root, problems = build_rules(schema, path, is_root=is_root, is_lenient=is_lenient)
    return Rules(root, tuple(problems))


class _BudgetSpent(Exception):
    """The cost budget of the object is spent."""


class _Correlation:
    """A value correlated with its old value, or without one, but below a value that has one."""

    __slots__ = ("_is_same", "new", "old", "parent")

    def __init__(self, new: Any, old: Any, parent: "_Correlation | None" = None) -> None:
        self.new, self.old, self.parent = new, old, parent
        self._is_same: bool | None = None

    def is_same(self, forms: tuple[Any, Any] | None = None) -> bool:
        """Whether nothing has changed: in the value, or in its nearest ancestor that has an old value.

        `forms` are both values as converted by their schema, so that keyed lists are compared without order.
        """
        if self._is_same is None:
            self._is_same = equal(self.new, self.old) if self.old is not None else self._is_parent_same()
        return self._is_same or (self.old is not None and forms is not None and equal(*forms))

    def _is_parent_same(self) -> bool:
        return self.parent is not None and self.parent.is_same()

    def inner(self, new: Any, old: Any) -> "_Correlation":
        return _Correlation(new, old, self) if self.old is not None else self


class _Check:
    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._budget = Budget(OBJECT_LIMIT)

    def visit(self, node: RuleNode, path: str, pair: tuple[Any, Any], past: _Correlation | None) -> None:
        """Checks a new value against its old one, and everything below."""
        new, old = pair
        if new is None:
            return
        if node.rules:
            self._rules(node, path, pair, past)
        for problem in node.broken:
            self.findings.append(Finding(path, _INVALID, f"rule compile error: {problem}", node.kind))
        for each in node.all_of:
            self.visit(each, path, pair, past)
        if is_list(new) and node.items is not None:
            self._items(node, node.items, path, (new, old if is_list(old) else []), past)
        elif is_map(new) and (node.properties or node.values is not None):
            self._members(node, path, (new, old if is_map(old) else {}), past)

    def _members(
        self, node: RuleNode, path: str, pair: tuple[Mapping[str, Any], Mapping[str, Any]], past: _Correlation | None
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
        self, node: RuleNode, below: RuleNode, path: str, pair: tuple[list[Any], list[Any]], past: _Correlation | None
    ) -> None:
        former = {node.key_of(item): item for item in pair[1]} if node.keys else {}
        former.pop(None, None)
        for place, item in enumerate(pair[0]):
            before = former.get(node.key_of(item)) if former else None
            inner = past.inner(item, before) if past is not None else None
            self.visit(below, f"{path}[{place}]", (item, before), inner)

    def _rules(self, node: RuleNode, path: str, pair: tuple[Any, Any], past: _Correlation | None) -> None:
        (new, old), (value, former) = pair, pair
        if not is_map(new) and node.kind == "object":  # which only an object of another kind can have
            problem = "invalid data, expected a map for the provided schema with type=object evaluating rule"
            rules = [one for one in node.rules if old is not None or one.is_optional or not one.is_transition]
            self.findings += [Finding(path, _INVALID, f"{problem}: {rule.shown}", node.kind) for rule in rules]
            return
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
        """Whether a rule holds; an evaluation error is a finding too."""
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
            message = f"{error} evaluating rule: {rule.shown}"
            if str(error).startswith("no such overload"):
                message = (
                    f"'{error}': call arguments did not match a supported operator, function or macro signature for "
                    f"rule: {rule.shown}"
                )
            self.findings.append(Finding(path, _INVALID, message, node.kind))
        return True

    def _give_up(self, path: str, node: RuleNode, message: str) -> None:
        self.findings.append(Finding(path, _INVALID, message, node.kind))
        raise _BudgetSpent

    def _blame(self, node: RuleNode, rule: Rule, path: str, new: Any, values: tuple[Any, Any]) -> None:
        message = self._computed(rule.message_program, values) if rule.message_program is not None else None
        message = message or rule.message.strip() or f"failed rule: {rule.shown}"
        where = child_path(path, rule.field) if rule.field else path
        shown = OMITTED if node.kind in ("object", "array") else new
        self.findings.append(Finding(where, rule.reason, message, shown))

    def _computed(self, program: Program, values: tuple[Any, Any]) -> str | None:
        """The message from `messageExpression`; None if it has no usable result."""
        try:
            found = program.evaluate(self._budget, *values)
        except (CostExceeded, EvaluationError):
            return None
        text = found.strip() if isinstance(found, str) else ""
        return text if text and "\n" not in text and len(text.encode("utf-8", "replace")) <= _MAX_MESSAGE else None
