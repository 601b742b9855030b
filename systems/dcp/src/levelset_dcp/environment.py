"""The variables that a program gets: what the manager has, what files say, what the spec says, and templates in all."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from levelset_dcp.kinds import EnvVar
from levelset_dcp.templates import Scene, evaluate

__all__ = ["Effective", "effective_of", "read_env_file"]

_HIDDEN: Final = ("DEBUG_SESSION", "DCP_")
_NAME: Final = re.compile(r"^(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)$", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


@dataclass(frozen=True, slots=True)
class Effective:
    """What a program is started with; `named` are the variables that somebody wrote down for it, and may be shown."""

    env: Mapping[str, str]
    named: Mapping[str, str]
    args: tuple[str, ...]

    @property
    def shown(self) -> tuple[EnvVar, ...]:
        """The named variables, as a status has them."""
        return tuple(EnvVar(name=name, value=value) for name, value in sorted(self.named.items()))


def effective_of(
    args: Sequence[str],
    env: Iterable[EnvVar],
    *,
    scene: Scene,
    ambient: Mapping[str, str] | None = None,
    files: Iterable[Mapping[str, str]] = (),
) -> Effective:
    """What a program gets; later ones win: `ambient`, files, the spec. Raises NotYet while a template has to wait."""
    named: dict[str, str] = {}
    for one in files:
        named |= one
    named |= {one.name: one.value for one in env}
    values = {**(ambient or {}), **named}
    evaluated = {name: evaluate(value, scene) for name, value in values.items() if not name.startswith(_HIDDEN)}
    own = {name: evaluated[name] for name in named if name in evaluated}
    return Effective(evaluated, own, tuple(evaluate(one, scene) for one in args))


def read_env_file(text: str) -> dict[str, str]:
    """The variables of a .env file: comments, `export`, and quotes as shells have them; other lines are passed over."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        match = _NAME.match(line.strip())
        if match is None or line.lstrip().startswith("#"):
            continue
        name, value = match[1], match[2]
        quote = value[:1]
        if quote in ("'", '"'):
            while not _is_closed(value, quote) and (more := next(lines, None)) is not None:
                value += "\n" + more
            found[name] = _unquote(value, quote)
        else:
            found[name] = re.split(r"\s+#", value, maxsplit=1)[0].strip()
    return found


def _is_closed(value: str, quote: str) -> bool:
    return _end(value, quote) is not None


def _end(value: str, quote: str) -> int | None:
    position = 1
    while position < len(value):
        if value[position] == "\\" and quote == '"':
            position += 1
        elif value[position] == quote:
            return position
        position += 1
    return None


def _unquote(value: str, quote: str) -> str:
    end = _end(value, quote)
    inside = value[1:end] if end is not None else value[1:]
    if quote == "'":
        return inside
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), inside, flags=re.DOTALL)
