"""Says whether the prompts of a pack can be used: there has to be a ConfigMap, with something in it."""

from dataclasses import dataclass

from levelset.kinds.core_v1 import ConfigMap
from levelset_omnia.hashing import content_hash
from levelset_omnia.kinds import PromptPack, Revision

__all__ = ["Problem", "check_source"]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a source; something that is `missing` may still come."""

    message: str
    missing: bool = False


def check_source(pack: PromptPack, config_map: ConfigMap | None) -> Revision | Problem:
    """The version that a pack offers now, given the ConfigMap that it names; or what is wrong."""
    named = pack.spec.source.config_map_ref
    if named is None:
        return Problem("spec.source.configMapRef is missing; name the ConfigMap with the prompts")
    if config_map is None:
        return Problem(f"ConfigMap {named.name} is not there", missing=True)
    if not config_map.data and not config_map.binary_data:
        return Problem(f"ConfigMap {named.name} is empty; put prompts into its data")
    return Revision(version=pack.spec.version, config_map=named.name, hash=content_hash(config_map))
