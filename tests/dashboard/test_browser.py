"""Attacks on the dashboard in a real browser: scripts in the content of objects, framing, other hosts, foreign writes.

Needs Chromium on PATH; `make test-browser` runs it.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from levelset import Context, Controller
from levelset.apiserver import ApiServer
from levelset.apiserver.verbs.subresources.pod_logs import LogRequest
from levelset.client import Client, MergePatch
from levelset.dashboard import AccessPolicy, dashboard
from levelset.http import Request, Response, Server
from levelset.kinds.core_v1 import ConfigMap
from levelset.objects import Unstructured
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.manager import Manager
from levelset.runtime.manager.system import open_parts
from tests.dashboard.browser import open_browser, require_browser
from tests.dashboard.fixtures import TOKEN, open_client, tree
from tests.dashboard.test_app_serving import whole
from tests.dashboard.test_log_streams import with_logs

pytestmark = pytest.mark.browser
NAME = "<img src=x onerror=document.title='pwned'>"
ATTACK = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"


@asynccontextmanager
async def hostile_page(html: str) -> AsyncGenerator[str, None]:
    """A page of another site, under the name evil.test."""

    async def handle(_: Request) -> Response:
        return Response(200, (("Content-Type", "text/html"),), html.encode())

    async with Server(handle) as server:
        yield f"http://evil.test:{urlsplit(server.url).port}/"


def root_of(url: str) -> str:
    """The path of the dashboard with this printed URL, as an attacker would know it who has seen the address bar."""
    return AccessPolicy(urlsplit(url).query.removeprefix("token=")).root


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[str, Client], None]:
    require_browser()
    async with open_client() as client, whole(client) as url:
        yield url, client


async def test_texts_of_objects_run_no_script(tmp_path: Path) -> None:
    async with served() as (url, client), open_browser(tmp_path) as browser:
        labels = {"app": "javascript_alert"}
        made = tree("example.dev/v1", "Website", "blog", metadata={"annotations": {"note": ATTACK}, "labels": labels})
        await client.create(made)
        regarding = {"apiVersion": "example.dev/v1", "kind": "Website", "name": "blog", "namespace": "default"}
        event = tree("v1", "Event", "blog.1", involvedObject=regarding, reason=ATTACK, message=ATTACK, type="Warning")
        await client.create(event)
        kind = quote("example.dev/v1/Website", safe="")
        for place in ("#/events", f"#/object/{kind}/default/blog"):
            page = await browser.show(url + place, "&lt;img src=x")
            assert is_harmless(page), place


def is_harmless(page: str) -> bool:
    """Whether neither an element nor a title of the attack is in the page."""
    return "<img" not in page and "<script>" not in page and "<title>pwned" not in page


async def test_names_that_a_server_allows_run_no_script(tmp_path: Path) -> None:
    async with served() as (url, client), open_browser(tmp_path) as browser:
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": NAME}}
        await client.create(Unstructured({**role, "rules": []}))
        owner = {"apiVersion": "example.dev/v1", "kind": NAME, "name": NAME, "uid": "u1"}
        await client.create(tree("v1", "ConfigMap", "owned", metadata={"ownerReferences": [owner]}))
        regarding = {"apiVersion": NAME, "kind": NAME, "name": NAME, "namespace": "default"}
        await client.create(tree("v1", "Event", "e.1", involvedObject=regarding, reason=NAME, message=NAME, type=NAME))
        roles = quote("rbac.authorization.k8s.io/v1/ClusterRole", safe="")
        config_maps = quote("v1/ConfigMap", safe="")
        name = quote(NAME, safe="")
        shown = [f"#/kind/{roles}", f"#/object/{roles}//{name}", f"#/search?q={quote('<img')}"]
        shown += [f"#/object/{config_maps}/default/owned", "#/events", "#/"]
        for place in shown:
            assert is_harmless(await browser.show(url + place, "&lt;img src=x")), place
        for place in (f"#/kind/{name}", f"#/object/{name}/{name}/{name}"):  # what a link may contain
            assert is_harmless(await browser.show(url + place, "error-box")), place


async def test_errors_conditions_and_lines_of_logs_in_them_run_no_script(tmp_path: Path) -> None:
    async def reconcile(one: ConfigMap, ctx: Context) -> None:
        raise RuntimeError(f"the program ended with: {ATTACK}")  # the last line of its log

    require_browser()
    async with open_client() as client, open_parts(dashboard()) as parts, Manager(client) as manager:
        assert parts.setup is not None
        parts.setup(manager)
        manager.add(Controller(ConfigMap, reconcile, name="hostile", namespace="default"))
        await client.create(tree("v1", "ConfigMap", "broken"))
        condition = dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), ATTACK)
        website = tree("example.dev/v1", "Website", "blog")
        await client.create(website)
        status = {"phase": ATTACK, "state": ATTACK, "conditions": [condition], "log": [ATTACK]}
        blog: Ref[Any] = Ref(GroupVersionKind("example.dev", "v1", "Website"), "blog", "default")
        await client.patch(blog, MergePatch({"status": status}), subresource="status")
        async with open_browser(tmp_path) as browser:
            url = parts.urls["dashboard"]
            config_maps, websites = quote("v1/ConfigMap", safe=""), quote("example.dev/v1/Website", safe="")
            objects = [f"#/object/{config_maps}/default/broken", f"#/object/{websites}/default/blog"]
            for place in ("#/", f"#/kind/{websites}", *objects):
                assert is_harmless(await browser.show(url + place, "&lt;img src=x")), place


async def test_a_log_is_followed_while_others_are_opened_beside_it_until_someone_scrolls_up(tmp_path: Path) -> None:
    require_browser()
    lines = b"".join(b"line %d %s\n" % (number, b"long " * 60) for number in range(200))
    async with with_logs(lines) as (page, _), Server(page.handle) as server, open_browser(tmp_path) as browser:
        tab = await browser.open(f"{server.url}/?token={TOKEN}#/logs", width=1600)
        await tab.click_text("main tbody a", "web / app")
        await tab.text("line 199")
        await tab.click_text("main tbody a", "beside")
        await tab.wait("document.querySelectorAll('.log').length === 2")
        is_at_end = "(one) => one.scrollHeight - one.scrollTop - one.clientHeight < 40"
        follows = "[...document.querySelectorAll('.pane .bar label:last-child input')].map((one) => one.checked)"
        await tab.wait(f"[...document.querySelectorAll('.log')].every({is_at_end})")
        assert await tab.run(follows) == [True, True]
        await tab.run("document.querySelector('.log').scrollTop -= 400")
        await tab.wait(f"!{follows}[0]")
        await tab.run("document.querySelector('.log').scrollTop = 1e6")
        await tab.wait(f"{follows}[0]")
        await tab.run("document.getElementById('filter').value = 'proxy'")
        await tab.run("document.getElementById('filter').dispatchEvent(new Event('input', {bubbles: true}))")
        await tab.wait("document.querySelectorAll('main tbody tr').length === 1")


async def test_a_page_of_which_a_part_could_not_be_loaded_is_loaded_again(tmp_path: Path) -> None:
    require_browser()
    dropped: list[str] = []
    async with with_logs() as (page, _):

        async def handle(request: Request) -> Response:
            if request.path.endswith("/objects.js") and len(dropped) < 2:
                dropped.append(request.path)
                return Response(503)
            return await page.handle(request)

        async with Server(handle) as server, open_browser(tmp_path) as browser:
            tab = await browser.open(f"{server.url}/?token={TOKEN}#/logs")
            await tab.text("web / app")
            assert len(dropped) == 2
            assert await tab.run("sessionStorage.length") == 0
            assert "token" not in await tab.run("location.href")


async def test_lines_of_a_log_are_text_in_a_browser(tmp_path: Path) -> None:
    async def lines(_: LogRequest) -> AsyncIterator[bytes]:
        async def read() -> AsyncIterator[bytes]:
            yield f"<!doctype html><html><body>{ATTACK}</body></html>\n".encode()

        return read()

    require_browser()
    server = ApiServer(tls=False)
    server.serve_logs("", "ConfigMap", lines)
    await server.start(listen=False)

    async def as_owner(request: Request) -> Response:
        request_ = Request("GET", request.path, request.query, request.headers, b"", server.owner)
        found = server.handle(request_)
        return found if isinstance(found, Response) else await found

    async with await Client.connect(server) as client, Server(as_owner) as front, open_browser(tmp_path) as browser:
        await client.create(tree("v1", "ConfigMap", "noisy"))
        path = "/api/v1/namespaces/default/configmaps/noisy/log"
        assert is_harmless(await browser.show(front.url + path, "&lt;!doctype html"))
    await server.stop()


async def test_lines_of_a_log_are_coloured_text_in_the_page(tmp_path: Path) -> None:
    require_browser()
    line = f"\x1b[31m{ATTACK}\x1b[0m \x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07\n".encode()
    async with with_logs(line) as (page, _), Server(page.handle) as server, open_browser(tmp_path) as browser:
        tab = await browser.open(f"{page.address(server.url)}#/logs?of={quote('v1/Pod', safe='')},default,web,app")
        html = await tab.html("&lt;img src=x")
        assert is_harmless(html)
        assert "javascript:" not in html
        assert await tab.run("document.querySelector('.log .fg1').textContent.startsWith('<img')")
        assert browser.complaints == []


async def test_another_site_can_neither_frame_nor_read_nor_write(tmp_path: Path) -> None:
    async with served() as (url, _), open_browser(tmp_path) as browser:
        await browser.show(url, "Website")  # the browser has the cookie now
        base = (url.partition("?")[0].rstrip("/") + root_of(url)).rstrip("/")
        script = f"""
            const read = fetch("{base}/api/kinds", {{credentials: "include"}}).then(
                async r => "read " + (await r.text()), () => "read refused");
            const write = fetch("{base}/api/kinds", {{method: "POST", credentials: "include"}}).then(
                r => "write " + r.status, () => "write refused");
            const frame = document.createElement("iframe");
            frame.src = "{url}";
            const framed = new Promise(done => frame.onload = () => {{
                try {{ done("frame " + frame.contentWindow.document.title); }} catch (e) {{ done("frame refused"); }}
            }});
            document.body.append(frame);
            Promise.all([read, write, framed]).then(all => document.body.append(all.join(";") + ";over"));
        """
        async with hostile_page(f"<body><script>{script}</script></body>") as attacker:
            text = await (await browser.open(attacker)).text(";over")
            assert await browser.framed() == ["chrome-error://chromewebdata/"]
    assert text.strip() == "read refused;write refused;frame refused;over"


async def test_a_server_at_another_port_receives_no_cookie_and_cannot_replace_it(tmp_path: Path) -> None:
    received = list[tuple[str, str]]()
    script = """
        Promise.all(["/api/kinds", "/feed", "/d-/api/kinds"].map((path) => fetch(path, { credentials: "include" })))
            .then(() => document.body.append("over"));
    """

    async def handle(request: Request) -> Response:
        received.append((request.path, ";".join(request.headers.get_all("cookie"))))
        # The name of the cookie is not known to it, but let us assume it has guessed it.
        stolen = ("Set-Cookie", f"{name}=replaced; Path=/; HttpOnly; SameSite=Strict")
        return Response(200, (("Content-Type", "text/html"), stolen), f"<script>{script}</script>".encode())

    async with served() as (url, _), open_browser(tmp_path) as browser:
        token = urlsplit(url).query.removeprefix("token=")
        name = AccessPolicy(token).cookie_name
        tab = await browser.open(url)
        await tab.text("All healthy")
        async with Server(handle) as other:
            await (await browser.open(other.url)).text("over")
            # A browser sends the cookie with the longer path first; the one that was planted is ignored.
            page = await (await browser.open(f"{url.partition('?')[0].rstrip('/')}{root_of(url)}")).text("All healthy")
    assert {path for path, _ in received} >= {"/", "/api/kinds", "/feed", "/d-/api/kinds"}
    assert [cookies for _, cookies in received if token in cookies] == []
    assert "checked" in page


async def test_another_name_for_the_host_is_refused(tmp_path: Path) -> None:
    async with served() as (url, _), open_browser(tmp_path) as browser:
        page = await browser.show(url.replace("127.0.0.1", "evil.test").replace("localhost", "evil.test"), "host")
    assert "Website" not in page
