"""Answers that came whole in one piece, as most do: they are read at a glance, without the parser's many steps."""

import re
from typing import Any, Final

from levelset.client.calls import Answer
from levelset.web.messages import Headers

__all__ = ["LateHeaders", "read_plain"]

# Not all that HTTP allows: whatever looks unusual is for the parser to judge. Of the fields whose names begin with C,
# P, T or U some say where the answer ends or whether the connection stays: of those, only two are known to be harmless.
# A Warning is rare, and looked for in every answer: so that it need not be, W is for the parser too.
_NAME: Final = rb"(?:[ABD-OQ-SVX-Zabd-oq-svx-z][0-9A-Za-z-]*+|Cache-Control|Content-Type|cache-control|content-type)"
_NEVER: Final = frozenset("puw")
_FIELDS: Final = rb"(?:%b: [!-~][ -~]*+\r\n)*+" % _NAME
_FRAMING: Final = rb"(?:[Cc]ontent-[Ll]ength: ([0-9]{1,10})|[Tt]ransfer-[Ee]ncoding: chunked)\r\n"
_HEAD: Final = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9]) [ -~]*+\r\n%b%b%b\r\n" % (_FIELDS, _FRAMING, _FIELDS))
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,7})\r\n")
_LAST: Final = b"\r\n0\r\n\r\n"
# Without those that are not the answer yet (1xx), and those that have no body whatever they say (204, 304).
_STATUS: Final = {b"%d" % status: status for status in range(200, 600) if status not in {204, 304}}


class LateHeaders(Headers):
    """The header fields of a head that was found to be plain; they are read when somebody asks for one."""

    __slots__ = ("_head",)

    def __init__(self, head: bytes) -> None:
        self._head = head

    def find(self, name: str) -> str | None:
        """The value of a field, or None if it was not sent; `name` must be in lower case."""
        return None if name[:1] in _NEVER else self._values.get(name)

    def __getattr__(self, name: str) -> Any:
        """Reads the head when what the fields are kept in is needed for the first time."""
        if name not in {"_repeated", "_values"}:
            raise AttributeError(name, name=name, obj=self)
        self._values = {}
        self._repeated = None
        for line in self._head.decode("ascii").split("\r\n")[1:-2]:
            field, _, value = line.partition(": ")
            self.add(field.lower(), value.strip(" "))
        return getattr(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return Headers, (tuple(self),)  # a copy is not late any more


def read_plain(data: memoryview, size: int, most: int) -> Answer | None:
    """The answer that the first `size` bytes are, with a body of at most `most`; None leaves them to the parser.

    The pattern takes only what the parser reads in the same way: every line ends as it should, one field says where the
    body ends, and none says that the connection ends with it. So there is one reading of where the answer ends, and
    that has to be the end of the data.
    """
    head = _HEAD.match(data, 0, size)
    if head is None:
        return None
    code, length = head.groups()
    status, start = _STATUS.get(code), head.end()
    if length is None:
        body = _only_chunk(data, start, size)
    else:
        body = data[start:size].tobytes() if length == b"%d" % (size - start) and size - start <= most else None
    if status is None or body is None:
        return None
    return Answer(status=status, headers=LateHeaders(head.group()), body=body)


def _only_chunk(data: memoryview, start: int, size: int) -> bytes | None:
    """The body that is one chunk: so a server sends what it had ready at once, but did not count before."""
    line = _CHUNK.match(data, start, size)
    if line is None:
        return None
    start, end = line.end(), size - len(_LAST)
    is_whole = int(line[1], 16) == end - start > 0 and data[end:size].tobytes() == _LAST
    return data[start:end].tobytes() if is_whole else None
