"""The local data plane for Kubernetes' e2e suite: its images are programs of this machine, agnhost among them.

Run by `levelset up tests.e2e.data_plane`; LEVELSET_AGNHOST names agnhost, which `scripts/kube_binaries.py` builds.
"""

import os
import shlex
import sys

from levelset_local import Options, local_system

__all__ = ["local"]

_AGNHOST = os.environ.get("LEVELSET_AGNHOST", "agnhost")
# agnhost's `test-webserver` listens at port 80 of all addresses, where only one Pod can: this one at the Pod's own.
# Specs break it by moving a file of its image to /tmp: the root of a container is its own, and so is this /tmp.
_WEBSERVER = """
import http.server, os, subprocess

subprocess.run(["mount", "-t", "tmpfs", "levelset", "/tmp"], check=True)
open("/localhost.crt", "w").close()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.path.exists(self.path) else 404)
        self.end_headers()

http.server.ThreadingHTTPServer((os.environ["POD_IP"], 80), Handler).serve_forever()
"""
# The image runs `pause` unless a container gives arguments.
_OR_PAUSE = (
    f'[ "$1" != test-webserver ] || exec {shlex.quote(sys.executable)} -c {shlex.quote(_WEBSERVER)}; '
    f'[ $# -gt 0 ] || set -- pause; exec {shlex.quote(_AGNHOST)} "$@"'
)

local = local_system(
    Options(
        images={
            "*/agnhost:*": ["/bin/sh", "-c", _OR_PAUSE, "agnhost"],
            "*/pause:*": [_AGNHOST, "pause"],
            "*/httpd:*": [_AGNHOST, "netexec"],
            "*/nginx:*": [_AGNHOST, "netexec"],
            "*/busybox:*": ["/bin/sh"],
        },
        namespaces=True,  # for programs that read their host name, or volumes at their mount paths
    )
)
