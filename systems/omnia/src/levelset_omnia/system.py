"""The Omnia system: its three controllers."""

from levelset import System
from levelset_omnia.agentruntime import ReadReport, agent_runtimes_controller, read_report
from levelset_omnia.options import Options
from levelset_omnia.promptpack import prompt_packs_controller
from levelset_omnia.toolregistry import tool_registries_controller

__all__ = ["omnia_system"]


def omnia_system(options: Options | None = None, *, read: ReadReport = read_report) -> System:
    """The operator with these options: `run(omnia_system())`, or a target of `levelset up`.

    `read` reads the report of an agent's Pod; tests give their own.
    """
    return System(
        name="omnia",
        controllers=[
            agent_runtimes_controller(options, read=read),
            prompt_packs_controller(options),
            tool_registries_controller(options),
        ],
        hints=["kubectl apply -f examples/omnia/", "kubectl get agentruntimes,promptpacks,toolregistries"],
    )
