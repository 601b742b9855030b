"""What some rules allow: pure sets, made once for a caller and a place, and asked in microseconds."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from levelset.apiserver.attempts import Attempt
from levelset.apiserver.members import items
from levelset.apiserver.world import Tree

__all__ = ["NOTHING", "Grant", "Grants", "Rule", "read_rule"]

_MOST_KNOWN: Final = 1024


class Rule(msgspec.Struct, frozen=True):
    """One rule of a role: these verbs on these resources of these groups, or on these paths."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    """The only objects that are meant; all if it is empty."""
    paths: tuple[str, ...]
    tree: Tree
    """The rule as it is written in its role."""

    def covers(self, verb: str, group: str, resource: str, subresource: str) -> bool:
        """Whether it is about this verb and resource, whatever the name."""
        if not (verb in self.verbs or "*" in self.verbs) or not (group in self.groups or "*" in self.groups):
            return False
        resources = self.resources
        if "*" in resources:
            return True
        if not subresource:
            return resource in resources
        return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources

    def covers_path(self, verb: str, path: str) -> bool:
        """Whether it is about this verb and path; a star at the end of a path stands for whatever follows."""
        if not (verb in self.verbs or "*" in self.verbs):
            return False
        return any(one == path or (one.endswith("*") and path.startswith(one.rstrip("*"))) for one in self.paths)


class Grant(NamedTuple):
    """A rule, and the binding that gives it to somebody."""

    rule: Rule
    source: str


class Grants:
    """All that somebody may do in one namespace, or in the whole cluster.

    What the rules say about a verb and a resource is worked out once and kept: True, False, or the names it is for.
    """

    __slots__ = ("_known", "grants", "problems")

    def __init__(self, grants: Sequence[Grant] = (), problems: Sequence[str] = ()) -> None:
        self.grants = tuple(grants)
        self.problems = tuple(problems)
        """What was bound and could not be found, in words."""
        self._known: dict[tuple[str, str, str, str], bool | frozenset[str]] = {}

    def allows(self, attempt: Attempt) -> bool:
        """Whether any rule allows it."""
        if not attempt.resource:
            return any(one.rule.covers_path(attempt.verb, attempt.path) for one in self.grants)
        found = self.names(attempt.verb, attempt.group, attempt.resource, attempt.subresource)
        return found if isinstance(found, bool) else attempt.name in found

    def names(self, verb: str, group: str, resource: str, subresource: str = "") -> bool | frozenset[str]:
        """Which objects the verb may be used on: all (True), none (False), or these."""
        key = (verb, group, resource, subresource)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:  # somebody asks about made-up resources
                self._known.clear()
            found = self._known[key] = self._work_out(key)
        return found

    def source(self, attempt: Attempt) -> str:
        """The binding that allows it; an empty text if none does."""
        for rule, source in self.grants:
            if not attempt.resource:
                if rule.covers_path(attempt.verb, attempt.path):
                    return source
            elif rule.covers(attempt.verb, attempt.group, attempt.resource, attempt.subresource) and (
                not rule.names or attempt.name in rule.names
            ):
                return source
        return ""

    def _work_out(self, key: tuple[str, str, str, str]) -> bool | frozenset[str]:
        names: set[str] = set()
        for rule, _ in self.grants:
            if rule.covers(*key):
                if not rule.names:
                    return True
                names |= rule.names
        return frozenset(names) if names else False


NOTHING: Final = Grants()


def read_rule(tree: Any) -> Rule:
    """The rule in a role, which was checked when it was stored."""
    return Rule(
        _texts(items(tree, "verbs")),
        _texts(items(tree, "apiGroups")),
        _texts(items(tree, "resources")),
        _texts(items(tree, "resourceNames")),
        tuple(one for one in items(tree, "nonResourceURLs") if isinstance(one, str)),
        tree,
    )


def _texts(found: Iterable[Any]) -> frozenset[str]:
    return frozenset(one for one in found if isinstance(one, str))
