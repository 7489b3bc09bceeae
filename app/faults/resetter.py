"""Makes connections and resets them, in turn in every state. `python -m app.faults.resetter HOST PORT COUNT BODY`."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from collections.abc import Sequence

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_PATIENCE = 5.0


def main(words: Sequence[str]) -> int:
    """Prints how many connections were reset; the exit status."""
    host, port, count, body = words[0], int(words[1]), int(words[2]), words[3].encode()
    head = b"POST /recommend HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )
    whole = head + body
    # What is sent before the reset, and whether some of the answer is read first. Whole requests are few: they cost
    # the service a list each, and this is no overload.
    cheap = ((b"", False), (head[:20], False), (head + body[:5], False)) * 6
    states = (*cheap, (whole, False), (whole, True))
    made = 0
    for at in range(count):
        sent, read = states[at % len(states)]
        # A server that is being reset may itself refuse or hang up: the next one tries again.
        with contextlib.suppress(OSError), socket.create_connection((host, port), _PATIENCE) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            if sent:
                peer.sendall(sent)
            if read:
                peer.recv(1)
            made += 1
    sys.stdout.write(f"{made}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
