"""The controller of AgentRuntimes: a Deployment and a Service for each, and a second Deployment during a canary."""

from levelset_omnia.agentruntime.children import (
    ChildBuilder,
    ReplicaPlan,
    candidate_name,
    is_rolled_out,
    plan_replicas,
    ready_replicas,
    split_replicas,
    tools_name,
)
from levelset_omnia.agentruntime.dependencies import secret_hash
from levelset_omnia.agentruntime.environment import environment, tools_file
from levelset_omnia.agentruntime.pod_reports import PodProblem, PodReport, ReadReport, read_report
from levelset_omnia.agentruntime.reconciler import agent_runtimes_controller
from levelset_omnia.agentruntime.status import Facts, Problem, agent_status, status_events

__all__ = [
    "ChildBuilder",
    "Facts",
    "PodProblem",
    "PodReport",
    "Problem",
    "ReadReport",
    "ReplicaPlan",
    "agent_runtimes_controller",
    "agent_status",
    "candidate_name",
    "environment",
    "is_rolled_out",
    "plan_replicas",
    "read_report",
    "ready_replicas",
    "secret_hash",
    "split_replicas",
    "status_events",
    "tools_file",
    "tools_name",
]
