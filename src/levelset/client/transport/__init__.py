"""The transports of the client: HTTP/1.1 over sockets, or an API server in the same process."""

__all__: list[str] = []
