"""Runs the private store server and never lets it outlive the service. Started as a script.

    python -I -S watchdog.py GRACE LOCK_FD SOCKET_DIR COMMAND...

The service holds the only write end of the pipe on stdin. However it dies, the kernel
closes that end, this process reads end-of-file, terminates the server, and kills it
GRACE seconds later if it is still there. (A parent-death signal alone follows the
thread that created the child, and would fire when that thread ends.) A server that
dies by itself is started again, with back-off. Each start and exit is a line on
stdout: `started PID`, `exited STATUS`.

LOCK_FD, the lock on the data directory, is inherited by the server too, so the lock
lasts until the last process that could write there is gone.

Only the standard library, and nothing of the project, is imported here.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

FIRST_DELAY, LONGEST_DELAY, HEALTHY = 0.05, 5.0, 10.0
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Keep the server running until stdin ends; return the exit status."""
    grace, lock, directory, command = float(arguments[0]), int(arguments[1]), arguments[2], arguments[3:]
    # Handlers, because an ignored signal would stay ignored in the server; what ends
    # this process is the pipe, also when a whole control group is sent SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, _awake)
    awake, wake = os.pipe()
    os.set_blocking(awake, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    delay = FIRST_DELAY
    while True:
        began = time.monotonic()
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(lock,), preexec_fn=_die_with_parent
        )
        _report(f"started {server.pid}")
        while server.poll() is None:
            if _service_gone(awake, None):
                _end(server, grace)
                _remove(directory)
                return 0
        _report(f"exited {server.returncode}")
        delay = FIRST_DELAY if time.monotonic() - began > HEALTHY else min(delay * 2, LONGEST_DELAY)
        until = time.monotonic() + delay
        while (left := until - time.monotonic()) > 0:
            if _service_gone(awake, left):
                _remove(directory)
                return 0


def _service_gone(awake: int, timeout: float | None) -> bool:
    """Wait for end-of-file on stdin (True), or for a signal or the timeout (False)."""
    readable, _, _ = select.select([0, awake], [], [], timeout)
    if awake in readable:
        os.read(awake, 4096)
    return 0 in readable and not os.read(0, 4096)


def _end(server: "subprocess.Popen[bytes]", grace: float) -> None:
    server.terminate()
    try:
        server.wait(grace)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _remove(directory: str) -> None:
    # The service may have tidied up first; a leftover directory does no harm.
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)


def _report(line: str) -> None:
    # When nobody listens any more, the end of the pipe on stdin says the rest.
    with contextlib.suppress(OSError):
        os.write(1, line.encode() + b"\n")


def _die_with_parent() -> None:
    """Have the server terminated when this process is killed; Linux only, the pipe covers the rest."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _awake(_signal: int, _frame: FrameType | None) -> None:
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
