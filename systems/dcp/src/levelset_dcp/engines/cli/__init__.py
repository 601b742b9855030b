"""Container engines that are driven through their command line tools."""

from levelset_dcp.engines.cli.engine import CliEngine, DockerEngine, PodmanEngine

__all__ = ["CliEngine", "DockerEngine", "PodmanEngine"]
