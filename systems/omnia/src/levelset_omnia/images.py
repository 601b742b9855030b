"""The programs for Omnia's images where Pods run as local processes; an entry point of `levelset_local.images`."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["IMAGES"]

IMAGES: Final[Mapping[str, Sequence[str]]] = {
    "ghcr.io/altairalabs/omnia-agent*": (sys.executable, "-m", "levelset_omnia.agent"),
    "levelset.dev/omnia-calculator*": (sys.executable, "-m", "levelset_omnia.agent.calculator"),
}
