"""The local data plane for the suites of other clients: the images of their Pods are programs of this machine.

Run by `levelset up tests.peers.data_plane`, for `scripts/peer_suites.py`.
"""

import sys

from levelset_local import Options, local_system

__all__ = ["local"]

# A web server at port 80 of the Pod's own address, whose log has the lines of a server that starts.
_WEB_SERVER = """
import http.server, os
print("start worker processes", flush=True)
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 80), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
_PAUSE = ["/bin/sleep", "infinity"]
_NGINX = [sys.executable, "-c", _WEB_SERVER]

local = local_system(
    Options(
        images={
            "*/pause": _PAUSE,
            "nginx": _NGINX,
            "nginx:*": _NGINX,
            "busybox:*": ["/bin/sh"],
        },
    )
)
