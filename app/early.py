"""The first and last moments of `recserve serve`: signals when nobody can act on them, and standard streams."""

from __future__ import annotations

import os
import signal
import sys

KEPT = (signal.SIGHUP, signal.SIGUSR1)
"""Their default is to end the process; what they ask for can wait until it serves."""
HELD = (*KEPT, signal.SIGINT)
"""An interrupt in the middle of an import would end as any error at all."""


def hold_signals() -> None:
    """HELD stay with the kernel, until `keep_signals`. Nothing may be started meanwhile: it would inherit that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD)


def keep_signals() -> list[int]:
    """Collect in the list which of KEPT came, those held so far included, until other handlers are installed.

    Raises KeyboardInterrupt for an interrupt that was held.
    """
    came: list[int] = []
    # Handlers, not SIG_IGN, which the private store would inherit.
    for number in KEPT:
        signal.signal(number, lambda number, _: came.append(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
    return came


def fill_standard_streams() -> None:
    """Open the null device for each of the descriptors 0 to 2 that is closed.

    Else a socket would get its number, and a worker or an extension that prints would write into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free: this one
    # Python has None for those that were closed. They stay open for the whole process, so there is no `with`.
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open till the end
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open till the end


def mute_output() -> None:
    """What is still to be written to standard output, at the process's end too, goes nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
