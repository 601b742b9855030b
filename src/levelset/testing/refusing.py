"""What a loop in virtual time refuses, and what it says to whoever tries."""

from collections.abc import Callable
from typing import Any, Final, NoReturn

from levelset.errors import ConfigError

__all__ = ["REFUSED", "RealTime", "RealWork", "refusal"]

_INSIDE: Final = "give an object of this process to whoever needs it (`Client.connect(server)` needs no socket)"
_PROCESS: Final = (
    "hand the part that starts it to your code as a function or an object, and give another one in the test"
)

REFUSED: Final = {
    "add_reader": ("a file descriptor", _INSIDE),
    "add_writer": ("a file descriptor", _INSIDE),
    "connect_accepted_socket": ("a socket", _INSIDE),
    "connect_read_pipe": ("a pipe", _INSIDE),
    "connect_write_pipe": ("a pipe", _INSIDE),
    "create_connection": ("a connection", _INSIDE),
    "create_datagram_endpoint": ("a datagram socket", _INSIDE),
    "create_server": ("a listening socket", _INSIDE),
    "create_unix_connection": ("a connection", _INSIDE),
    "create_unix_server": ("a listening socket", _INSIDE),
    "getaddrinfo": ("a name lookup", _INSIDE),
    "getnameinfo": ("a name lookup", _INSIDE),
    "sendfile": ("a socket", _INSIDE),
    "sock_accept": ("a socket", _INSIDE),
    "sock_connect": ("a socket", _INSIDE),
    "sock_recv": ("a socket", _INSIDE),
    "sock_recv_into": ("a socket", _INSIDE),
    "sock_recvfrom": ("a socket", _INSIDE),
    "sock_recvfrom_into": ("a socket", _INSIDE),
    "sock_sendall": ("a socket", _INSIDE),
    "sock_sendfile": ("a socket", _INSIDE),
    "sock_sendto": ("a socket", _INSIDE),
    "start_tls": ("a connection", _INSIDE),
    "subprocess_exec": ("a process", _PROCESS),
    "subprocess_shell": ("a process", _PROCESS),
}
"""Methods of an event loop that wait for the world outside: what they open, and what to do instead."""


class RealTime(ConfigError):
    """Something was asked that only virtual time can do."""


class RealWork(ConfigError):
    """Something was asked of the world outside while time was virtual."""


def refusal(name: str) -> Callable[..., NoReturn]:
    """A method that refuses to do what the one of this name does, and says why."""
    what, instead = REFUSED[name]

    def refuse(*args: Any, **_: Any) -> NoReturn:
        raise RealWork(
            f"{name}({_shown(args)}): {what} needs real time, and time is virtual here: the clock jumps on before any "
            f"answer can come. Either {instead}, or take real time for this test: @pytest.mark.real_time"
        )

    return refuse


def _shown(args: tuple[Any, ...]) -> str:
    """The arguments that say something to a person."""
    told = [repr(one) for one in args if isinstance(one, str | bytes | int)]
    return ", ".join(told)[:200]
