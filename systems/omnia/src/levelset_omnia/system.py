"""The Omnia system: its four controllers, and the conversion between the versions of AgentRuntimes."""

from levelset import System
from levelset_omnia.agent_panel import agent_panel
from levelset_omnia.agentruntime import ReadReport, agent_runtimes_controller, read_report
from levelset_omnia.kinds import AgentRuntime, agent_runtime_conversion
from levelset_omnia.options import Options
from levelset_omnia.promptpack import prompt_packs_controller
from levelset_omnia.provider import providers_controller
from levelset_omnia.toolregistry import tool_registries_controller

__all__ = ["laptop_system", "omnia_system"]


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
            providers_controller(options),
        ],
        webhooks=[agent_runtime_conversion()],
        panels={AgentRuntime: agent_panel()},
        hints=["kubectl apply -f examples/omnia/", "kubectl get agentruntimes,promptpacks,toolregistries"],
    )


def laptop_system() -> System:
    """The operator for agents that are local processes: they start at once, and are probed every second."""
    return omnia_system(Options(readiness_delay=0, readiness_period=1, report_seconds=1.0))
