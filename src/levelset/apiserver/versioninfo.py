"""Which Kubernetes this server behaves like: what `/version` says."""

from collections.abc import Mapping

__all__ = ["VERSION"]

VERSION: Mapping[str, str] = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+levelset",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
