"""The source of a pack: validates the ConfigMap with the prompts, and hashes its content."""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from levelset.kinds.core_v1 import ConfigMap
from levelset_omnia.kinds import PromptPack, Revision

__all__ = ["Problem", "check_source", "config_hash", "content_hash"]

_DIGITS: Final = 16


class Problem(Struct, frozen=True):
    """Why a source is invalid; `missing` means that its ConfigMap does not exist yet."""

    message: str
    missing: bool = False


def check_source(pack: PromptPack, config_map: ConfigMap | None) -> Revision | Problem:
    """The revision of a pack with the ConfigMap that it references, or the problem."""
    named = pack.spec.source.config_map_ref
    if named is None:
        return Problem("spec.source.configMapRef is missing; name the ConfigMap with the prompts")
    if config_map is None:
        return Problem(f"ConfigMap {named.name} does not exist", missing=True)
    if not config_map.data and not config_map.binary_data:
        return Problem(f"ConfigMap {named.name} is empty; put prompts into its data")
    return Revision(version=pack.spec.version, config_map=named.name, hash=content_hash(config_map))


def content_hash(config_map: ConfigMap) -> str:
    """The hash of the content of a ConfigMap."""
    binary = {f"binary/{name}": value.hex() for name, value in config_map.binary_data.items()}
    return config_hash({**{f"data/{name}": text for name, text in config_map.data.items()}, **binary})


def config_hash(parts: Mapping[str, str]) -> str:
    """A hash of 16 hex digits over named parts, independent of their order and stable across processes."""
    text = json.dumps(dict(parts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
