"""Request and response formats: content negotiation, protobuf, JSONPath and Status errors."""

__all__: list[str] = []
