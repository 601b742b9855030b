"""The server edge: HTTP/1.1 in front of one plain callable.

A `Handler` takes a `Request` and gives a `Response`. `Server` puts it on a socket, `to_asgi` into any ASGI server, and
a test or a client in the same process simply calls it and reads the body with `iterate`.
"""

from levelset.web.asgi import to_asgi
from levelset.web.bodies import iterate, read_all
from levelset.web.certificates import Authority, Identity, load_identity, renew_identity
from levelset.web.deferred import Deferred
from levelset.web.failures import Failure, to_status
from levelset.web.files import write_private
from levelset.web.limits import Limits
from levelset.web.messages import Handler, Headers, Peer, Push, Request, Response, Sink, Tunnel
from levelset.web.posting import Destination, Poster
from levelset.web.serving import Server
from levelset.web.websocket import WebSocket, accept_websocket, is_websocket
from levelset.web.wires import Posted

__all__ = [
    "Authority",
    "Deferred",
    "Destination",
    "Failure",
    "Handler",
    "Headers",
    "Identity",
    "Limits",
    "Peer",
    "Posted",
    "Poster",
    "Push",
    "Request",
    "Response",
    "Server",
    "Sink",
    "Tunnel",
    "WebSocket",
    "accept_websocket",
    "is_websocket",
    "iterate",
    "load_identity",
    "read_all",
    "renew_identity",
    "to_asgi",
    "to_status",
    "write_private",
]
