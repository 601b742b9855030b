"""gRPC over HTTP/2 for asyncio: the pure state of a connection, and the channel that drives it on a socket."""

__all__: list[str] = []
