"""Subresources with a behaviour of their own: scale, eviction, token, log and a namespace's finalize."""

__all__: list[str] = []
