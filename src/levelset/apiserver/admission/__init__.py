"""Admission: webhooks and policies that may change or reject a write."""

__all__: list[str] = []
