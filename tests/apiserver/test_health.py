from levelset.apiserver.health import Health
from levelset.http import Request


def probe(health: Health, path: str, query: str = "", method: str = "GET") -> tuple[int, bytes]:
    made = health.page(Request(method, path, query))
    assert made is not None
    assert isinstance(made.body, bytes)
    return made.status, made.body


def test_a_healthy_server_responds_ok() -> None:
    health = Health()
    assert [probe(health, path) for path in ("/healthz", "/livez", "/readyz", "/livez/ping")] == [(200, b"ok")] * 4


def test_only_readiness_fails_when_the_server_is_not_ready() -> None:
    health = Health(ready={"shutdown": lambda: False})
    assert probe(health, "/livez") == (200, b"ok")
    assert probe(health, "/readyz") == (
        500,
        b"[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n",
    )
    assert probe(health, "/readyz/shutdown")[0] == 500


def test_a_check_can_be_excluded() -> None:
    health = Health(ready={"shutdown": lambda: False})
    assert probe(health, "/readyz", "exclude=shutdown") == (200, b"ok")


def test_verbose_lists_every_check() -> None:
    status, body = probe(Health(), "/livez", "verbose&exclude=nothing")
    assert status == 200
    assert body.splitlines()[0] == b"[+]ping ok"
    assert b"nothing" in body
    assert body.endswith(b"livez check passed\n")


def test_an_unknown_check_is_not_found() -> None:
    assert probe(Health(), "/livez/no")[0] == 404
    assert probe(Health(), "/livez/ping/more")[0] == 404
    assert probe(Health(), "/livez", method="POST")[0] == 405
    assert Health().page(Request("GET", "/api")) is None
    assert Health().page(Request("GET", "/")) is None
