"""The controller of PromptPacks: validates prompts, and rolls new versions out to the agents at once or in steps."""

from levelset_omnia.promptpack.reconciler import config_maps, prompt_packs_controller
from levelset_omnia.promptpack.rollout import Progress, advance, has_reached
from levelset_omnia.promptpack.selection import Choice, PackVersion, agent_pack_keys, pack_keys, pack_name, select
from levelset_omnia.promptpack.source import Problem, check_source, config_hash, content_hash
from levelset_omnia.promptpack.status import Decision, StatusInputs, decide, superseder

__all__ = [
    "Choice",
    "Decision",
    "PackVersion",
    "Problem",
    "Progress",
    "StatusInputs",
    "advance",
    "agent_pack_keys",
    "check_source",
    "config_hash",
    "config_maps",
    "content_hash",
    "decide",
    "has_reached",
    "pack_keys",
    "pack_name",
    "prompt_packs_controller",
    "select",
    "superseder",
]
