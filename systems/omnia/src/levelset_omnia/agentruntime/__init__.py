"""AgentRuntimes: each becomes a Deployment and a Service, and a second Deployment while a version is tried."""

from levelset_omnia.agentruntime.children import Plan, candidate_name, tools_name
from levelset_omnia.agentruntime.environment import environment, tools_file
from levelset_omnia.agentruntime.reconcile import agent_runtimes_controller
from levelset_omnia.agentruntime.splitting import Arrangement, arrange, is_rolled_out, ready_of, split
from levelset_omnia.agentruntime.status import Facts, Problem, agent_status

__all__ = [
    "Arrangement",
    "Facts",
    "Plan",
    "Problem",
    "agent_runtimes_controller",
    "agent_status",
    "arrange",
    "candidate_name",
    "environment",
    "is_rolled_out",
    "ready_of",
    "split",
    "tools_file",
    "tools_name",
]
