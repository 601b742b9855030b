"""What the messages of paced_operator.py cost alone: uvloop, TLS and JSON, without anything that a runtime does.

Two watches and one connection for writes. Each Website that is created gets its ConfigMap and its status by the same two
requests, and each event and response is decoded once. There is no cache, no queue and no retry, and errors end it.
"""

import argparse
import asyncio
import base64
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop
import yaml

_WEBSITES = "/apis/example.dev/v1/namespaces/default/websites"
_MAPS = "/api/v1/namespaces/default/configmaps"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Connection(asyncio.Protocol):
    """One connection: the caller gets each response as it ends, or each line of a watch."""

    def __init__(self, take: Callable[[bytes], None], *, is_watch: bool) -> None:
        self._take, self._is_watch, self._rest = take, is_watch, b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        if self._is_watch:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                if line.startswith(b'{"type"'):
                    self._take(line)
            return
        head, end, body = self._rest.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        if len(body) >= length:
            self._rest = b""
            assert head.startswith(b"HTTP/1.1 20"), head + body
            self._take(body)


class Operator:
    """Handles one Website after the other."""

    def __init__(self, host: str, token: str) -> None:
        self._head = f"Host: {host}\r\nAccept: application/json\r\nAuthorization: Bearer {token}\r\n"
        self._waiting: list[Any] = []
        self._is_at_status = False
        self.writes = Connection(self._on_response, is_watch=False)
        self.websites = Connection(self._on_website, is_watch=True)
        self.maps = Connection(_decode, is_watch=True)

    def watch(self, path: str) -> bytes:
        return f"GET {path}?watch=true&resourceVersion=0 HTTP/1.1\r\n{self._head}\r\n".encode()

    def _on_website(self, line: bytes) -> None:
        event = _decode(line)
        if event["type"] == "ADDED":
            self._waiting.append(event["object"])
            if len(self._waiting) == 1:
                self._send_child()

    def _send_child(self) -> None:
        site = self._waiting[0]
        metadata = site["metadata"]
        owner = {"apiVersion": site["apiVersion"], "kind": site["kind"], "name": metadata["name"]}
        owner |= {"uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}
        named = {"name": metadata["name"], "namespace": "default", "ownerReferences": [owner]}
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"image": site["spec"]["image"]}}
        self._patch(f"{_MAPS}/{metadata['name']}", tree)

    def _on_response(self, body: bytes) -> None:
        _decode(body)
        if self._is_at_status:
            self._is_at_status = False
            del self._waiting[0]
            if self._waiting:
                self._send_child()
            return
        self._is_at_status = True
        site = self._waiting[0]
        tree = {"apiVersion": site["apiVersion"], "kind": site["kind"], "metadata": {"name": site["metadata"]["name"]}}
        self._patch(f"{_WEBSITES}/{site['metadata']['name']}/status", tree | {"status": {"ready": 1}})

    def _patch(self, path: str, tree: Any) -> None:
        body = _encode(tree)
        head = f"PATCH {path}?fieldManager=floor&force=true HTTP/1.1\r\n{self._head}"
        head += f"Content-Type: application/apply-patch+yaml\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writes.transport.write(head.encode() + body)


async def main(config: Any) -> None:
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    address = urlsplit(str(cluster["server"]))
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    operator, loop = Operator(address.netloc, user["token"]), asyncio.get_running_loop()
    for connection in (operator.writes, operator.websites, operator.maps):
        await loop.create_connection(partial(_same, connection), address.hostname, address.port or 443, ssl=context)
    operator.websites.transport.write(operator.watch(_WEBSITES))
    operator.maps.transport.write(operator.watch(_MAPS))
    await asyncio.Event().wait()


def _same(connection: Connection) -> Connection:
    return connection


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    uvloop.run(main(yaml.safe_load(Path(parser.parse_args().kubeconfig).read_text())))
