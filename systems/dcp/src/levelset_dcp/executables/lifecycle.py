"""The key of a persistent program: another key means that something that matters has changed, and it starts anew."""

import hashlib
import json
from typing import Any

from levelset_dcp.environment import Effective
from levelset_dcp.kinds import ExecutableSpec

__all__ = ["lifecycle_key"]


def lifecycle_key(spec: ExecutableSpec, effective: Effective) -> str:
    """The key that the spec gives, or one of everything that matters; inherited variables do not."""
    if spec.lifecycle_key:
        return spec.lifecycle_key
    certificates = spec.pem_certificates
    matters: dict[str, Any] = {
        "path": spec.executable_path,
        "folder": spec.working_directory,
        "type": spec.execution_type,
        "ambient": spec.ambient_environment.behavior,
        "args": list(effective.args),
        "env": sorted(effective.named.items()),
        "monitor": [spec.monitor_pid, str(spec.monitor_timestamp or "")],
        "certificates": [] if certificates is None else [one.thumbprint for one in certificates.certificates],
        "terminal": "" if spec.terminal is None else spec.terminal.uds_path,
    }
    text = json.dumps(matters, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
