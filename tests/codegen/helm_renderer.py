"""Renders generated Helm charts with the small part of Helm's language that they use.

Supported are `.Values` or `.Release` in place of a string or a number, `toYaml VALUE | nindent N`, and `if VALUE`
around lines. Anything else is an error: other template features need a test with Helm itself.
"""

import re
from collections.abc import Mapping
from typing import Any

from levelset.objects.yaml_codec import read_yaml, write_yaml

__all__ = ["render_chart"]

WHOLE = re.compile(r"\{\{- toYaml \.(\S+) \| nindent (\d+) \}\}")
GUARD = re.compile(r"\{\{- if \.(\S+) \}\}\n(.*?)\{\{- end \}\}\n", re.DOTALL)
VALUE = re.compile(r"\{\{ \.(\S+) \}\}")


def render_chart(files: Mapping[str, str], *, namespace: str, **changes: Any) -> list[dict[str, Any]]:
    """The objects of a chart, as `helm template` prints them, with changed values (`a__b=1`)."""
    (values,) = read_yaml(files["values.yaml"])
    for name, value in changes.items():
        *parents, last = name.split("__")
        parent = values
        for one in parents:
            parent = parent[one]
        parent[last] = value
    known = {"Values": values, "Release": {"Namespace": namespace}}
    texts = [
        _render(text, known)
        for path, text in sorted(files.items())
        if path.startswith("templates/") and path.endswith(".yaml")
    ]
    return [tree for text in texts for tree in read_yaml(text)]


def _render(text: str, known: Mapping[str, Any]) -> str:
    text = GUARD.sub(lambda found: found[2] if _find(known, found[1]) else "", text)
    text = WHOLE.sub(lambda found: _indented(_find(known, found[1]), int(found[2])), text)
    text = VALUE.sub(lambda found: str(_find(known, found[1])), text)
    assert "{{" not in text, text
    return text


def _find(known: Mapping[str, Any], path: str) -> Any:
    found: Any = known
    for name in path.split("."):
        found = found[name]
    return found


def _indented(value: Any, width: int) -> str:
    lines = write_yaml([value]).rstrip("\n").split("\n")
    return "".join(f"\n{' ' * width}{line}" for line in lines)
