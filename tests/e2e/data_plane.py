"""The local data plane for Kubernetes' e2e suite: its images are programs of this machine, agnhost among them.

Run by `levelset up tests.e2e.data_plane`; LEVELSET_AGNHOST names agnhost, which `scripts/kube_binaries.py` builds.
"""

import os
import shlex

from levelset_local import Options, local_system

__all__ = ["local"]

_AGNHOST = os.environ.get("LEVELSET_AGNHOST", "agnhost")
# The image runs `pause` unless a container gives arguments.
_OR_PAUSE = f'[ $# -gt 0 ] || set -- pause; exec {shlex.quote(_AGNHOST)} "$@"'

local = local_system(
    Options(
        images={
            "*/agnhost:*": ["/bin/sh", "-c", _OR_PAUSE, "agnhost"],
            "*/pause:*": [_AGNHOST, "pause"],
            "*/httpd:*": [_AGNHOST, "netexec"],
            "*/nginx:*": [_AGNHOST, "netexec"],
            "*/busybox:*": ["/bin/sh"],
        }
    )
)
