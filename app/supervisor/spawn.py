"""Starting a worker process: never by fork, with the listening socket and one end of a socket pair, nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from app.supervisor.channel import to_worker
from app.supervisor.handle import WorkerHandle
from app.supervisor.messages import Spec

# Threads multiply with processes. Must be set before numpy and faiss are imported.
THREADS: Mapping[str, str] = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
# `-P`: what lies in the folder that the service is started in is no module, unless it is one for the supervisor too.
COMMAND: Sequence[str] = (sys.executable, "-P", "-m", "app.worker")


class Spawner:
    """Starts workers on one listening socket. `command` gets two more words: the descriptors of socket and channel."""

    def __init__(
        self, listening: socket.socket, command: Sequence[str] = COMMAND, env: Mapping[str, str] | None = None
    ) -> None:
        self._listening = listening
        self._command = list(command)
        self._env = {**THREADS, **(os.environ if env is None else env), "PYTHONPATH": _python_path()}

    async def __call__(self, spec: Callable[[], Spec]) -> WorkerHandle:
        """Start one. Raises OSError when there can be no further process.

        `spec` is asked for when the channel is open: nothing is waited for after it, so that a push, which looks for
        workers that start with something else, never overlooks one.
        """
        ours, theirs = socket.socketpair()
        try:
            channel = await to_worker(ours)
            try:
                return WorkerHandle(spec(), self._start(theirs.fileno()), channel)
            except BaseException:
                channel.close()
                raise
        finally:
            theirs.close()

    def _start(self, control: int) -> subprocess.Popen[bytes]:
        descriptors = (self._listening.fileno(), control)
        return subprocess.Popen(
            [*self._command, *map(str, descriptors)],
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
            env=self._env,
            # A signal to the terminal's foreground group (Ctrl-C) is for the supervisor alone.
            start_new_session=True,
        )


def _python_path() -> str:
    """The worker finds what this process finds: its script's folder, or the one that it was started in."""
    first = [] if sys.flags.safe_path else [os.path.abspath(sys.path[0] or os.curdir)]
    return os.pathsep.join([*first, *filter(None, [os.environ.get("PYTHONPATH")])])
