"""Attacks on `levelset dashboard`, which reads a cluster with the credentials of a kubeconfig: real processes."""

import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest

from levelset.apiserver import ConnectionInfo, read_kubeconfig
from levelset.dashboard import AccessPolicy
from tests.cli.test_dev import Process
from tests.cli.test_run_dashboard import command

SECRET = "hunter2-hunter2"
ENCODED = "aHVudGVyMi1odW50ZXIy"
MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"


class Site:
    """A dashboard with its address and token, and the server behind it."""

    def __init__(self, url: str, cluster: ConnectionInfo, process: Process) -> None:
        self.netloc = urlsplit(url).netloc
        self.token = urlsplit(url).query.removeprefix("token=")
        self.cluster = cluster
        self.process = process
        self.access = AccessPolicy(self.token)
        self.bodies: list[bytes] = []
        """What it has sent."""

    def send(
        self, path: str, method: str = "GET", *, body: bytes | None = None, host: str | None = "", **headers: str
    ) -> tuple[int, bytes]:
        """The response to a request with exactly these headers; `host` None sends none."""
        connection = http.client.HTTPConnection(self.netloc, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if host is not None:
                connection.putheader("Host", host or self.netloc)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            sent = response.read()
        finally:
            connection.close()
        self.bodies += [sent, str(response.getheaders()).encode()]
        return response.status, sent

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """The response to the page, which has the cookie."""
        given: dict[str, Any] = {"Cookie": self.cookie, **headers}
        return self.send(f"{self.access.root}{path}", **given)

    def act(self, name: str, request: dict[str, Any], **changed: str) -> tuple[int, bytes]:
        """The response to an action of the page, unless headers are changed."""
        headers: dict[str, Any] = {
            "Cookie": self.cookie,
            "Origin": f"http://{self.netloc}",
            "Content-Type": "application/json",
            "X-Levelset-Action": "1",
            **{key.replace("_", "-"): value for key, value in changed.items()},
        }
        return self.send(f"{self.access.root}api/actions/{name}", "POST", body=json.dumps(request).encode(), **headers)

    @property
    def cookie(self) -> str:
        return f"{self.access.cookie_name}={self.token}"

    def server(self, method: str, path: str, body: Any = None) -> Any:
        """The response of the API server to the owner."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.cluster.token}", "Content-Type": "application/json"}
        request = Request(f"{self.cluster.url}{path}", data, headers, method=method)
        trusted = ssl.create_default_context(cadata=(self.cluster.ca or b"").decode())
        with urlopen(request, context=trusted) as response:
            return json.load(response)


@contextmanager
def open_site(folder: Path, *options: str) -> Generator[Site, None, None]:
    kubeconfig = folder / "kubeconfig"
    with command(["levelset", "serve", "--kubeconfig", str(kubeconfig), "--port", "0"], folder) as served:
        served.until("kubeconfig")
        with command(["levelset", "dashboard", "--kubeconfig", str(kubeconfig), *options], folder) as process:
            url = process.until("dashboard ")[-1].split()[1]
            yield Site(url, read_kubeconfig(kubeconfig), process)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site, None, None]:
    with open_site(tmp_path_factory.mktemp("site"), "--dashboard-actions") as opened:
        value = {"metadata": {"name": "key"}, "stringData": {"password": SECRET}}
        opened.server("POST", SECRETS, value)
        opened.server("POST", MAPS, {"metadata": {"name": "map"}, "data": {"a": "b"}})
        yield opened


@pytest.mark.parametrize(
    "host",
    [
        None,
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "localhost@evil.example",
        "[::1].evil",
        "0.0.0.0",
    ],
)
def test_a_name_that_is_rebound_to_this_machine_is_refused(site: Site, host: str | None) -> None:
    for path in (f"/?token={site.token}", f"{site.access.root}api/kinds", f"{site.access.root}feed"):
        assert site.send(path, host=host, Cookie=site.cookie)[0] in {400, 403}


def test_the_target_of_a_request_does_not_replace_its_host(site: Site) -> None:
    target = f"http://{site.netloc}{site.access.root}api/kinds"
    assert site.send(target, host="evil.example", Cookie=site.cookie)[0] in {400, 403, 404}
    connection = http.client.HTTPConnection(site.netloc, timeout=60)
    connection.putrequest("GET", f"{site.access.root}api/kinds", skip_host=True)
    for host in (site.netloc, "evil.example"):
        connection.putheader("Host", host)
    connection.putheader("Cookie", site.cookie)
    connection.endheaders()
    assert connection.getresponse().status in {400, 403}
    connection.close()


@pytest.mark.parametrize("site_header", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["api/kinds", "feed?kind=v1/ConfigMap", "log?kind=v1/Pod&name=x", "assets/main.js"])
def test_pages_of_other_origins_read_neither_data_nor_streams(site: Site, path: str, site_header: str) -> None:
    assert site.get(path, Sec_Fetch_Site=site_header, Origin="http://127.0.0.1:1")[0] == 403


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Cookie": "x=y"}, 401),
        ({"Content-Type": "text/plain"}, 403),
        ({"X-Levelset-Action": "0"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_a_form_of_another_page_changes_nothing(site: Site, changed: dict[str, str], status: int) -> None:
    uid = site.server("GET", f"{MAPS}/map")["metadata"]["uid"]
    request = {"kind": "v1/ConfigMap", "namespace": "default", "name": "map", "uid": uid}
    assert site.act("delete", request, **changed)[0] == status
    assert site.server("GET", f"{MAPS}/map")["metadata"]["uid"] == uid


NAMES = (
    "../secrets/key",
    "..",
    ".",
    "x/../../secrets/key",
    "%2e%2e/secrets/key",
    "..%2fsecrets%2fkey",
    "web?x=",
    "web#",
    "web/exec?command=id&stdout=true",
    "key\r\nHost: evil.example\r\n\r\nGET /api/v1/secrets HTTP/1.1",
    "key\u0000",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("word", ["name", "namespace"])
@pytest.mark.parametrize("path", ["log", "api/object", "api/text", "api/diff"])
def test_no_name_leads_to_another_path_of_the_api_server(site: Site, path: str, word: str, name: str) -> None:
    given = {"kind": "v1/Pod", "name": "key", "namespace": "default", word: name}
    status, body = site.get(f"{path}?{urlencode(given, quote_via=quote, safe='')}")
    assert (status in {400, 404, 422}, ENCODED.encode() in body, b"password" in body) == (True, False, False), body


@pytest.mark.parametrize(
    "kind", ["v1/Secret/", "v1/secret", "v1/secrets", "/v1/Secret", "core/v1/Secret", "v1 /Secret", "v1/List"]
)
def test_no_spelling_of_the_kind_shows_the_values_of_secrets(site: Site, kind: str) -> None:
    for path in ("api/object", "api/text", "api/table"):
        _, body = site.get(f"{path}?kind={quote(kind, safe='')}&name=key&namespace=default")
        assert (SECRET.encode() in body, ENCODED.encode() in body) == (False, False)


def test_the_versions_of_a_secret_differ_without_its_values(site: Site) -> None:
    where = "kind=v1/Secret&name=key&namespace=default"
    first = json.loads(site.get(f"api/object?{where}")[1])["versions"][0]["version"]
    tree = site.server("GET", f"{SECRETS}/key")
    tree["data"]["password"] = "bmV3LW5ldy1uZXc="
    site.server("PUT", f"{SECRETS}/key", tree)
    second = json.loads(site.get(f"api/object?{where}")[1])["versions"][0]["version"]
    status, body = site.get(f"api/diff?{where}&before={first}&after={second}")
    assert (status, first != second) == (200, True)
    assert not [one for one in (SECRET, ENCODED, "bmV3LW5ldy1uZXc", "new-new-new") if one in body.decode()]
    assert site.act("preview", {"kind": "v1/Secret", "name": "key", "namespace": "default", "text": "a: b"})[0] == 400


def test_an_edit_cannot_be_of_another_object(site: Site) -> None:
    text = json.loads(site.get("api/text?kind=v1/ConfigMap&name=map&namespace=default")[1])["text"]
    request = {"kind": "v1/ConfigMap", "name": "map", "namespace": "default"}
    for changed in (
        text.replace("kind: ConfigMap", "kind: Secret"),
        re.sub(r"(?m)^  name: map$", "  name: other", text),
        re.sub(r"(?m)^  namespace: default$", "  namespace: kube-system", text),
        f"{text}\n---\n{text}",
    ):
        assert changed != text
        assert site.act("apply", {**request, "text": changed})[0] == 400


def test_no_response_and_no_output_has_the_credentials_of_the_cluster(site: Site) -> None:
    paths = ["", "api/status", "api/kinds", "api/problems", "api/events", "api/endpoints", "api/metrics", "api/logs"]
    for path in (
        *paths,
        "api/reconciles",
        "api/search?q=kubeconfig",
        "api/table?kind=v1/Secret",
        "nothing",
        "api/table",
    ):
        site.get(path)
    sent = b"".join(site.bodies)
    assert len(sent) > 1000
    for secret in (site.cluster.token, SECRET, ENCODED):
        assert secret.encode() not in sent


def test_arguments_and_environment_of_the_process_have_no_token(site: Site) -> None:
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("there is no /proc")
    for name in ("cmdline", "environ"):
        shown = Path(f"/proc/{site.process.process.pid}/{name}").read_bytes()
        assert (site.token.encode() in shown, site.cluster.token.encode() in shown) == (False, False)


_OTHER_USER = """
import encodings.idna, http.client, os, sys  # while they can be read
from pathlib import Path
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
netloc, *paths = sys.argv[1:]
readable = []
for path in map(Path, paths):
    try:
        readable.append((str(path), len(list(path.iterdir()) if path.is_dir() else path.open("rb").read(1))))
    except OSError:
        pass
connection = http.client.HTTPConnection(netloc, timeout=60)
found = []
for path in ["/", "/api/kinds", "/?token=", "/d-0/api/kinds"]:
    connection.request("GET", path)
    response = connection.getresponse()
    found.append(response.status)
    response.read()
print(readable, found)
"""


def test_another_user_of_the_machine_gets_nothing() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # what keeps others out must not be the folder that the tests are in
        with open_site(folder, "--port", str(_free_port())) as site:
            (token,) = (folder / "runtime").glob("dashboard-*.token")
            private = [folder / "runtime", token, folder / "kubeconfig"]
            private += [Path(f"/proc/{site.process.process.pid}/{one}") for one in ("environ", "mem")]
            line = [sys.executable, "-I", "-S", "-c", _OTHER_USER, site.netloc, *map(str, [folder, *private])]
            shown = subprocess.run(line, check=False, capture_output=True, text=True, cwd="/")
            seen = len(list(folder.iterdir()))
    assert shown.stdout.strip() == f"{[(name, seen)]} [401, 401, 401, 401]", shown.stderr


def test_the_token_of_a_chosen_port_is_in_a_file_of_this_user_only(tmp_path: Path) -> None:
    with open_site(tmp_path, "--port", str(_free_port())) as site:
        (file,) = (tmp_path / "runtime").glob("dashboard-*.token")
        assert (file.read_text(), file.stat().st_mode & 0o777) == (site.token, 0o600)
        assert (tmp_path / "runtime").stat().st_mode & 0o077 == 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
