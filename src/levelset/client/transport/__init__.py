"""How a call travels to an API server: HTTP/1.1 connections, or straight into a server of this process."""

__all__: list[str] = []
