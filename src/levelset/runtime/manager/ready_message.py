"""What `run` prints at the start: addresses, watched kinds, disabled features, and what to type next.

```text
dashboard   http://127.0.0.1:38423/?token=...
kubeconfig  levelset.kubeconfig
watches     24 kinds: Website, Deployment, Secret, ReplicaSet, ...
disabled    containers: start Docker or Podman, then restart
ready in 845 ms. Type next, in another terminal:
  kubectl --kubeconfig levelset.kubeconfig apply -f examples/omnia/
  .venv/bin/levelset status
```
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["DISABLED", "Facts", "HintSpelling", "fact_lines", "install_command", "ready_lines", "script_path"]

Facts = Mapping[str, str | Sequence[str] | Mapping[str, str]]
"""What is printed, by the key that it has in JSON."""

DISABLED: Final = "disabled"
_FIRST: Final = ("dashboard", "kubeconfig", "url")
_KINDS: Final = ("watches", "serves", "conversions")
_MAX_LISTED: Final = 5
_MAX_HINTS: Final = 3


def fact_lines(facts: Facts) -> Iterator[str]:
    """The lines of all facts: addresses first, the disabled features last; empty facts are left out."""
    first = [name for name in _FIRST if name in facts]
    for name in (*first, *sorted(facts.keys() - set(first), key=lambda one: _rank(one, facts[one]))):
        if value := facts[name]:
            yield f"{name:<11} {_text(name, value)}"


def _rank(name: str, value: object) -> tuple[bool, bool, str]:
    return name == DISABLED, not isinstance(value, str), name


def _text(name: str, value: str | Sequence[str] | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "; ".join(f"{one}: {how}" for one, how in value.items())
    if len(value) <= _MAX_LISTED:
        return ", ".join(value)
    if name not in _KINDS:
        return str(len(value))
    # `Website (example.dev/v1)` and `websites.example.dev` by the name alone.
    names = list(dict.fromkeys(one.split(" ")[0].split(".")[0] for one in value))
    return f"{len(value)} kinds: {', '.join(names[: _MAX_LISTED - 1])}, ..."


def ready_lines(milliseconds: float, hints: Sequence[str]) -> Iterator[str]:
    """The line that says it is ready, and at most three commands to type next."""
    yield f"ready in {milliseconds:.0f} ms{'. Type next, in another terminal:' if hints else ''}"
    for hint in hints[:_MAX_HINTS]:
        yield f"  {hint}"


class HintSpelling:
    """Writes hints so that they work in the shell of the user: with the kubeconfig, and with the paths of commands.

    `path` is the search path of that shell. Without kubectl on it, `kubectl apply` becomes `levelset install`, and
    the other hints with kubectl are left out, unless they are all there is.
    """

    def __init__(self, kubeconfig: Path, *, path: str | None = None) -> None:
        self._kubeconfig = shlex.quote(str(kubeconfig))
        self._path = path
        self.has_kubectl = shutil.which("kubectl", path=path) is not None

    def spell(self, hints: Sequence[str]) -> list[str]:
        """The hints that can be typed, in their order."""
        found = [shown for hint in hints if (shown := self._spell(hint))]
        return found or [self._with_kubeconfig(hint) for hint in hints]

    def _spell(self, hint: str) -> str | None:
        program, _, rest = hint.partition(" ")
        if program != "kubectl":
            return f"{script_path(program, path=self._path)} {rest}".rstrip()
        if self.has_kubectl:
            return self._with_kubeconfig(hint)
        if rest.startswith("apply -f "):
            command = script_path("levelset", path=self._path)
            return f"{command} install {rest.removeprefix('apply ')} --kubeconfig {self._kubeconfig}"
        return None

    def _with_kubeconfig(self, hint: str) -> str:
        return hint.replace("kubectl ", f"kubectl --kubeconfig {self._kubeconfig} ", 1)


def script_path(name: str, *, path: str | None = None) -> str:
    """How to call a script of this Python's environment: by its name if that finds it, otherwise by its path."""
    script = Path(sys.executable).parent / name
    found = shutil.which(name, path=path)
    if not script.exists() or (found is not None and Path(found).absolute() == script):
        return name
    here = Path.cwd()
    # `.venv/bin/levelset` instead of the absolute path, where that is shorter.
    return shlex.quote(os.path.relpath(script, here) if script.is_relative_to(here) else str(script))


def install_command(package: str) -> str:
    """The command that adds a package to the environment of this Python."""
    python = script_path(Path(sys.executable).name)
    if any(Path(one, "pip").is_dir() for one in sys.path):
        return f"{python} -m pip install {package}"
    # An environment of uv or of `make run` has no pip.
    if shutil.which("uv"):
        return f"uv pip install --python {python} {package}"
    return f"python3 -m pip --python {python} install {package}"
