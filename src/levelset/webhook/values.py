"""What hooks and conversions have in common: each is a value that a program lists under `webhooks`."""

__all__ = ["Webhook"]


class Webhook:
    """A part of a program's admission or conversion; made by `defaults`, `validates` and `converts`."""

    __slots__ = ()
