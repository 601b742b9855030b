"""A customer of the shop: asks now and then, wherever the shop is, and does not mind if it is closed for a while."""

import json
import os
import time
import urllib.error
import urllib.request


def main() -> None:
    """Asks until it is stopped; `VISITS` says how often, if it is to end by itself."""
    url, left = os.environ["SHOP"], int(os.environ.get("VISITS", "0"))
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  (told by the manifest)
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
