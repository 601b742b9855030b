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
_NEVER: Final = frozenset("ptuw")
_FIELDS: Final = rb"(?:%b: [!-~][ -~]*+\r\n)*+" % _NAME
# Without those that are not the answer yet (1xx), and those that have no body whatever they say (204, 304).
_STATUS: Final = {b"%d" % status: status for status in range(200, 600) if status not in {204, 304}}
_HEAD: Final = re.compile(
    rb"HTTP/1\.1 ([2-5][0-9][0-9]) [ -~]*+\r\n%b[Cc]ontent-[Ll]ength: ([0-9]{1,10})\r\n%b\r\n" % (_FIELDS, _FIELDS)
)


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


def read_plain(data: memoryview, size: int, most: int) -> Answer | None:
    """The answer that the first `size` bytes are, with a body of at most `most`; None leaves them to the parser.

    The pattern takes only what the parser reads in the same way: every line ends as it should, no field but one
    Content-Length says how long the body is, and none says that the connection ends with it. So there is one reading of
    where the answer ends, and that has to be the end of the data.
    """
    head = _HEAD.match(data, 0, size)
    if head is None:
        return None
    code, length = head.groups()
    start, status = head.end(), _STATUS.get(code)
    if status is None or length != b"%d" % (size - start) or size - start > most:
        return None
    return Answer(status=status, headers=LateHeaders(head.group()), body=data[start:size].tobytes())
