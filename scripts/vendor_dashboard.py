"""Copies the libraries of the dashboard from the npm packages of packaging/dashboard. Run by `make dashboard`.

The packages are those of the lock file, verified by its hashes; no script of theirs is run. Their modules are copied as
they were published, but for the names by which they import each other and for the names of maps that are not copied.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
LOCKED = ROOT / "packaging/dashboard"
VENDOR = ROOT / "src/levelset/dashboard/assets/vendor"
MODULES = {
    "preact.js": "preact/dist/preact.mjs",
    "hooks.js": "preact/hooks/dist/hooks.mjs",
    "htm.js": "htm/dist/htm.module.js",
}
LICENSES = {"preact.LICENSE.txt": "preact/LICENSE", "htm.LICENSE.txt": "htm/LICENSE"}


def main() -> None:
    """Installs the packages into a temporary folder, copies their modules, and writes their checksums."""
    npm = shutil.which("npm")
    if npm is None:
        sys.stderr.write("the libraries of the dashboard stay as they are: npm is not on PATH; install Node.js\n")
        sys.exit(1)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(LOCKED / name, folder)
        subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)
        copy_modules(Path(folder, "node_modules"))


def copy_modules(packages: Path) -> None:
    """Copies modules and licenses from installed packages."""
    VENDOR.mkdir(parents=True, exist_ok=True)
    for name, source in MODULES.items():
        text = (packages / source).read_text(encoding="utf-8")
        text = re.sub(r'from"preact"', 'from"./preact.js"', text)
        text = re.sub(r"\n?//# sourceMappingURL=.*\n?", "\n", text)
        (VENDOR / name).write_text(text, encoding="utf-8")
    for name, source in LICENSES.items():
        shutil.copy(packages / source, VENDOR / name)
    names = sorted([*MODULES, *LICENSES])
    lines = [f"{hashlib.sha256((VENDOR / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (VENDOR / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
