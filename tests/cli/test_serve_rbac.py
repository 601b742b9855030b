"""`levelset serve --rbac --audit-log` as a process: users of the token file, and log rotation."""

import http.client
import json
import signal
import ssl
from pathlib import Path
from typing import Any

from levelset.apiserver.kubeconfig_file import ConnectionInfo, read_kubeconfig
from levelset.http.private_files import write_private
from tests.cli.test_serve import run, serving, stop

MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class HttpClient:
    """Sends requests to the server of a kubeconfig."""

    def __init__(self, folder: Path) -> None:
        self.contact: ConnectionInfo = read_kubeconfig(folder / "levelset.kubeconfig")
        assert self.contact.ca is not None
        self._tls = ssl.create_default_context(cadata=self.contact.ca.decode())

    def send(self, token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPSConnection(self.contact.url.partition("//")[2], timeout=120, context=self._tls)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        tree = json.loads(response.read())
        connection.close()
        return response.status, tree


def wait_for_line(path: Path, text: str, times: int = 1) -> None:
    while not path.exists() or path.read_text().count(text) < times:
        pass


def test_users_have_the_permissions_of_their_roles_and_are_audited(tmp_path: Path) -> None:
    write_private(tmp_path / "t", b'mine\njanes,jane,,"team"\n')
    arguments = ["--rbac", "--audit-log", "log", "--token-file", "t", "--data", "data.db"]
    with serving(tmp_path, *arguments) as (process, _):
        client = HttpClient(tmp_path)
        assert client.contact.token == "mine"
        assert client.send("janes", "GET", MAPS)[0] == 403
        reference = {"apiGroup": RBAC[6:-3], "kind": "ClusterRole", "name": "view"}
        subjects = [{"kind": "Group", "name": "team", "apiGroup": RBAC[6:-3]}]
        tree = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects}
        assert client.send("mine", "POST", f"{RBAC}/namespaces/default/rolebindings", tree)[0] == 201
        assert client.send("janes", "GET", MAPS)[0] == 200
        wait_for_line(tmp_path / "log", '"username":"jane"', times=2)
        (tmp_path / "log").rename(tmp_path / "moved")
        process.send_signal(signal.SIGHUP)
        wait_for_line(tmp_path / "log", "")
        assert client.send("mine", "POST", ACCOUNTS, {"metadata": {"name": "robot"}})[0] == 201
        status, made = client.send("mine", "POST", f"{ACCOUNTS}/robot/token", {"spec": {}})
        assert status == 201
        assert stop(process, signal.SIGTERM) == (0, "")
    assert [json.loads(line)["verb"] for line in (tmp_path / "log").read_text().splitlines()] == ["create", "create"]
    with serving(tmp_path, *arguments):
        client = HttpClient(tmp_path)
        assert client.send("janes", "GET", MAPS)[0] == 200
        assert (
            client.send(made["status"]["token"], "GET", MAPS)[0] == 403
        )  # authenticated after a restart, but without permissions


def test_an_unwritable_audit_log_is_an_error_with_exit_code_2(tmp_path: Path) -> None:
    outcome = run(tmp_path, "serve", "--audit-log", "no/log")
    assert outcome.returncode == 2
    assert "audit log" in outcome.stderr
    assert "Traceback" not in outcome.stderr
