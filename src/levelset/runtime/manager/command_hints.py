"""Commands to type next, written so that they work in the shell of the user: with the kubeconfig and with paths."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["HintSpelling", "cluster_hints", "install_command", "script_path"]


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


def cluster_hints(
    kinds: Sequence[str], kubeconfig: str | None, context: str | None, *, path: str | None = None
) -> list[str]:
    """What to type beside a program on a cluster: its objects with kubectl, and its state, where these commands are."""
    given = {"--kubeconfig": kubeconfig, "--context": context}
    options = "".join(f" {name} {shlex.quote(value)}" for name, value in given.items() if value)
    has_kubectl = shutil.which("kubectl", path=path) is not None
    hints = [f"kubectl{options} get {kind}" for kind in kinds if has_kubectl]
    if Path(sys.executable).with_name("levelset").exists():
        hints.append(f"{script_path('levelset', path=path)} status")
    return hints


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
