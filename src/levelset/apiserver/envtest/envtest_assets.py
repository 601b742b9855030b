"""The folder for KUBEBUILDER_ASSETS: small shell programs `kube-apiserver` and `etcd` that start those of this package.

The texts are pure; `write_assets` writes them. A shell answers `--help`, which envtest calls before every start of each
program, in a few milliseconds.
"""

import os
import shlex
import shutil
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from levelset.apiserver.envtest.etcd_stand_in import HELP
from levelset.apiserver.envtest.kube_apiserver import CONTROLLERS
from levelset.apiserver.envtest.kube_apiserver_flags import help_text
from levelset.errors import ConfigError

__all__ = ["api_server_script", "default_folder", "etcd_script", "write_assets"]

_ETCD: Final = Path(__file__).with_name("etcd_stand_in.py")
_START: Final = "from levelset.apiserver.envtest.kube_apiserver import main; raise SystemExit(main())"


def api_server_script(python: str, *, controllers: bool = False) -> str:
    """The program `kube-apiserver`, run by this interpreter."""
    # -P: the folder of the test must not be searched for modules.
    words = [python, "-P", "-c", _START, *([CONTROLLERS] if controllers else [])]
    return _script(words, help_text())


def etcd_script(python: str) -> str:
    """The program `etcd`, run by this interpreter."""
    return _script([python, "-I", "-S", str(_ETCD)], HELP)


def default_folder(python: str, *, controllers: bool = False) -> Path:
    """Where the programs of this interpreter are by default: in the user's cache, a folder for each environment."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = sha256(python.encode()).hexdigest()[:12]
    return Path(cache, "levelset", "envtest", f"{digest}-controllers" if controllers else digest)


def write_assets(folder: Path, *, controllers: bool = False) -> None:
    """Writes both programs, and a link to kubectl if there is one on PATH; raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "kube-apiserver", api_server_script(sys.executable, controllers=controllers))
        _write(folder / "etcd", etcd_script(sys.executable))
        _link(folder / "kubectl", shutil.which("kubectl"))
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror or error}; choose another --folder") from error


def _script(words: list[str], text: str) -> str:
    return f"""#!/bin/sh
# Written by `levelset envtest`, which writes it again.
for word; do
  if [ "$word" = --help ]; then
    cat <<'HELP'
{text}HELP
    exit 0
  fi
done
exec {shlex.join(words)} "$@"
"""


def _write(path: Path, text: str) -> None:
    """Replaces the program at once: another suite may be starting it now."""
    if path.is_file() and path.read_text("utf-8") == text:
        return
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text, "utf-8")
    new.chmod(0o755)
    new.replace(path)


def _link(path: Path, target: str | None) -> None:
    if target is not None and not path.exists():
        path.unlink(missing_ok=True)
        path.symlink_to(target)
