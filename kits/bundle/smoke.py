"""Try a built bundle: ``python kits/bundle/smoke.py [COMMAND…]``, by default the program in ``dist``.

Checks that its modules are compiled, as those of a release are. Starts a broker, sends a message that is due
in half an hour, moves the clock, receives it, and stops the broker by closing its input. Prints how long the
start took.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

DIST = Path(__file__).parents[2] / "dist"
_URL = re.compile(r"JSON API at (http://\S+:\d+)")
_STOP_S = 30


def main(command: list[str]) -> None:
    """Try the bundle; an exception says what failed."""
    version = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True)
    if not version.stdout.endswith(", compiled\n"):
        raise SystemExit(f"the bundle is not compiled; it said: {version.stdout!r}")
    began = time.monotonic()
    serve = ("serve", "--port", "0", "--data", ":memory:", "--clock", "manual", "--until-eof")
    with subprocess.Popen(
        [*command, *serve], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as broker:
        assert broker.stdin and broker.stdout  # noqa: S101 - both are pipes
        try:
            line = broker.stdout.readline()
            ready_s = time.monotonic() - began
            found = _URL.search(line)
            if found is None:
                raise SystemExit(f"the broker did not start; it said: {line!r}")
            deliver_late(found[1])
            broker.stdin.close()
            code = broker.wait(_STOP_S)
        finally:
            broker.kill()
    if code:
        raise SystemExit(f"the broker ended with exit code {code}")
    print(f"{version.stdout.strip()}: ready after {ready_s:.2f} s; delivered a delayed message, and stopped")


def deliver_late(url: str) -> None:
    """Send a message with a delay, and receive it after advancing the clock."""
    call(url, "/v1/topics/orders/messages", {"body": "order 7", "delay_level": 16})
    call(url, "/v1/clock/advance", {"by": "30m"})
    received = call(url, "/v1/groups/billing/receive", {"topic": "orders"})
    if "order 7" not in json.dumps(received):
        raise SystemExit(f"the message was not delivered: {received}")


def call(url: str, path: str, body: dict[str, object]) -> object:
    """POST to the JSON API."""
    request = Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    with urlopen(request, timeout=_STOP_S) as answer:  # noqa: S310 - the broker's own address
        return json.load(answer)


if __name__ == "__main__":
    main(sys.argv[1:] or [str(next(DIST.glob(f"mocketmq-*/mocketmq{'.exe' * (sys.platform == 'win32')}")))])
