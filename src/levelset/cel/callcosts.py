"""What calls may cost at most, and how large their results may be: the figures of Kubernetes."""

from collections.abc import Callable, Mapping

from levelset.cel.estimates import Part
from levelset.cel.spans import LARGEST, UNKNOWN, Span, fixed

__all__ = ["call_cost"]

_TENTH = 0.1
_ONE = fixed(1)


def call_cost(function: str, parts: list[Part]) -> Part:
    """The cost of a call itself, with the size of its result; the parts are the receiver, if any, and the arguments."""
    known = _COSTS.get(function)
    found = known(parts) if known is not None and parts else None
    return found if found is not None else Part(_ONE)


def _dyn(parts: list[Part]) -> Part:
    only = parts[0]
    return Part(
        _ONE,
        only.span if only.size is not None or only.declared is not None else None,
        only.key,
        only.value,
        only.declared,
    )


def _index(parts: list[Part]) -> Part:
    over = parts[0]
    place = 1 if over.kind is not None and over.kind.kind == "map" else 0
    inner = over.inside(place)
    return Part(_ONE, inner.size, declared=inner.declared)


def _compared(parts: list[Part]) -> Part | None:
    """Equality, and the order of texts: as much as the smaller one has."""
    kinds = [part.kind.kind if part.kind is not None else "dyn" for part in parts]
    if kinds[0] == kinds[1] == "opaque":
        return Part(_ONE)
    most = min(part.span.most for part in parts)
    return Part(Span(1 if most > 0 else 0, most).scaled(_TENTH))


def _ordered(parts: list[Part]) -> Part | None:
    kinds = {part.kind.kind if part.kind is not None else "dyn" for part in parts}
    return _compared(parts) if kinds <= {"string", "bytes", "dyn"} else None


def _added(parts: list[Part]) -> Part | None:
    kind = parts[0].kind.kind if parts[0].kind is not None else "dyn"
    if kind not in ("string", "bytes", "list"):
        return None
    size = parts[0].span + parts[1].span
    one, two = parts[0].value, parts[1].value
    value = Span(min(one.least, two.least), max(one.most, two.most)) if one and two else None
    cost = _ONE if kind == "list" else size.scaled(_TENTH)
    return Part(cost, size, fixed(1) if value else None, value)


def _in(parts: list[Part]) -> Part | None:
    is_map = parts[1].kind is not None and parts[1].kind.kind == "map"
    return None if is_map else Part(parts[1].span)


def _prefix(parts: list[Part]) -> Part:
    return Part(parts[1].span.scaled(_TENTH))


def _contained(parts: list[Part]) -> Part:
    return Part(parts[0].span.scaled(_TENTH) * parts[1].span.scaled(_TENTH))


def _regex(parts: list[Part]) -> Part:
    text = (parts[0].span + _ONE).scaled(_TENTH)
    return Part(text * parts[1].span.scaled(0.25), Span(0, parts[0].span.most))


def _matches(parts: list[Part]) -> Part:
    return Part(_regex(parts).cost)


def _walked(parts: list[Part]) -> Part:
    """Sums, extremes and places: one for each item, and its characters if it is a text."""
    over = parts[0]
    if over.kind is None or over.kind.kind != "list":
        return Part(over.span.scaled(_TENTH))
    item = over.kind.params[0]
    each = _ONE
    if item.kind in ("string", "bytes"):
        each = _ONE + Part(declared=over.inside(0).declared, kind=item).span.scaled(_TENTH)
    return Part(over.span * each)


def _traversed(parts: list[Part]) -> Part:
    return Part(parts[0].span.scaled(_TENTH), parts[0].span)


def _parsed(parts: list[Part]) -> Part:
    return Part(parts[0].span.scaled(_TENTH))


def _ip(parts: list[Part]) -> Part:
    is_cidr = parts[0].kind is not None and parts[0].kind.kind == "opaque"
    return Part(_ONE) if is_cidr else _parsed(parts)


def _parsed_twice(parts: list[Part]) -> Part:
    return Part(parts[0].span.scaled(2 * _TENTH))


def _split(parts: list[Part]) -> Part:
    size = parts[0].span
    limit = parts[2].literal if len(parts) > 2 else None
    most = limit if isinstance(limit, int) and limit >= 0 else size.most
    return Part(size.scaled(2 * _TENTH), Span(0, most))


def _replaced(parts: list[Part]) -> Part:
    size, old, new = (part.span for part in parts[:3])
    least = _replacements(size.least, old.most, new.least, shrinks=True)
    most = _replacements(size.most, old.least, new.most, shrinks=False)
    return Part(size.scaled(2 * _TENTH), Span(min(least, LARGEST), min(most, LARGEST)))


def _replacements(size: int, old: int, new: int, *, shrinks: bool) -> int:
    """The size of a text in which parts of one size are replaced by those of another."""
    if old == 0:
        return (size + 1) * new + size
    if (old <= new) if shrinks else (new <= old):
        return size
    return -(-size // old) * new


def _joined(parts: list[Part]) -> Part:
    over = parts[0]
    inner = over.inside(0)
    size = over.span * Part(declared=inner.declared, kind=inner.kind).span
    if len(parts) > 1:
        gaps = Span(max(over.span.least - 1, 0), max(over.span.most - 1, 0))
        size = size + parts[1].span * gaps
    return Part(size.scaled(_TENTH), size)


def _contains_ip(parts: list[Part]) -> Part:
    cost = Span(8, 32).scaled(_TENTH)
    return Part(cost + _as_text(parts[1]))


def _contains_cidr(parts: list[Part]) -> Part:
    cost = Span(8, 32).scaled(_TENTH) + Span(4, 16).scaled(_TENTH) + _ONE
    return Part(cost + _as_text(parts[1]))


def _as_text(part: Part) -> Span:
    is_text = part.kind is not None and part.kind.kind == "string"
    return part.span.scaled(_TENTH) if is_text else fixed(0)


def _validated(parts: list[Part]) -> Part:
    return Part(parts[1].span.scaled(_TENTH).scaled(32))


def _selector(parts: list[Part]) -> Part:
    size = parts[1].span
    return Part(fixed(10) + size.scaled(_TENTH) + size.scaled(0.5).scaled(50))


def _checked(_: list[Part]) -> Part:
    return Part(fixed(350_000))


def _product(parts: list[Part]) -> Part:
    return Part(parts[0].span * parts[1].span + _ONE)


def _twice_product(parts: list[Part]) -> Part:
    return Part((parts[0].span * parts[1].span).scaled(2) + _ONE)


def _list_call(parts: list[Part]) -> Part:
    size = parts[0].span
    return Part(size + fixed(11), size, parts[0].key, parts[0].value)


def _square(parts: list[Part]) -> Part:
    size = parts[0].span
    return Part((size * size).scaled(2) + fixed(11), size, parts[0].key, parts[0].value)


def _range(parts: list[Part]) -> Part:
    limit = parts[0].literal
    size = fixed(limit) if isinstance(limit, int) and limit >= 0 else UNKNOWN
    return Part(size + fixed(11), size)


def _converted(parts: list[Part]) -> Part | None:
    kind = parts[0].kind.kind if parts[0].kind is not None else ""
    size = parts[0].span
    return Part(size.scaled(_TENTH), Span(size.least, size.most)) if kind in ("string", "bytes") else None


_COSTS: Mapping[str, Callable[[list[Part]], Part | None]] = {
    "dyn": _dyn,
    "_[_]": _index,
    "_==_": _compared,
    "_!=_": _compared,
    "_<_": _ordered,
    "_<=_": _ordered,
    "_>_": _ordered,
    "_>=_": _ordered,
    "_+_": _added,
    "@in": _in,
    "startsWith": _prefix,
    "endsWith": _prefix,
    "contains": _contained,
    "matches": _matches,
    "find": _regex,
    "findAll": _regex,
    "split": _split,
    "replace": _replaced,
    "join": _joined,
    "ip": _ip,
    "ip.isCanonical": _parsed_twice,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validated,
    "check": _checked,
    "sets.contains": _product,
    "sets.intersects": _product,
    "sets.equivalent": _twice_product,
    "lists.range": _range,
    "string": _converted,
    "bytes": _converted,
    **dict.fromkeys(("isSorted", "sum", "min", "max", "indexOf", "lastIndexOf", "includes"), _walked),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _traversed),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _parsed),
    **dict.fromkeys(("strings.quote", "format"), _parsed),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("slice", "reverse", "flatten"), _list_call),
    **dict.fromkeys(("sort", "distinct", "@sortByAssociatedKeys"), _square),
}
