"""The local data plane for Kubernetes' e2e suite: its images are programs of this machine, agnhost among them.

Run by `levelset up tests.e2e.data_plane`; LEVELSET_AGNHOST names agnhost, which `scripts/kube_binaries.py` builds.
"""

import os

from levelset_local import Options, local_system

__all__ = ["local"]

_AGNHOST = os.environ.get("LEVELSET_AGNHOST", "agnhost")

local = local_system(
    Options(
        images={
            "*/agnhost:*": [_AGNHOST],
            "*/pause:*": [_AGNHOST, "pause"],
            "*/httpd:*": [_AGNHOST, "netexec"],
            "*/nginx:*": [_AGNHOST, "netexec"],
            "*/busybox:*": ["/bin/sh"],
        }
    )
)
