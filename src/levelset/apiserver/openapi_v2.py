"""OpenAPI v2: a document without content, which is all that clients need of it where v3 is served.

Old versions of kubectl ask for it in protobuf and give up without it; what they check there, they then do not check.
"""

from typing import Final

from levelset.apiserver.versioninfo import VERSION

__all__ = ["JSON_DOCUMENT", "PROTOBUF_DOCUMENT", "PROTOBUF_TYPE"]

PROTOBUF_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

TITLE = b"Kubernetes"
_VERSION = VERSION["gitVersion"].encode()


def _field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message that holds bytes; its length must fit into one byte."""
    return bytes([number << 3 | 2, len(content)]) + content


# swagger (1), info (2) with title (1) and version (2), paths (8), definitions (9)
PROTOBUF_DOCUMENT: Final = b"".join(
    (
        _field(1, b"2.0"),
        _field(2, _field(1, TITLE) + _field(2, _VERSION)),
        _field(8, b""),
        _field(9, b""),
    )
)
JSON_DOCUMENT: Final = b'{"swagger":"2.0","info":{"title":"%b","version":"%b"},"paths":{},"definitions":{}}' % (
    TITLE,
    _VERSION,
)
