"""Admission: webhooks and policies that may change or refuse a write."""

__all__: list[str] = []
