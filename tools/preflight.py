"""Says what the system lacks before anything is installed. Runs on any Python 3."""

import ctypes.util
import sys


def problems():
    """What stands in the way, one sentence each."""
    found = []
    if sys.version_info < (3, 11):  # noqa: UP036 - this very file must run on an older one to say so
        found.append(
            "Python {}.{} is too old. Expected 3.11 or newer: install it, or run make PYTHON=python3.11.".format(
                *sys.version_info
            )
        )
    if sys.platform.startswith("linux") and ctypes.util.find_library("gomp") is None:
        found.append("The library libgomp1 is missing (LightGBM needs it). On Debian: apt-get install libgomp1.")
    return found


if __name__ == "__main__":
    lines = problems()
    for line in lines:
        sys.stderr.write("install: " + line + "\n")
    sys.exit(1 if lines else 0)
