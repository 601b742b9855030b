"""Short hashes of settings: two agents that read the same have the same hash, in every process and every year."""

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from levelset.kinds.core_v1 import ConfigMap, Secret

__all__ = ["config_hash", "content_hash", "secret_hash"]

_DIGITS: Final = 16


def config_hash(parts: Mapping[str, str]) -> str:
    """Sixteen digits that change when one of the named parts does, and not with their order."""
    text = json.dumps(dict(parts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def content_hash(config_map: ConfigMap) -> str:
    """The hash of everything in a ConfigMap."""
    binary = {f"binary/{name}": value.hex() for name, value in config_map.binary_data.items()}
    return config_hash({**{f"data/{name}": text for name, text in config_map.data.items()}, **binary})


def secret_hash(secret: Secret) -> str:
    """The hash of everything in a Secret; nobody learns the values from it, as it is only a part of another hash."""
    return config_hash({name: value.hex() for name, value in secret.data.items()})
