"""schemathesis: requests generated from our OpenAPI documents; none of them may cause a server error."""

import base64
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.clients.verbs import GROUP, Plain, configmap, verb, widget

DOCUMENTS = ("api/v1", "apis/apps/v1", "apis/batch/v1", "apis/coordination.k8s.io/v1", f"apis/{GROUP}/v1")
SECONDS = 10
# An endless watch would look like a hanging server; requests for existing objects reach more code.
SETTINGS = """
[parameters]
"query.watch" = "false"
"query.resourceVersion" = ""
"path.namespace" = "default"
"path.name" = "a"
"""


def main() -> None:
    plain = Plain()
    plain.define()
    plain.must("POST", "/api/v1/namespaces/default/configmaps", configmap("a", k="1"))
    plain.must("POST", f"/apis/{GROUP}/v1/namespaces/default/widgets", widget("a", color="red"))
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    with tempfile.TemporaryDirectory() as folder, verb("fuzz"):
        authority, settings = Path(folder) / "ca.crt", Path(folder) / "schemathesis.toml"
        authority.write_bytes(base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]))
        settings.write_text(SETTINGS)
        counts = [attack(plain.url, config["users"][0]["user"]["token"], folder, name) for name in DOCUMENTS]
        assert all(counts), counts
        print(f"{sum(counts)} requests", file=sys.stderr)


def attack(url: str, token: str, folder: str, document: str) -> int:
    """Sends requests that the document allows and requests that it does not; returns their number."""
    program = Path(sys.executable).with_name("st")
    command = [str(program), "--config-file", f"{folder}/schemathesis.toml", "run", f"{url}/openapi/v3/{document}"]
    command += ["--url", url, "--header", f"Authorization: Bearer {token}", "--tls-verify", f"{folder}/ca.crt"]
    command += ["--checks", "not_a_server_error", "--phases", "fuzzing", "--max-time", str(SECONDS)]
    command += ["--max-examples", "30", "--workers", "1", "--no-color"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=6 * SECONDS, check=False)
    print(done.stdout, file=sys.stderr)
    if done.returncode != 0:
        raise AssertionError(f"{document}: {done.stdout[-1500:]}")
    found = re.search(r"(\d+) generated", done.stdout)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    main()
