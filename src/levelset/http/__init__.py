"""The server edge: HTTP/1.1 in front of one plain callable.

A `Handler` takes a `Request` and gives a `Response`. `Server` puts it on a socket, `to_asgi` into any ASGI server, and
a test or a client in the same process simply calls it and reads the body with `iterate`.
"""

from levelset.http.asgi import to_asgi
from levelset.http.certificate_authority import Authority, Identity, load_identity, renew_identity
from levelset.http.limits import Limits
from levelset.http.messages import Deferred, Handler, Headers, Peer, Push, Request, Response, Sink, Tunnel
from levelset.http.outbound_client import Destination, Posted, Poster
from levelset.http.private_files import write_private
from levelset.http.response_writer import Failure, to_status
from levelset.http.server import Server
from levelset.http.streaming import iterate, read_all
from levelset.http.websocket import WebSocket, accept_websocket, is_websocket

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
