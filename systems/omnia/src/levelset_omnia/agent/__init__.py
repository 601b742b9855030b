"""A sample agent: it answers with a model, or with a mock that needs no key, its prompts and its tools.

`python -m levelset_omnia.agent` runs it; it replaces the agent's image where Pods are local processes.
"""

from levelset_omnia.agent.agent import Agent, AgentFailed
from levelset_omnia.agent.facade import Facade
from levelset_omnia.agent.settings import Settings, read_settings

__all__ = ["Agent", "AgentFailed", "Facade", "Settings", "read_settings"]
