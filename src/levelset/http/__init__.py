"""The HTTP/1.1 server, the HTTP client for webhooks, and a certificate authority for TLS.

A `Handler` takes a `Request` and returns a `Response`. `Server` serves it on a socket, `to_asgi` in any ASGI server; a
test or a client in the same process simply calls it and reads the body with `iterate`. `OutboundClient` posts JSON.
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.http.asgi import to_asgi
    from levelset.http.certificate_authority import (
        CertificateAuthority,
        Identity,
        Validity,
        load_identity,
        renew_identity,
        server_context,
        validity_of,
    )
    from levelset.http.certificate_files import CertificateFiles, LoadedCertificate
    from levelset.http.deferred_response import Deferred
    from levelset.http.forwarded_request import ForwardedRequest, forward
    from levelset.http.limits import Limits
    from levelset.http.messages import Handler, HeadCheck, Headers, Peer, Pieces, Push, Request, Response, Sink, Tunnel
    from levelset.http.outbound_client import Destination, OutboundClient, PostResponse
    from levelset.http.private_files import write_private
    from levelset.http.response_writer import Failure, to_status
    from levelset.http.server import Server
    from levelset.http.serving_certificate import ServingCertificate, renew_periodically
    from levelset.http.spdy import SpdySession, SpdyStream
    from levelset.http.streaming import Chunks, iterate, read_all
    from levelset.http.websocket import WebSocket, accept_websocket, is_websocket

__all__ = [
    "CertificateAuthority",
    "CertificateFiles",
    "Chunks",
    "Deferred",
    "Destination",
    "Failure",
    "ForwardedRequest",
    "Handler",
    "HeadCheck",
    "Headers",
    "Identity",
    "Limits",
    "LoadedCertificate",
    "OutboundClient",
    "Peer",
    "Pieces",
    "PostResponse",
    "Push",
    "Request",
    "Response",
    "Server",
    "ServingCertificate",
    "Sink",
    "SpdySession",
    "SpdyStream",
    "Tunnel",
    "Validity",
    "WebSocket",
    "accept_websocket",
    "forward",
    "is_websocket",
    "iterate",
    "load_identity",
    "read_all",
    "renew_identity",
    "renew_periodically",
    "server_context",
    "to_asgi",
    "to_status",
    "validity_of",
    "write_private",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.http.asgi": "to_asgi",
        "levelset.http.certificate_authority": (
            "CertificateAuthority Identity Validity load_identity renew_identity server_context validity_of"
        ),
        "levelset.http.certificate_files": "CertificateFiles LoadedCertificate",
        "levelset.http.deferred_response": "Deferred",
        "levelset.http.forwarded_request": "ForwardedRequest forward",
        "levelset.http.limits": "Limits",
        "levelset.http.messages": "Handler HeadCheck Headers Peer Pieces Push Request Response Sink Tunnel",
        "levelset.http.outbound_client": "Destination OutboundClient PostResponse",
        "levelset.http.private_files": "write_private",
        "levelset.http.response_writer": "Failure to_status",
        "levelset.http.server": "Server",
        "levelset.http.serving_certificate": "ServingCertificate renew_periodically",
        "levelset.http.spdy": "SpdySession SpdyStream",
        "levelset.http.streaming": "Chunks iterate read_all",
        "levelset.http.websocket": "WebSocket accept_websocket is_websocket",
    },
)
