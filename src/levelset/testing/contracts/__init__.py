"""Conformance checks for implementers: the contracts of storage backends and transports."""

__all__: list[str] = []
