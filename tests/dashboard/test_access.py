"""Access control of the dashboard: token, loopback, GET only, same origin."""

import re
from pathlib import Path

import pytest

from levelset.dashboard import AccessPolicy
from levelset.dashboard.access import is_loopback, token_of_port
from levelset.http import Headers, Request
from levelset.runtime.manager.process_records import FOLDER_VARIABLE

ACCESS = AccessPolicy("s3cret")
COOKIE = ACCESS.cookie.partition(";")[0]


def status(path: str = "/", method: str = "GET", **headers: str) -> int | None:
    sent = {"host": "localhost:1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    path, _, query = f"{ACCESS.root}{path.removeprefix('/')}".partition("?")
    refused = ACCESS.refuses(Request(method=method, path=path, query=query, headers=Headers(sent)))
    return None if refused is None else refused[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "localhost:8080", "LOCALHOST", "[::1]", "[::1]:9"])
def test_loopback_names_are_allowed(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *(None, "", ":", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil"),
        *("127.0.0.1:80@evil", "localhost:", "localhost:x", "localhost:\u0663", "::1", "0.0.0.0:80", "[::1]:1:2"),
        "127.0.0.1, evil",
    ],
)
def test_any_other_host_is_refused_before_the_token_is_checked(host: str | None) -> None:
    assert not is_loopback(host)
    request = Request("GET", "/", query="token=s3cret", headers=Headers({} if host is None else {"Host": host}))
    refused = ACCESS.refuses(request)
    assert refused is not None
    assert refused[0] == 403


@pytest.mark.parametrize("path", ["/", "/api/status", "/feed", "/nothing", "/?token=", "/?token=wrong", "/?token=%FF"])
def test_requests_without_the_token_are_refused(path: str) -> None:
    assert status(path) == 401
    assert status(path, cookie=f"{ACCESS.cookie_name}=wrong; other=s3cret") == 401
    assert status(path, cookie='\x00;;=,"') == 401


def test_the_token_in_the_url_opens_only_the_page() -> None:
    assert status("/?token=s3cret") is None
    assert status("/api/status?token=s3cret") == 401


def test_the_cookie_opens_everything_also_among_other_cookies() -> None:
    assert status("/api/status", cookie=f"a=b; {COOKIE}; c=d") is None
    assert status("/feed", cookie=COOKIE) is None
    planted = f"{ACCESS.cookie_name}=planted"
    assert status("/feed", cookie=f"{COOKIE}; {planted}") == status("/feed", cookie=f"{planted}; {COOKIE}") is None
    assert status("/feed", cookie=f'theirs={{"a": [1, "b"]}}; =; ;broken; {COOKIE};') is None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_only_get_is_allowed(method: str) -> None:
    assert status("/api/status", method, cookie=COOKIE) == 405


@pytest.mark.parametrize(("site", "expected"), [("cross-site", 403), ("same-site", 403), ("same-origin", None)])
def test_cross_site_requests_are_refused(site: str, expected: int | None) -> None:
    assert status("/api/status", cookie=COOKIE, sec_fetch_site=site) == expected
    assert status("/?token=s3cret", sec_fetch_site=site) is None  # a link from another page may lead here


def test_the_cookie_is_http_only_and_same_site() -> None:
    parts = ACCESS.cookie.split("; ")
    assert {"HttpOnly", "SameSite=Strict", f"Path={ACCESS.root}"} <= set(parts)
    assert AccessPolicy("other").cookie_name != ACCESS.cookie_name


def test_the_path_of_the_cookie_cannot_be_guessed_and_is_the_same_after_a_restart() -> None:
    assert re.fullmatch(r"/d-[0-9a-f]{32}/", ACCESS.root)
    assert AccessPolicy("s3cret").root == ACCESS.root
    assert AccessPolicy("other").root != ACCESS.root
    assert not set(re.findall(r"[0-9a-f]{8,}", ACCESS.cookie_name)) & {ACCESS.root[3:15]}


@pytest.mark.parametrize(
    "path", ["/", "/api/status", "/feed", ACCESS.root[:-1], f"/{ACCESS.root}", f"{ACCESS.root[:-2]}x/"]
)
def test_outside_of_its_path_the_cookie_opens_nothing(path: str) -> None:
    headers = Headers({"host": "localhost:1", "cookie": COOKIE})
    assert ACCESS.refuses(Request("GET", path, headers=headers)) is not None
    assert ACCESS.refuses(Request("POST", path, headers=headers)) is not None


def test_the_printed_url_is_allowed_with_its_token_only() -> None:
    headers = Headers({"host": "localhost:1"})
    assert ACCESS.refuses(Request("GET", "/", "token=s3cret", headers=headers)) is None
    for query, path in (("token=wrong", "/"), ("", "/"), ("token=s3cret", "/api/status"), ("token=s3cret", "/x")):
        refused = ACCESS.refuses(Request("GET", path, query, headers=headers))
        assert refused is not None
        assert refused[0] == 401


def test_a_token_is_long_and_new_each_time() -> None:
    one, two = AccessPolicy(), AccessPolicy()
    assert one.token != two.token
    assert len(one.token) >= 40


def test_the_token_of_a_chosen_port_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "private"))
    token = token_of_port(8080)
    assert token is not None
    assert len(token) >= 40
    assert (token_of_port(8080), token_of_port(0)) == (token, None)
    assert token_of_port(8081) != token
    (path,) = tmp_path.glob("private/dashboard-8080.token")
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("short", encoding="ascii")
    assert token_of_port(8080) not in {token, "short"}
