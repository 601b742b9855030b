"""Makes docs/images/dashboard.png: the dashboard of a real `levelset up` with the sample agents. Run by `make images`.

Needs Chromium on PATH; says so, and leaves the picture as it is, where there is none.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from levelset import Client, GroupVersionKind
from levelset.client import load_config
from levelset.objects.yaml_codec import read_yaml

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
IMAGE = ROOT / "docs/images/dashboard.png"
AGENTS = GroupVersionKind("omnia.altairalabs.ai", "v1alpha1", "AgentRuntime")


def main() -> None:
    """Starts the systems, applies the sample agents, and takes the picture when they run."""
    browser = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if browser is None:
        sys.stderr.write("no picture of the dashboard: Chromium is not on PATH; install it (Debian: chromium)\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        command = [str(Path(sys.executable).parent / "levelset"), "up", "-o", "json", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as up:
            try:
                assert up.stdout is not None
                ready = json.loads(up.stdout.readline())
                asyncio.run(_fill(kubeconfig))
                _take(browser, ready["dashboard"], Path(folder))
            finally:
                up.terminate()


async def _fill(kubeconfig: Path) -> None:
    async with await Client.connect(load_config(kubeconfig)) as client:
        for path in sorted((ROOT / "examples/omnia").glob("*.yaml")):
            for tree in read_yaml(path.read_bytes()):
                await client.apply(tree, force=True)
        async with asyncio.timeout(60):
            while not all(map(_is_running, await client.list(AGENTS))):  # noqa: ASYNC110 -- there is no event to wait for
                await asyncio.sleep(0.5)


def _is_running(agent: Any) -> bool:
    return bool(agent.tree.get("status", {}).get("phase") == "Running")


def _take(browser: str, url: str, folder: Path) -> None:
    picture = folder / "dashboard.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,800"]
    command = [browser, *options, "--timeout=5000", f"--screenshot={picture}", url]
    subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=folder)
    IMAGE.write_bytes(picture.read_bytes())


if __name__ == "__main__":
    main()
