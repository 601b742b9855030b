"""Trees as whole response bodies: compact JSON, indented JSON or YAML."""

from typing import Any, Final, Literal

import msgspec

from levelset.http import Request
from levelset.objects import encode_tree

__all__ = ["BROWSERS", "BodyForm", "encode", "indent", "is_pretty", "yaml"]

BodyForm = Literal["json", "pretty", "yaml"]
BROWSERS: Final = ("curl", "Wget", "Mozilla/5.0")
"""How the user agents begin that get indented JSON unless they ask for another form."""


def encode(tree: Any, form: BodyForm) -> bytes:
    """The tree as a whole body; as upstream, indented JSON has no line break at its end."""
    match form:
        case "yaml":
            return yaml(tree)
        case "pretty":
            return indent(encode_tree(tree))
        case _:
            return encode_tree(tree) + b"\n"


def indent(data: bytes) -> bytes:
    """JSON, indented."""
    return msgspec.json.format(data, indent=2)


def yaml(tree: Any) -> bytes:
    """The tree as YAML."""
    from levelset.objects.yaml_codec import write_yaml  # noqa: PLC0415 - only YAML responses pay for the import

    return write_yaml([tree]).encode()


def is_pretty(request: Request) -> bool:
    """Whether to indent: as the `pretty` parameter says, by default for browsers, curl and wget."""
    if request.query and "pretty" in request.query:
        pretty = request.parameter("pretty")
        if pretty:
            return pretty in ("1", "t", "T", "true", "TRUE", "True")
    agent = request.headers.find("user-agent")
    return agent is not None and agent.startswith(BROWSERS)
