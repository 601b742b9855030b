"""The limits of the HTTP server: sizes, connections and timeouts."""

import msgspec

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the HTTP server; sizes are in bytes, times in seconds.

    Most times are checked every `every` seconds for all connections together, which is their precision. Nothing here
    limits how long a handler or a stream may run: a watch lasts as long as both sides want.
    """

    target_bytes: int = 32 * 1024
    """The path and query of a request; beyond it the response is 414."""

    head_bytes: int = 64 * 1024
    """All header lines of a request together; beyond it the response is 431."""

    header_count: int = 256
    """The number of header lines; beyond it the response is 431."""

    body_bytes: int = 3 * 1024 * 1024
    """The body of a request; beyond it the response is 413. The default is that of kube-apiserver."""

    bodies_bytes: int = 256 * 1024 * 1024
    """All request bodies in flight together; a body beyond it gets 429 with `Retry-After`, and the connection closes.

    Bodies that arrive whole with their head (at most 64 KiB) are not counted.
    """

    client_bodies_bytes: int = 64 * 1024 * 1024
    """As `bodies_bytes`, for the bodies of one client: a user, or an address if the server knows no users."""

    connections: int = 10_000
    """Open connections; one more gets a 503 and is closed."""

    handshake_within: float = 10.0
    """From the connection to the end of the TLS handshake."""

    head_within: float = 30.0
    """From the first byte of a request (or the connection) to the end of its headers; then 408."""

    body_within: float = 60.0
    """From the end of the headers to the end of the body; then 408."""

    idle_within: float = 120.0
    """Between two requests on one connection; then it is closed without a response."""

    stall_within: float = 60.0
    """How long a client may read nothing of a pending response; then the connection is aborted.

    Over TLS, what was read counts in steps of about 256 KiB, and the last of them may take as long as this.
    """

    linger_within: float = 2.0
    """How long a client that has its last response may take to close; a refused one may continue to send until then."""

    finish_within: float = 1.0
    """How long a client may take to finish a request it is sending when the server stops; then it is aborted."""

    every: float = 1.0
    """How often the times above are checked."""
