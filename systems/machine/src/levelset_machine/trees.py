"""Works out who belongs to a run: its process, all that it has started, and what has run away from it.

Only the standard library's smallest parts are used here, because the guard process loads this file too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from levelset_machine.entries import Entry

__all__ = ["families", "living"]


def families(
    table: Sequence[Entry], roots: Mapping[int, int], is_marked: Callable[[str], bool] | None = None
) -> list[Entry]:
    """The processes that belong to the roots, which are given as numbers with their starts.

    These are the roots, the members of the sessions they lead, those whose marker says so, and the children of all of
    them. A number that another process has by now is nobody's, and neither is a session that is named by it.
    """
    true_roots = {entry.pid for entry in table if roots.get(entry.pid) == entry.started}
    found = {
        entry.pid: entry
        for entry in table
        if entry.pid in true_roots
        or entry.session in true_roots
        or (is_marked is not None and entry.marker != "" and is_marked(entry.marker))
    }
    return list(_with_children(table, found).values())


def living(entries: Iterable[Entry]) -> set[tuple[int, int]]:
    """Those that can still do something, each as its number and its start."""
    return {(entry.pid, entry.started) for entry in entries if entry.is_alive}


def _with_children(table: Sequence[Entry], found: dict[int, Entry]) -> dict[int, Entry]:
    children = dict[int, list[Entry]]()
    for entry in table:
        children.setdefault(entry.parent, []).append(entry)
    new = list(found)
    while new:
        for child in children.get(new.pop(), ()):
            if child.pid not in found:
                found[child.pid] = child
                new.append(child.pid)
    return found
