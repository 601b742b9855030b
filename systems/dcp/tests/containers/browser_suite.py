"""The log of a Container on a real engine in a real browser: live, coloured, searched, to its end, and downloaded.

No part of the default suite: `make test-browser` runs it with Podman, where that can be had.
"""

from pathlib import Path

import pytest

from levelset import MergePatch, Ref, open_local
from levelset.dashboard import dashboard
from levelset.runtime.manager.system import open_parts
from levelset_dcp.kinds import Container
from levelset_dcp.system import Options, dcp_system
from systems.dcp.tests.containers.real_suite import IMAGE, shell, until
from systems.dcp.tests.engines.real_engine import import_image, open_real_engine
from tests.dashboard.browser import open_browser, require_browser

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOG = "document.querySelector('.pane .log')"
TICKS = f"Number((/tick (\\d+)\\s*$/.exec({LOG}?.textContent || '') || [0, 0])[1])"
SCRIPT = r"""
trap 'echo "the last words"; exit 3' TERM
echo -e '\033[32mready\033[0m to accept connections'
number=0
while true; do number=$((number + 1)); echo "tick $number"; sleep 0.1; done
"""


async def test_the_log_of_a_container_is_live_until_it_has_stopped(tmp_path: Path) -> None:
    require_browser()
    await import_image(IMAGE)
    parts = open_parts(dcp_system(Options(engine=open_real_engine())), dashboard())
    async with parts as whole, open_local(whole) as local, open_browser(tmp_path) as browser:
        database = Ref(Container, "db")
        await local.client.create(shell("db", SCRIPT))
        await until(local.client, database, lambda one: one.state == "Running")
        tab = await browser.open(f"{whole.urls['dashboard']}#/logs")
        await tab.click_text("main tbody a", "db")
        await tab.wait(f"{TICKS} > 2")
        assert await tab.run(f"{LOG}.querySelector('.fg2').textContent") == "ready"
        before = await tab.run(TICKS)
        await tab.wait(f"{TICKS} > {before + 10}")  # it is live
        await tab.run("document.querySelector('.pane input[type=search]').focus()")
        for key in "ACCEPT":
            await tab.press(key)
        await tab.wait(f"{LOG}.querySelector('mark')?.textContent.includes('accept connections')")

        await local.client.patch(database, MergePatch({"spec": {"stop": True}}))
        await until(local.client, database, lambda one: one.state == "Exited")
        await tab.wait(f"{LOG}.textContent.includes('the last words')")
        await tab.wait("document.querySelector('.pane [role=status]').textContent === 'ended'")
        link = "document.querySelector('.pane a[download]').getAttribute('href')"
        text = str(await tab.run(f"fetch({link}).then((one) => one.text())"))
        assert text.startswith("\x1b[32mready\x1b[0m to accept connections\ntick 1\n")
        assert text.endswith("the last words\n")
        # The network of a container that starts changes those of the machine, and a browser then loads again.
        assert [one for one in browser.complaints if "ERR_NETWORK_CHANGED" not in one] == []
