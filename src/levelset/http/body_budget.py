"""The memory bound of request bodies: counts their bytes while they are in flight, in all and by client.

A body counts from its first part until its response is sent, or until the connection ends. One that arrives whole with
its head is not counted: it is at most one read, and the handler is called at once.
"""

from levelset.http.limits import Limits

__all__ = ["BodyBudget", "BodyCharge"]


class BodyBudget:
    """The bytes of all request bodies in flight of one server."""

    __slots__ = ("_clients", "_limits", "total")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._clients: dict[str, int] = {}
        self.total = 0
        """Bytes in flight of all clients."""

    @property
    def clients(self) -> int:
        """The number of clients with a body in flight."""
        return len(self._clients)

    def open(self, client: str) -> "BodyCharge":
        """A charge of no bytes yet for the body of a client."""
        return BodyCharge(self, client)

    def add(self, client: str, size: int) -> bool:
        """Counts more bytes of a client; False, and counts nothing, if a limit would be exceeded."""
        limits, used = self._limits, self._clients.get(client, 0)
        if self.total + size > limits.bodies_bytes or used + size > limits.client_bodies_bytes:
            return False
        self.total += size
        self._clients[client] = used + size
        return True

    def remove(self, client: str, size: int) -> None:
        """Counts bytes of a client no longer."""
        self.total -= size
        left = self._clients.get(client, 0) - size
        if left > 0:
            self._clients[client] = left
        else:
            self._clients.pop(client, None)


class BodyCharge:
    """The counted bytes of one body."""

    __slots__ = ("_budget", "_client", "size")

    def __init__(self, budget: BodyBudget, client: str) -> None:
        self._budget = budget
        self._client = client
        self.size = 0

    def grow(self, size: int) -> bool:
        """Counts the body with this size; False if that exceeds a limit, and the size stays as it was."""
        if size > self.size:
            if not self._budget.add(self._client, size - self.size):
                return False
            self.size = size
        return True

    def release(self) -> None:
        """Counts the body no longer; may be called again."""
        if self.size:
            size, self.size = self.size, 0
            self._budget.remove(self._client, size)
