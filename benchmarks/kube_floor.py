"""What the requests of kube.py cost a server in Python that does nothing else: uvloop, TLS, JSON, and SQLite with its sync.

Each body is decoded, gets the metadata that a server sets, is encoded, stored and sent back; the writes of one loop
iteration share a commit. There are no paths, kinds, permissions, validation, owners of fields, history or watches, so no
server in Python that keeps what it acknowledges costs less.
"""

import argparse
import asyncio
import json
import sqlite3
from functools import partial
from typing import Any, Final

import msgspec
import uvloop

from levelset.http.certificate_authority import CertificateAuthority

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_LOG_BYTES: Final = 16 * 1024 * 1024
_METADATA: Final = {
    "uid": "00000000-0000-0000-0000-000000000000",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "managedFields": [
        {
            "manager": "bench",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:text": {}}},
        }
    ],
}


class Store:
    """The objects by path, and the file that they are in; a commit answers all who wait for it."""

    def __init__(self, path: str) -> None:
        self.objects: dict[bytes, bytes] = {}
        self._revision = 0
        self._waiting: list[tuple[bytes, bytes, Connection, bytes]] = []
        self._file = sqlite3.connect(path, isolation_level=None)
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0"):
            self._file.execute(f"PRAGMA {pragma}")
        self._file.execute("CREATE TABLE items (key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL)")
        # A log whose blocks are allocated is synced in half of the time.
        self._file.execute("INSERT INTO items VALUES ('filler', zeroblob(?), 0)", (_LOG_BYTES,))
        self._file.execute("DELETE FROM items")
        self._file.execute("PRAGMA wal_checkpoint(RESTART)")

    def put(self, connection: "Connection", path: bytes, body: bytes, status: bytes) -> None:
        tree = _decode(body)
        self._revision += 1
        tree["metadata"] |= _METADATA
        tree["metadata"]["resourceVersion"] = str(self._revision)
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._commit)
        key = path if status == b"200 OK" else path + b"/" + tree["metadata"]["name"].encode()
        self._waiting.append((key, _encode(tree), connection, status))

    def _commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        first = self._revision - len(waiting) + 1
        rows = [(key.decode(), value, first + at) for at, (key, value, _, _) in enumerate(waiting)]
        self._file.execute("BEGIN")
        self._file.executemany("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", rows)
        self._file.execute("COMMIT")
        for key, value, connection, status in waiting:
            self.objects[key] = value
            connection.send(status, value)

    def list(self, path: bytes) -> bytes:
        items = b",".join([value for key, value in self.objects.items() if key.startswith(path)])
        return b'{"kind":"ConfigMapList","apiVersion":"v1","items":[' + items + b"]}"


class Connection(asyncio.Protocol):
    """One connection of a client, which sends a request when it has the response to the last one."""

    def __init__(self, store: Store) -> None:
        self._store, self._rest = store, b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        head, end, body = self._rest.partition(b"\r\n\r\n")
        if not end:
            return
        length = head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0]
        if len(body) < int(length or 0):
            return
        self._rest = b""
        method, target, _ = head.split(b" ", 2)
        path = target.partition(b"?")[0]
        if method == b"GET":
            self.send(b"200 OK", self._store.list(path + b"/"))
        else:
            is_new = method == b"POST" or (method == b"PATCH" and path not in self._store.objects)
            if method == b"PATCH" and is_new:
                path = path.rpartition(b"/")[0]
            self._store.put(self, path, body, b"201 Created" if is_new else b"200 OK")

    def send(self, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self._transport.write(head + body)


async def main(path: str) -> None:
    authority = CertificateAuthority.create("floor")
    context = authority.server_context(authority.issue_server())
    store = Store(path)
    server = await asyncio.get_running_loop().create_server(partial(Connection, store), "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"port": port, "ca": authority.certificate.decode()}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", help="the data file, which must not exist")
    uvloop.run(main(parser.parse_args().path))
