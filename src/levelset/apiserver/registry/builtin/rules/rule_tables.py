"""Rule tables: the validation of a built-in kind as data, one line per rule, compiled to one function per table.

    PORT = Table(
        ("containerPort", required, port_number),
        ("protocol", required, one_of("TCP", "UDP", "SCTP")),
    )
    CONTAINER = Table(("name", required, dns_label), ("ports[*]", PORT))

A line is a path and its checks, in the order in which kube-apiserver reports their causes. A path is a member, members
joined by dots, either with `[*]` for the items of a list, or empty for the whole map. A check is one of these:

- `required`, or `Required(detail)`: the member must be there and not be empty;
- `zero`: an absent number counts as 0, as it does in Go;
- a `Test`: a predicate, and the function that reports a value for which it is false;
- another table, for a map;
- `Whole(function)`: a cross-field check of the whole map, which runs if this member is there;
- a function `(value, at, out, context)` that appends causes to `out`: cross-field checks.

All but the first two run only if the member is there and not the empty string, which Go cannot tell from an absent one.
`always(function)` runs for every map, and `given(test)` for the empty string, too. The context is what a table passes
down unchanged: the old object, or None on create, and within a pod spec what containers need to know of their pod.
`on_create(function)` runs on create only, and `remembered(check)` not for values that it found valid lately.

A table is compiled on its first use. The code calls a predicate where one line has one, and builds the path of a value
only to report it, or to descend.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects import encode_tree

__all__ = [
    "Always",
    "Changes",
    "Check",
    "Endpoint",
    "KindRules",
    "Present",
    "Required",
    "Table",
    "Test",
    "Whole",
    "always",
    "given",
    "if_set",
    "immutable",
    "immutable_struct",
    "on_create",
    "remembered",
    "required",
    "value_at",
    "zero",
]

Check = Callable[[Any, str, list[Cause], Any], None]
"""Appends the causes of a value, which is at this path, to a list; the last argument is the context."""
Report = Callable[[Any, str, list[Cause]], None]


class Required(NamedTuple):
    """The member must be there and not be empty; with the detail of the cause."""

    detail: str = ""


class Test(NamedTuple):
    """A predicate, and the function that reports a value for which it is false."""

    is_valid: Callable[[Any], object]
    report: Report


class Always(NamedTuple):
    """A check that runs also if the member is absent; it gets None then."""

    check: Check


class Whole(NamedTuple):
    """A check of the whole map, which runs if the member is there."""

    check: Check


class Present(NamedTuple):
    """As `Whole`, also for the empty string: of a pointer to a text, which Go can tell from an absent one."""

    check: Check


class _Zero(NamedTuple):
    """An absent number counts as 0."""


required: Final = Required()
zero: Final = _Zero()


def always(check: Check) -> Always:
    """The check, run also if the member is absent."""
    return Always(check)


def given(test: Test) -> Always:
    """The test, run also for the empty string: of a pointer to a text, which Go can tell from an absent one."""

    def check(value: Any, at: str, out: list[Cause], _context: Any) -> None:
        if value is not None and not test.is_valid(value):
            test.report(value, at, out)

    return Always(check)


def if_set(name: str, test: Test) -> Present:
    """As `given`, of the member with this name: without a call if it is absent."""

    def check(value: Any, at: str, out: list[Cause], _context: Any) -> None:
        if not test.is_valid(value[name]):
            test.report(value[name], f"{at}.{name}", out)

    return Present(check)


def on_create(check: Check) -> Check:
    """The check of a whole object, run on create only."""

    def run(value: Any, at: str, out: list[Cause], old: Any) -> None:
        if old is None:
            check(value, at, out, None)

    return run


def _needs_call(check: Any) -> bool:
    return isinstance(check, Required | Always | _Zero)


_MAX_REMEMBERED: Final = 512
_LONGEST_REMEMBERED: Final = 1_024  # bytes


def remembered(check: Check) -> Check:
    """The check, which does not use its context, not run for values that were valid before: they recur in pod specs."""
    valid: set[bytes] = set()

    def run(value: Any, at: str, out: list[Cause], context: Any) -> None:
        key = encode_tree(value)
        if key in valid:
            return
        before = len(out)
        check(value, at, out, context)
        if len(out) == before and len(key) <= _LONGEST_REMEMBERED:
            if len(valid) >= _MAX_REMEMBERED:
                valid.clear()
            valid.add(key)

    return run


class Table:
    """The rules of one type of map, compiled on first use; `root` is the table of a whole object."""

    def __init__(self, *lines: tuple[Any, ...], root: bool = False) -> None:
        self.lines = lines
        self.root = root
        self._compiled: Check | None = None
        self.accepts_empty = all(line[0] and not any(map(_needs_call, line[1:])) for line in lines)
        """Whether no rule is about absent members, so that an empty map is valid."""

    def __call__(self, value: Any, at: str, out: list[Cause], context: Any) -> None:
        """Appends the causes of a map at this path."""
        (self._compiled or self.compiled())(value, at, out, context)

    def compiled(self) -> Check:
        """The function of the table."""
        if self._compiled is None:
            self._compiled = _Compiler(self).compile()
        return self._compiled


class _Compiler:
    """Writes the function of one table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._lines = ["def run(v, at, out, context):"]
        self._space: dict[str, Any] = {"required": field_errors.required}

    def compile(self) -> Check:
        lines = self._table.lines
        if len(lines) == 1 and not lines[0][0] and len(lines[0]) == 2:
            only: Check = lines[0][1]  # one check of the whole map needs no function around it
            return only
        for line in lines:
            self._line(line[0], line[1:])
        if len(self._lines) == 1:
            self._put(1, "pass")
        # Paths come from the tables of this package; everything else is a constant in the namespace.
        exec("\n".join(self._lines), self._space)  # noqa: S102
        made: Check = self._space["run"]
        return made

    def _line(self, path: str, checks: tuple[Any, ...]) -> None:
        if not path:
            for check in checks:
                self._put(1, f"{self._constant(check)}(v, at, out, context)")
            return
        each = path.endswith("[*]")
        members = path.removesuffix("[*]").split(".")
        self._put(1, f"x = v.get({members[0]!a})")
        for name in members[1:]:
            self._put(1, f"x = None if x is None else x.get({name!a})")
        where = self._text(".".join(members))
        if not each:
            self._checks(1, "x", where, checks)
            return
        self._put(1, "if x:")
        self._put(2, "i = 0")
        self._put(2, "for y in x:")
        self._checks(3, "y", where[:-1] + "[{i}]" + where[-1], checks, is_item=True)
        self._put(3, "i += 1")

    def _text(self, path: str) -> str:
        """The source of the path of a member."""
        return f"f{path!a}" if self._table.root else "f" + repr("{at}." + path)

    def _checks(self, depth: int, var: str, where: str, checks: tuple[Any, ...], *, is_item: bool = False) -> None:
        if any(check is zero for check in checks):
            self._put(depth, f"if {var} is None: {var} = 0")
        needed = next((check for check in checks if isinstance(check, Required)), None)
        for check in checks:
            if isinstance(check, Always):
                self._put(depth, f"{self._constant(check.check)}({var}, {where}, out, context)")
            if isinstance(check, Present):
                self._put(depth, f"if {var} is not None: {self._constant(check.check)}(v, at, out, context)")
        others = [check for check in checks if not isinstance(check, Required | Always | Present | _Zero)]
        if needed is not None:
            self._put(depth, f"if not {var}:")
            self._put(depth + 1, f"out.append(required({where}, {needed.detail!a}))")
            if others:
                self._put(depth, "else:")
        elif others and is_item:  # the empty text is a value of a list
            self._put(depth, f"if {var} is not None:")
        elif others:
            self._put(depth, f'if {var} is not None and {var} != "":')
        for check in others:
            self._check(depth + 1, var, where, check)

    def _check(self, depth: int, var: str, where: str, check: Any) -> None:
        if isinstance(check, Whole):
            self._put(depth, f"{self._constant(check.check)}(v, at, out, context)")
        elif isinstance(check, Test):
            self._put(depth, f"if not {self._constant(check.is_valid)}({var}):")
            self._put(depth + 1, f"{self._constant(check.report)}({var}, {where}, out)")
        else:
            guard = f"if {var}: " if isinstance(check, Table) and check.accepts_empty else ""
            self._put(depth, f"{guard}{self._constant(check)}({var}, {where}, out, context)")

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._space)}"
        self._space[name] = value.compiled() if isinstance(value, Table) else value
        return name

    def _put(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text)


Change = Callable[[Any, Any, str, list[Cause]], None]
"""Appends the causes why a value may not change: the new value, the old one, and the path."""
Changes = tuple[tuple[str, Change], ...]
"""What may not change: paths and checks, each called if the values at its path differ. An empty path is the object."""


def immutable(new: Any, old: Any, at: str, out: list[Cause]) -> None:
    """The value may not change; an absent text is shown as an empty one."""
    shown = "" if new is None and isinstance(old, str) else new
    out.append(field_errors.invalid(at, shown, "field is immutable"))


def immutable_struct(new: Any, _old: Any, at: str, out: list[Cause]) -> None:
    """The value, which is always there, may not change."""
    out.append(field_errors.invalid(at, {} if new is None else new, "field is immutable"))


class Endpoint(NamedTuple):
    """The rules of an update through a subresource other than the status."""

    rules: Table
    changes: Changes = ()


class KindRules(msgspec.Struct, frozen=True, eq=False):
    """All rules of a kind: of the object, of its changes, of its status, and of its other subresources."""

    rules: Table = msgspec.field(default_factory=lambda: Table(root=True))
    changes: Changes = ()
    status: Table = msgspec.field(default_factory=lambda: Table(root=True))
    status_changes: Changes = ()
    endpoints: Mapping[str, Endpoint] = msgspec.field(default_factory=dict[str, Endpoint])
    # Whether the causes of changes come before those of the object.
    changes_first: bool = False

    def validate(self, new: Object, old: Object | None) -> list[Cause]:
        """The causes why the object is invalid, or may not replace the old one."""
        out: list[Cause] = []
        if old is not None and self.changes_first:
            _check_changes(self.changes, new, old, out)
        self.rules.compiled()(new, "", out, old)
        if old is not None and not self.changes_first:
            _check_changes(self.changes, new, old, out)
        return out

    def validate_part(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        """The causes why an update through a subresource is invalid."""
        if subresource == "status":
            rules, changes = self.status, self.status_changes
        elif subresource in self.endpoints:
            rules, changes = self.endpoints[subresource]
        else:
            return self.validate(new, old)
        out: list[Cause] = []
        rules(new, "", out, old)
        _check_changes(changes, new, old, out)
        return out


def _check_changes(changes: Iterable[tuple[str, Change]], new: Object, old: Object, out: list[Cause]) -> None:
    for path, change in changes:
        if not path:
            change(new, old, "", out)
            continue
        after, before = value_at(new, path), value_at(old, path)
        if not equal(after, before):
            change(after, before, path, out)


def value_at(tree: Any, path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    found = tree
    for name in path.split("."):
        if found.__class__ is not dict:
            return None
        found = found.get(name)
    return found
