"""Macros that walk over a range, written as loops; each round takes its steps from the budget."""

from levelset.cel.generating import Generator, boolean, emitter
from levelset.cel.tree import Fold, Node

__all__ = ["fold"]


@emitter(Fold)
def fold(g: Generator, node: Fold) -> str:
    """The name of the variable that holds the result of a macro."""
    over = _range(g, node)
    names = {name: g.name("v") for name in node.names}
    found = g.stored(_STARTS[node.macro])
    error = g.stored("None", into=g.name("e")) if node.macro in ("all", "exists") else ""
    weight = g.weight
    g.weight = 1
    g.loops += 1
    with g.block(f"for {', '.join(names.values())} in {over}:"), g.bound(names):
        place = g.mark()
        if node.when is not None:
            g.line(f"if not {boolean(node.when)(g.emit(node.when))}: continue")
        _BODIES[node.macro](g, node, found, error)
        g.charge_at(place, g.weight)
    g.loops -= 1
    g.weight = weight
    g.risky = True
    return _finish(g, node, found, error)


_STARTS = {
    "all": "True",
    "exists": "False",
    "exists_one": "0",
    "map": "[]",
    "filter": "[]",
    "transformMap": "{}",
    "transformMapEntry": "{}",
}


def _range(g: Generator, node: Fold) -> str:
    over, kind = g.emit(node.over), node.over.type.kind
    if len(node.names) == 1:
        return over if kind in ("list", "map") else f"elements({over})"
    if kind == "list":
        return f"enumerate({over})"
    return f"{over}.items()" if kind == "map" else f"pairs({over})"


def _decide(g: Generator, node: Fold, found: str, error: str) -> None:
    """One round of all or exists: a failure is kept, in case a later round decides."""
    value = g.name()
    g.attempt(node.body, value, [f"{error} = {error} or x", "continue"])
    with g.block(f"if not {value}:" if node.macro == "all" else f"if {value}:"):
        g.line(f"{found} = {node.macro == 'exists'}")
        g.line("break")


def _count(g: Generator, node: Fold, found: str, _: str) -> None:
    g.line(f"if {_test(g, node.body)}: {found} += 1")


def _keep(g: Generator, node: Fold, found: str, _: str) -> None:
    test = _test(g, node.body)
    g.line(f"if {test}: {found}.append({g.variable(node.names[0])})")


def _append(g: Generator, node: Fold, found: str, _: str) -> None:
    g.line(f"{found}.append({g.emit(node.body)})")


def _put(g: Generator, node: Fold, found: str, _: str) -> None:
    g.line(f"{found}[{g.variable(node.names[0])}] = {g.emit(node.body)}")


def _merge(g: Generator, node: Fold, found: str, _: str) -> None:
    g.line(f"entries_into({found}, {g.emit(node.body)})")


def _test(g: Generator, node: Node) -> str:
    return boolean(node)(g.emit(node))


_BODIES = {
    "all": _decide,
    "exists": _decide,
    "exists_one": _count,
    "map": _append,
    "filter": _keep,
    "transformMap": _put,
    "transformMapEntry": _merge,
}


def _finish(g: Generator, node: Fold, found: str, error: str) -> str:
    if error:
        g.line(f"if {error} is not None and {'' if node.macro == 'all' else 'not '}{found}: raise {error}")
    return f"({found} == 1)" if node.macro == "exists_one" else found
