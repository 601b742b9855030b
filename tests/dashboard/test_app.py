"""The HTTP handler of the dashboard: authentication, security headers and error responses."""

import json

import pytest

from levelset.dashboard import Dashboard
from levelset.http import Headers, Request, Response, read_all
from levelset.testing.virtual_time import virtual
from tests.dashboard.fixtures import TOKEN, get, open_dashboard, send, tree

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u2028</pre>"


def header(response: Response, name: str) -> str | None:
    return next((value for key, value in response.headers if key.lower() == name.lower()), None)


@virtual
async def test_the_url_with_the_token_returns_the_page_and_a_cookie() -> None:
    async with open_dashboard() as (page, _):
        response = await send(page, f"/?token={TOKEN}", Cookie="")
        assert response.status == 200
        assert header(response, "Set-Cookie") == page.access.cookie
        assert header(await send(page, "/"), "Set-Cookie") is None
        assert page.address("http://127.0.0.1:1") == f"http://127.0.0.1:1/?token={TOKEN}"


@virtual
async def test_the_printed_url_leads_to_the_path_of_the_page() -> None:
    async with open_dashboard() as (page, _):
        request = Request("GET", "/", f"token={TOKEN}", headers=Headers({"Host": "127.0.0.1:8080"}))
        response = await page.handle(request)
        assert (response.status, header(response, "Set-Cookie")) == (303, None)
        assert header(response, "Location") == f"{page.access.root}?token={TOKEN}"


@pytest.mark.parametrize(
    "path", ["/", "/?token=wrong", "/assets/main.js", "/api/status", "/api/problems", "/feed", "/x"]
)
@virtual
async def test_without_the_cookie_there_is_only_a_message(path: str) -> None:
    async with open_dashboard() as (page, _):
        response = await send(page, path, Cookie="")
        assert response.status == 401
        assert b"open the URL that was printed" in await read_all(response)
        assert header(response, "Set-Cookie") is None


@virtual
async def test_other_hosts_and_other_verbs_are_refused() -> None:
    async with open_dashboard() as (page, _):
        assert (await send(page, "/api/status", Host="evil.example")).status == 403
        response = await send(page, "/api/status", "POST")
        assert (response.status, header(response, "Allow")) == (405, "GET")


@pytest.mark.parametrize(
    "path", ["/", "/assets/main.js", "/api/status", "/api/object?kind=v1/Pod&name=x", "/feed", "/nothing"]
)
@virtual
async def test_every_response_has_security_headers(path: str) -> None:
    async with open_dashboard() as (page, _):
        for response in (await send(page, path), await send(page, path, Cookie="")):
            assert header(response, "X-Content-Type-Options") == "nosniff"
            assert header(response, "Referrer-Policy") == "no-referrer"
            assert header(response, "Cache-Control") == "no-store"
            assert header(response, "X-Frame-Options") == "DENY"
            assert header(response, "Access-Control-Allow-Origin") is None
        policy = header(await send(page, path), "Content-Security-Policy")
        assert (policy is not None) == (path == "/")


@virtual
async def test_hostile_texts_are_sent_as_json_only() -> None:
    async with open_dashboard() as (page, client):
        await client.create(tree("v1", "ConfigMap", "map", data={"a": HOSTILE}))
        about = {"apiVersion": HOSTILE, "kind": HOSTILE, "name": HOSTILE, "namespace": "default"}
        await client.create(tree("v1", "Event", "e", involvedObject=about, reason=HOSTILE, message=HOSTILE))
        for path in ("object?kind=v1/ConfigMap&name=map", "events", f"object?kind=v1/Pod&name={HOSTILE}"):
            response = await send(page, f"/api/{path}")
            assert header(response, "Content-Type") == "application/json"
            assert json.loads(await read_all(response))
        assert (await get(page, "/api/events"))["events"][0]["message"] == HOSTILE


@virtual
async def test_secret_values_are_hidden() -> None:
    async with open_dashboard() as (page, client):
        await client.create(tree("v1", "Secret", "key", stringData={"password": "hunter2"}))
        bodies = [
            await read_all(await send(page, path))
            for path in ("/api/object?kind=v1/Secret&name=key", "/api/table?kind=v1/Secret")
        ]
    assert b"password: (hidden, " in bodies[0]
    assert not any(hidden in body for body in bodies for hidden in (b"hunter2", b"aHVudGVyMg"))


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/nothing", 404, "/api/kinds"),
        ("/api/nothing", 404, "/api/kinds"),
        ("/assets/no.js", 404, "Not found"),
        ("/assets/../app.py", 404, "Not found"),
        ("/assets/..%2Fapp.py", 404, "Not found"),
        ("/api/table", 400, "kind is missing or malformed"),
        ("/api/table?kind=v1/ConfigMap&limit=201", 400, "from 1 to 200"),
        ("/api/table?kind=v1/ConfigMap&limit=0", 400, "from 1 to 200"),
        ("/api/table?kind=v1/ConfigMap&offset=-1", 400, "from 0 to"),
        ("/api/table?kind=v1/ConfigMap&continue=nonsense", 400, "continue"),
        ("/api/table?kind=v1/ConfigMap&labels=,,", 400, "labels: "),
        ("/api/table?kind=no.dev/v1/Such", 404, "no.dev"),
        ("/api/search?q=a==b==c", 400, "labels: "),
        ("/api/diff?kind=v1/Pod&name=x&before=1&after=2", 404, "was not seen"),
        ("/api/object?kind=v1/Pod", 400, "name is missing"),
        ("/api/object?kind=v1/Pod&name=gone", 404, "there is no Pod default/gone"),
        ("/feed?kind=nonsense", 400, "kind is missing or malformed"),
        ("/feed?" + "&".join(f"kind=v1/K{number}" for number in range(9)), 429, "at most"),
    ],
)
@virtual
async def test_errors_have_a_status_and_a_message(path: str, status: int, message: str) -> None:
    async with open_dashboard() as (page, _):
        response = await send(page, path)
        assert response.status == status
        assert message in (await read_all(response)).decode()


@virtual
async def test_before_the_manager_has_started_it_responds_503() -> None:
    page = Dashboard(token=TOKEN)
    for path in ("/api/status", "/api/kinds", "/feed"):
        response = await send(page, path)
        assert response.status == 503
        assert b"has not started yet" in await read_all(response)
    assert (await send(page, "/")).status == 200


@virtual
async def test_queries_leave_no_watch_behind() -> None:
    async with open_dashboard() as (page, client):
        await client.create(tree("v1", "ConfigMap", "map", data={}))
        for path in ("/api/status", "/api/kinds", "/api/events", "/api/table?kind=v1/ConfigMap"):
            await get(page, path)
        assert (page.feed.watched, page.feed.subscribers) == ((), 0)
