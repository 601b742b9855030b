"""A sample agent that needs no key: it serves health and a facade, reads its prompts, and calls tools.

`python -m levelset_omnia.agent` runs it; it replaces the agent's image where Pods are local processes.
"""

from levelset_omnia.agent.agent import Agent
from levelset_omnia.agent.facade import Facade
from levelset_omnia.agent.settings import Settings, read_settings

__all__ = ["Agent", "Facade", "Settings", "read_settings"]
