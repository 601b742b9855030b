"""Request and response formats: paths, options, negotiation, protobuf, JSONPath, Status errors and webhook calls."""

__all__: list[str] = []
