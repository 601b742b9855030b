"""The controller runtime: watch, cache, queue, controller, object state, manager and webhooks."""

__all__: list[str] = []
