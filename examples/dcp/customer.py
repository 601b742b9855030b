"""A client of the shop: sends a request periodically, and continues when the shop does not answer."""

import json
import os
import time
import urllib.error
import urllib.request


def main() -> None:
    """Sends requests until it is stopped, or `VISITS` times if that is set."""
    url, left = os.environ["SHOP"], int(os.environ.get("VISITS", "0"))
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  (set by the manifest)
                found = json.load(answer)
            print(f"{', '.join(found['things'])}, says process {found['served_by']}", flush=True)
            left -= 1
            if left == 0:
                return
        except (urllib.error.URLError, OSError, ValueError) as error:
            print(f"the shop is closed: {error}", flush=True)
        time.sleep(1 if left <= 0 else 0.05)


if __name__ == "__main__":
    main()
