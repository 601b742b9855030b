"""How much one client may ask of the server, and for how long it may take over it."""

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of the server edge; sizes are bytes, times are seconds.

    Most times are checked `every` so often for all connections together, so that is how exact they are. Nothing here
    bounds how long a handler or a stream may run: a watch lives as long as both sides want it to.
    """

    target_bytes: int = 32 * 1024
    """The path and query of a request; more is answered with 414."""

    head_bytes: int = 64 * 1024
    """All header lines of a request together; more is answered with 431."""

    header_count: int = 256
    """The number of header lines; more is answered with 431."""

    body_bytes: int = 3 * 1024 * 1024
    """The body of a request; more is answered with 413. This default is the one of Kubernetes."""

    connections: int = 10_000
    """Open connections; one more is answered with 503 and closed."""

    handshake_within: float = 10.0
    """From the connection to the end of the TLS handshake."""

    head_within: float = 30.0
    """From the first byte of a request (or the connection) to the end of its headers; then 408."""

    body_within: float = 60.0
    """From the end of the headers to the end of the body; then 408."""

    idle_within: float = 120.0
    """Between two requests on one connection; then it is closed without a word."""

    stall_within: float = 60.0
    """How long a client may take nothing of an answer that waits for it; then the connection is cut."""

    linger_within: float = 2.0
    """How long a refused client may go on sending, so that it finds the time to read the refusal."""

    finish_within: float = 1.0
    """How long a client may take over a request that it has begun to send when the server stops; then it is cut."""

    every: float = 1.0
    """How often the times above are looked at."""
