"""Asks a worker for its health, for images that have no curl.

    python -m workers.healthcheck 127.0.0.1:8080 /readyz

Prints the answer; exits 0 only on 200. Imports nothing of ours: it runs every few seconds.
"""

from __future__ import annotations

import http.client
import sys

ASK_SECONDS = 4.0


def main(address: str, path: str) -> int:
    """The exit code."""
    connection = http.client.HTTPConnection(address, timeout=ASK_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        print(answer.read().decode(errors="replace"))
    except (OSError, http.client.HTTPException) as error:
        print(f"no answer at {address}{path}: {error or type(error).__name__}")
        return 1
    finally:
        connection.close()
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
