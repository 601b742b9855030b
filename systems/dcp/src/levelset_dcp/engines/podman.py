"""Podman, by way of its command line tool."""

from collections.abc import Mapping

from levelset_dcp.engines.cli import CliEngine
from levelset_dcp.engines.dialects import PODMAN
from levelset_dcp.engines.health import PERIOD

__all__ = ["PodmanEngine"]


class PodmanEngine(CliEngine):
    """Podman 4 or later; `program` is the name or the path of its tool, `env` the environment that this gets."""

    def __init__(
        self, program: str = "podman", *, env: Mapping[str, str] | None = None, period: float = PERIOD
    ) -> None:
        super().__init__(PODMAN, program, env=env, period=period)
