"""Label selectors: which objects are meant, said by their labels.

A selector is a value: it can be a key of a dict, be compared, printed as kubectl writes it and parsed again. It comes
from a text (`LabelSelector.parse("app=web,tier in (a,b)")`), from labels (`LabelSelector.of(app="web")`) or from the
tree inside a Deployment (`LabelSelector.from_tree({"matchLabels": {"app": "web"}})`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from levelset.errors import BadSelector
from levelset.objects.names import quote
from levelset.objects.requirements import TESTS, Operator, Requirement, Test
from levelset.objects.selectortext import parse_requirements
from levelset.objects.trees import Tree, format_path

__all__ = ["LabelSelector"]


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """The objects whose labels meet all of some requirements; without any, all objects.

    Requirements are kept sorted and without repetition: selectors that list the same requirements in another order
    are equal. `a=x` and `a in (x)` select the same objects and are still two values, as they print differently.
    """

    requirements: tuple[Requirement, ...] = ()
    _tests: tuple[tuple[str, tuple[str, ...], Test], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        requirements = tuple(sorted(set(self.requirements), key=_sort_key))
        object.__setattr__(self, "requirements", requirements)
        object.__setattr__(self, "_tests", tuple((one.key, one.values, TESTS[one.operator]) for one in requirements))

    @classmethod
    def parse(cls, text: str) -> "LabelSelector":
        """The selector that a text such as `app=web,!canary` stands for; raises BadSelector with the position."""
        return cls(tuple(parse_requirements(text)))

    @classmethod
    def of(cls, labels: Mapping[str, str] | None = None, /, **more: str) -> "LabelSelector":
        """The objects that carry all of these labels: `LabelSelector.of({"example.com/part": "a"}, app="web")`."""
        wanted = {**(labels or {}), **more}
        return cls(tuple(_equals(key, value, field=format_path([key])) for key, value in wanted.items()))

    @classmethod
    def from_tree(cls, tree: Tree) -> "LabelSelector":
        """The selector in a tree of `matchLabels` and `matchExpressions`; raises BadSelector with the field.

        None selects nothing and an empty tree everything, as in Kubernetes. A member with any other name is refused:
        a misspelt `matchLabel` would otherwise select everything.
        """
        return cls.nothing() if tree is None else cls(tuple(_read_tree(tree)))

    @classmethod
    def everything(cls) -> "LabelSelector":
        """The selector that every object meets."""
        return _EVERYTHING

    @classmethod
    def nothing(cls) -> "LabelSelector":
        """The selector that no object meets.

        It is a contradiction, `nothing,!nothing`, and no special value, so that its text means the same to any server.
        """
        return _NOTHING

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __and__(self, other: "LabelSelector") -> "LabelSelector":
        return LabelSelector(self.requirements + other.requirements)

    @property
    def is_everything(self) -> bool:
        """Whether there is no requirement at all."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is meant; None stands for no labels."""
        if labels is None:
            labels = {}
        for key, values, test in self._tests:  # noqa: SIM110 - all() with a generator takes twice as long
            if not test(labels.get(key), values):
                return False
        return True

    def requires_exact(self, key: str) -> str | None:
        """The one value that this label must have, or None where several would do."""
        for one in self.requirements:
            if one.key == key and one.operator in {Operator.EQUALS, Operator.IN} and len(one.values) == 1:
                return one.values[0]
        return None

    def to_tree(self) -> dict[str, Tree] | None:
        """The tree of `matchLabels` and `matchExpressions` that selects the same objects.

        Raises BadSelector for `>` and `<`, which a tree cannot say.
        """
        return None if self == _NOTHING else _write_tree(self.requirements)


_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_TREE_OPERATORS = {operator: name for name, operator in _OPERATORS.items()} | {
    Operator.EQUALS: "In",  # for a second value of the same key, which matchLabels has no room for
    Operator.NOT_EQUALS: "NotIn",
}
_ORDER = {operator: place for place, operator in enumerate(Operator)}


def _sort_key(one: Requirement) -> tuple[str, int, tuple[str, ...]]:
    return one.key, _ORDER[one.operator], one.values


def _read_tree(tree: Tree) -> Iterable[Requirement]:
    members = _read_members(tree, "", {"matchLabels", "matchExpressions"})
    labels = members.get("matchLabels")
    expressions = members.get("matchExpressions")
    for key, value in _read_members({} if labels is None else labels, "matchLabels").items():
        yield _equals(key, value, field=format_path(["matchLabels", key]))
    for index, expression in enumerate(_read_list(expressions, "matchExpressions")):
        yield _read_expression(expression, format_path(["matchExpressions", index]))


def _read_expression(tree: Tree, at: str) -> Requirement:
    members = _read_members(tree, at, {"key", "operator", "values"})
    key = _read_text(members.get("key"), f"{at}.key")
    name = _read_text(members.get("operator"), f"{at}.operator")
    operator = _OPERATORS.get(name)
    if operator is None:
        raise _bad(f"{at}.operator", f"must be one of {', '.join(_OPERATORS)}, not {quote(name)}")
    listed = _read_list(members.get("values"), f"{at}.values")
    values = tuple(_read_text(value, f"{at}.values[{index}]") for index, value in enumerate(listed))
    try:
        return Requirement(key, operator, values)
    except BadSelector as error:
        raise _bad(f"{at}.{error.field}", str(error)) from None


def _equals(key: str, value: Tree, *, field: str) -> Requirement:
    try:
        return Requirement(_read_text(key, field), Operator.EQUALS, (_read_text(value, field),))
    except BadSelector as error:
        raise error if error.field == field else _bad(field, str(error)) from None


def _read_members(tree: Tree, at: str, known: set[str] | None = None) -> dict[str, Tree]:
    if not isinstance(tree, dict):
        raise _bad(at, f"must be an object, not {quote(tree)}")
    for name in tree:
        if known is not None and name not in known:
            raise _bad(f"{at}.{name}".lstrip("."), f"is unknown here; known are {', '.join(sorted(known))}")
    return tree


def _read_list(tree: Tree, at: str) -> list[Tree]:
    if tree is None:
        return []
    if not isinstance(tree, list):
        raise _bad(at, f"must be a list, not {quote(tree)}")
    return tree


def _read_text(tree: Tree, at: str) -> str:
    if not isinstance(tree, str):
        raise _bad(at, f"must be a text, not {quote(tree)}")
    return tree


def _bad(at: str, problem: str) -> BadSelector:
    place = at if at.isprintable() and len(at) <= 80 else quote(at)  # a path has keys in it, and keys may be anything
    return BadSelector(f"label selector{place and ', '}{place}: {problem}", field=at)


def _write_tree(requirements: Iterable[Requirement]) -> dict[str, Tree]:
    labels: dict[str, Tree] = {}
    expressions: list[Tree] = []
    for one in requirements:
        if one.operator is Operator.EQUALS and one.key not in labels:
            labels[one.key] = one.values[0]
        elif (name := _TREE_OPERATORS.get(one.operator)) is None:
            raise BadSelector(f"{one}: a tree has no operator {one.operator}; send the selector as a text instead")
        else:
            expression: dict[str, Tree] = {"key": one.key, "operator": name}
            if one.values:
                expression["values"] = list(one.values)
            expressions.append(expression)
    members: dict[str, Tree] = {"matchLabels": labels, "matchExpressions": expressions}
    return {name: member for name, member in members.items() if member}


_EVERYTHING = LabelSelector()
_NOTHING = LabelSelector((Requirement("nothing", Operator.EXISTS), Requirement("nothing", Operator.DOES_NOT_EXIST)))
