"""Templates in arguments and variables: `{{ portFor "database" }}`, `{{ .Name }}`, `{{ index .Annotations "team" }}`.

A text without `{{`, and one that cannot be understood, is what it is. What cannot be known yet, such as the port of a
Service that is not there, is `NotYet`: the workload is started once it can.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from levelset.errors import LevelsetError

__all__ = ["Lookup", "NotYet", "Scene", "evaluate", "is_template"]

_ACTION: Final = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)
_WORD: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|`([^`]*)`|([^\s"`]+))')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}

Lookup = Callable[[str, str], object]
"""Finds what a function of the templates is asked for, by the namespace and the name of a Service; may raise NotYet."""


class NotYet(LevelsetError):
    """A template names something that is not there yet; asked again later, it may be."""


class _Meaningless(Exception):
    """A template that cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a template may speak of: the object, as JSON has it, and the functions."""

    name: str
    tree: Mapping[str, Any] = field(default_factory=dict[str, Any])
    functions: Mapping[str, Lookup] = field(default_factory=dict[str, Lookup])


def is_template(text: str) -> bool:
    """Whether a text holds something to be evaluated."""
    return "{{" in text


def evaluate(text: str, scene: Scene) -> str:
    """The text with all its templates evaluated; the text itself if one of them makes no sense. May raise NotYet."""
    if "{{" not in text:
        return text
    pieces: list[str] = []
    end, trims = 0, False
    try:
        for found in _ACTION.finditer(text):
            before = text[end : found.start()]
            before = before.lstrip() if trims else before
            pieces += [before.rstrip() if found[1] else before, _value(found[2], scene)]
            end, trims = found.end(), bool(found[3])
    except _Meaningless:
        return text
    rest = text[end:]
    if "{{" in rest:
        return text
    return "".join([*pieces, rest.lstrip() if trims else rest])


def _value(action: str, scene: Scene) -> str:
    if action.startswith("/*") and action.endswith("*/"):
        return ""
    words = _words(action)
    head, arguments = words[0], [_argument(one, scene) for one in words[1:]]
    if head in scene.functions:
        return _shown(_call(scene.functions[head], arguments))
    if head == "index" and len(arguments) >= 2:
        return _shown(_index(arguments[0], arguments[1:]))
    if len(words) == 1:
        return _shown(_argument(head, scene))
    raise _Meaningless(action)


def _call(function: Lookup, arguments: list[object]) -> object:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        raise _Meaningless("a function takes the name of a Service")
    namespace, _, name = arguments[0].rpartition("/")
    if not name:
        raise _Meaningless("a Service has a name")
    return function(namespace, name)


def _words(action: str) -> list[str]:
    """The words of an action; texts keep their quotation mark, so that they can be told from paths."""
    found: list[str] = []
    position = 0
    while position < len(action):
        match = _WORD.match(action, position)
        if match is None:
            raise _Meaningless(action)
        position = match.end()
        quoted, raw, bare = match.groups()
        found.append(f'"{_unescape(quoted)}' if quoted is not None else f'"{raw}' if raw is not None else bare)
    if not found:
        raise _Meaningless(action)
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text)


def _argument(word: str, scene: Scene) -> object:
    if word.startswith('"'):
        return word[1:]
    if word.startswith("."):
        return _path(word, scene)
    if re.fullmatch(r"-?[0-9]+", word):
        return int(word)
    raise _Meaningless(word)


def _path(word: str, scene: Scene) -> object:
    """A value of the object: `.Name`, and others by the names that they have in Go, such as `.Spec.Args`."""
    if word == ".Name":
        return scene.name
    steps = [one for one in word.split(".") if one]
    metadata: Mapping[str, Any] = scene.tree.get("metadata") or {}
    value: Any = scene.tree
    for number, step in enumerate(steps):
        if not isinstance(value, Mapping):
            raise _Meaningless(word)
        known = cast("Mapping[str, Any]", value)
        name = step[:1].lower() + step[1:]
        if number == 0 and name not in known and name not in ("spec", "status"):
            known = metadata  # Go's objects have their metadata embedded
        if name not in known:
            if name in ("annotations", "labels"):
                return {}
            raise _Meaningless(word)
        value = known[name]
    return value


def _index(value: object, keys: list[object]) -> object:
    for key in keys:
        if isinstance(value, Mapping):
            known: Mapping[Any, Any] = cast("Any", value)
            value = known.get(key, "")
        elif isinstance(value, list | tuple) and isinstance(key, int):
            items = cast("list[Any]", value)
            if not 0 <= key < len(items):
                raise _Meaningless("there are not so many")
            value = items[key]
        else:
            raise _Meaningless("only maps and lists have members")
    return value


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise _Meaningless("this is no text")
