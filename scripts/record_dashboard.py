"""Makes the pictures of the dashboard, of a real `levelset up` with the sample agents. Run by `make images`.

Needs Chromium on PATH; says so, and leaves the pictures as they are, where there is none.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from levelset import Client, GroupVersionKind
from levelset.client import load_config
from levelset.objects.yaml_codec import read_yaml
from tests.dashboard.browser import BROWSER, open_browser

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
IMAGE = ROOT / "docs/images/dashboard.png"
OBJECT = ROOT / "docs/images/dashboard-object.png"
AGENTS = GroupVersionKind("omnia.altairalabs.ai", "v1alpha1", "AgentRuntime")


def main() -> None:
    """Starts the systems, applies the sample agents, and takes the picture when they run."""
    if not BROWSER:
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
                asyncio.run(_take(ready["dashboard"], Path(folder)))
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


async def _take(url: str, folder: Path) -> None:
    """Takes the pictures as soon as their pages are complete."""
    kind = quote(f"{AGENTS.api_version}/{AGENTS.kind}", safe="")
    places = {IMAGE: ("#/", "healthy"), OBJECT: (f"#/object/{kind}/default/helper", "because")}
    async with open_browser(folder / "profile") as browser:
        for path, (place, text) in places.items():
            tab = await browser.open(url + place)
            await tab.text(text)
            await tab.wait(f"{path.name!r} !== {IMAGE.name!r} || document.querySelector('.sparkline path') !== null")
            await asyncio.sleep(1)  # the numbers of the kinds come a moment later
            await tab.picture(path)
            await tab.close()


if __name__ == "__main__":
    main()
