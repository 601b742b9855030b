"""The effective environment of a workload: inherited variables, env files and spec, with templates evaluated."""

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from levelset_dcp.kinds import EnvVar
from levelset_dcp.workloads.templates import TemplateContext, evaluate

__all__ = ["Effective", "effective_of", "read_env_file", "read_env_files"]

_HIDDEN: Final = ("DEBUG_SESSION", "DCP_")
_NAME: Final = re.compile(r"^(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)$", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}
log = logging.getLogger(__name__)


class Effective(Struct, frozen=True):
    """The environment and arguments of a workload; `explicit` are the variables of spec and env files."""

    env: Mapping[str, str]
    explicit: Mapping[str, str]
    args: tuple[str, ...]

    @property
    def shown(self) -> tuple[EnvVar, ...]:
        """The explicit variables, in the form of the status; inherited ones may be secret and are not shown."""
        return tuple(EnvVar(name=name, value=value) for name, value in sorted(self.explicit.items()))


def effective_of(
    args: Sequence[str],
    env: Iterable[EnvVar],
    *,
    context: TemplateContext,
    ambient: Mapping[str, str] | None = None,
    files: Iterable[Mapping[str, str]] = (),
) -> Effective:
    """Evaluates variables and arguments: spec before files before `ambient`. Raises DependencyNotReady."""
    explicit: dict[str, str] = {}
    for one in files:
        explicit |= one
    explicit |= {one.name: one.value for one in env}
    values = {**(ambient or {}), **explicit}
    evaluated = {name: evaluate(value, context) for name, value in values.items() if not name.startswith(_HIDDEN)}
    own = {name: evaluated[name] for name in explicit if name in evaluated}
    return Effective(evaluated, own, tuple(evaluate(one, context) for one in args))


def read_env_file(text: str) -> dict[str, str]:
    """Parses a .env file: comments, `export`, and shell quotes; other lines are ignored."""
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


async def read_env_files(name: str, paths: tuple[str, ...]) -> list[Mapping[str, str]]:
    """The variables of all files; of none if one of them cannot be read."""
    if not paths:
        return []
    try:
        texts = await asyncio.to_thread(lambda: [Path(one).read_text(encoding="utf-8") for one in paths])
    except (OSError, ValueError) as error:
        log.warning("%s: cannot read env files: %s", name, error)
        return []
    return [read_env_file(one) for one in texts]
