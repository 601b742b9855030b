"""A small HTTP server: lists what the shop sells, on the port that it was given."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

THINGS = {"apple": 3, "pear": 5}


class Shop(BaseHTTPRequestHandler):
    """Answers GET with the list; `/healthz` with a short text."""

    def do_GET(self) -> None:
        """Answers a client, or a probe."""
        reply = {"ok": True} if self.path == "/healthz" else {"things": THINGS, "served_by": os.getpid()}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the word of the base class)
        """Logs requests of clients, but not of probes."""
        if self.path != "/healthz":
            print(format % args, flush=True)


def main() -> None:
    """Serves until it is stopped."""
    port = int(os.environ["PORT"])
    print(f"the shop is open at {port}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), Shop).serve_forever()


if __name__ == "__main__":
    main()
