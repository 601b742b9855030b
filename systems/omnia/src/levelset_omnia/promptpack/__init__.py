"""PromptPacks: their prompts are checked, and new versions come to the agents at once or in steps."""

from levelset_omnia.promptpack.reconcile import config_maps, prompt_packs_controller
from levelset_omnia.promptpack.rollout import Progress, advance, is_carried
from levelset_omnia.promptpack.selecting import Choice, Use, offers_pack, pack_name, select, wants_pack
from levelset_omnia.promptpack.source import Problem, check_source
from levelset_omnia.promptpack.status import Decision, Known, decide, superseder

__all__ = [
    "Choice",
    "Decision",
    "Known",
    "Problem",
    "Progress",
    "Use",
    "advance",
    "check_source",
    "config_maps",
    "decide",
    "is_carried",
    "offers_pack",
    "pack_name",
    "prompt_packs_controller",
    "select",
    "superseder",
    "wants_pack",
]
