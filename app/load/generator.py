"""The open loop: requests leave at their intended times, whether or not earlier ones have been answered.

Latency counts from the intended time, so that a server that stalls shows it in every request that was meant for
the stall and not only in the few that were on their way (coordinated omission: Gil Tene, "How NOT to Measure
Latency", 2015). One thread and epoll: about 60 us of CPU per request on loopback.
"""

from __future__ import annotations

import contextlib
import errno
import select
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from app.load.connection import Connection, Garbled
from app.load.plan import Plan, Schedule, schedule
from app.load.result import Connections, Result
from app.load.samples import GARBLED, LOCAL, PENDING, REFUSED, RESET, TIMEOUT, UNSENT, Recorder

_EVENTS = 64
# Errors of this machine, not of the server: no descriptors, no memory, no ports left.
_LOCAL_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL})


@dataclass(frozen=True)
class Progress:
    """How far a run is: seconds since `started` on the monotonic clock; requests due by now, answered, failed."""

    started: float
    seconds: float
    sent: int
    answered: int
    failed: int


Tick = Callable[[Progress], None]


def run(plan: Plan, tick: Tick | None = None) -> Result:
    """Send it all and wait for the last answer, at most `plan.longest` seconds.

    `tick` is called at the start, every second, and at the end. Nothing that the server does raises: it becomes an
    outcome. A broken connection costs the one request that was on it, no request is sent twice, and each opens at
    most one connection, so that reconnecting is bounded by the rate.
    """
    generator = _Generator(plan, schedule(plan), tick)
    try:
        return generator.run()
    finally:
        generator.close()


class _Generator:
    """The state of one run. Requests are numbers, in the order of their intended times."""

    def __init__(self, plan: Plan, arrivals: Schedule, tick: Tick | None) -> None:
        self._plan, self._arrivals, self._tick = plan, arrivals, tick
        self._recorder = Recorder(arrivals)
        self._outcome = self._recorder.outcome
        self._bytes = _requests(plan, arrivals)
        self._n = len(self._bytes)
        self._next = 0  # the first request that isn't due yet
        self._oldest = 0  # all before it have their outcome
        self._open: dict[int, Connection] = {}  # by descriptor
        self._flying: dict[int, Connection] = {}  # by request
        self._idle: OrderedDict[int, Connection] = OrderedDict()  # by descriptor, the longest idle first
        self._backlog: deque[int] = deque()  # due, waiting for a connection
        self._opened = self._refused = self._dropped = self._idled = self._answered = self._failed = 0
        # Opened before any connection: select() takes descriptors below 1024 only.
        self._epoll = select.epoll()

    def run(self) -> Result:
        """From the first connection to the last outcome."""
        for _ in range(min(self._plan.opened, self._plan.connections)):
            self._connect(-1)
        cpu = time.thread_time()
        self._started = started = time.monotonic()
        self._due = (self._arrivals.due + started).tolist()
        end, ticking = started + self._plan.seconds, started + 1.0
        self._progress(started)
        while True:
            self._admit()
            now = time.monotonic()
            self._expire(now)
            self._drain()
            if now >= ticking:
                ticking += 1.0
                self._progress(now)
            if now >= end and self._next == self._n == self._oldest:
                break
            self._wait(max(self._pause(min(ticking, end) if now < end else ticking) - now, 0.0))
            self._serve()
        wall = time.monotonic() - started
        self._progress(started + wall)
        return self._result(wall, time.thread_time() - cpu)

    def close(self) -> None:
        """Close every connection, however the run ended."""
        for connection in self._open.values():
            connection.abort()
        self._epoll.close()

    def _pause(self, otherwise: float) -> float:
        """The moment that needs this loop next when nothing arrives."""
        if self._next < self._n:
            otherwise = min(otherwise, self._due[self._next])
        if self._oldest < self._next:
            otherwise = min(otherwise, self._due[self._oldest] + self._plan.timeout)
        return otherwise

    def _wait(self, seconds: float) -> None:
        """epoll's own timeout has whole milliseconds here; its descriptor can be waited on by the microsecond."""
        if seconds > 0:
            with contextlib.suppress(InterruptedError):
                select.select((self._epoll.fileno(),), (), (), seconds)

    def _admit(self) -> None:
        """Send what is due."""
        while self._next < self._n:
            late = time.monotonic() - self._due[self._next]
            if late < 0:
                return
            request = self._next
            self._next += 1
            self._recorder.late[request] = late
            if self._backlog or not self._start(request):
                self._backlog.append(request)

    def _start(self, request: int) -> bool:
        """Send a request; False when every connection is busy. A failure is an outcome too."""
        if self._idle:
            # The longest idle one: all connections, and so all workers behind one listener, get their turn.
            _, connection = self._idle.popitem(last=False)
            self._send(connection, request)
            return True
        if len(self._open) >= self._plan.connections:
            return False
        self._connect(request)
        return True

    def _connect(self, request: int) -> None:
        """Open a connection, for a request or (-1) to be idle."""
        self._opened += 1
        try:
            connection = Connection(self._plan.address)
        except OSError as error:
            self._refused += 1
            if request >= 0:
                self._end(request, LOCAL if error.errno in _LOCAL_ERRORS else REFUSED)
            return
        self._open[connection.fd] = connection
        self._epoll.register(connection.fd, select.EPOLLIN)
        if request < 0:
            self._idle[connection.fd] = connection
        else:
            self._send(connection, request)

    def _send(self, connection: Connection, request: int) -> None:
        connection.request = request
        self._flying[request] = connection
        try:
            if not connection.send(self._bytes[request]):
                self._epoll.modify(connection.fd, select.EPOLLIN | select.EPOLLOUT)
        except OSError as error:
            self._lost(connection, _outcome(error))

    def _serve(self) -> None:
        """Take what has arrived; what falls due meanwhile goes first."""
        for descriptor, events in self._epoll.poll(0, _EVENTS):
            if self._next < self._n and self._due[self._next] <= time.monotonic():
                self._admit()
            connection = self._open.get(descriptor)
            if connection is None:
                continue
            try:
                if events & select.EPOLLOUT and connection.flush():
                    self._epoll.modify(descriptor, select.EPOLLIN)
                if events & ~select.EPOLLOUT:
                    self._receive(connection)
            except OSError as error:
                self._lost(connection, _outcome(error))
            except Garbled:
                self._lost(connection, GARBLED)

    def _receive(self, connection: Connection) -> None:
        """Raises OSError and Garbled."""
        answer = connection.receive()
        if answer is None:
            return
        request = connection.request
        self._end(request, answer.status)
        if 200 <= answer.status < 300:
            self._recorder.read(request, answer.body)
        connection.request = -1
        if answer.last:
            self._close(connection)
        else:
            self._idle[connection.fd] = connection

    def _lost(self, connection: Connection, outcome: int) -> None:
        """A connection broke: its request, if any, has failed."""
        request = connection.request
        if outcome == REFUSED:
            self._refused += 1
        elif request >= 0:
            self._dropped += 1
        else:
            self._idled += 1
        self._close(connection)
        if request >= 0:
            self._end(request, outcome)

    def _close(self, connection: Connection) -> None:
        del self._open[connection.fd]
        self._idle.pop(connection.fd, None)
        connection.close()

    def _end(self, request: int, outcome: int) -> None:
        """A request has its outcome."""
        self._recorder.latency[request] = time.monotonic() - self._due[request]
        self._outcome[request] = outcome
        self._flying.pop(request, None)
        if outcome > 0:
            self._answered += 1
        else:
            self._failed += 1

    def _expire(self, now: float) -> None:
        """Give up on what has run out of time. All have the same timeout, so the oldest come first."""
        while self._oldest < self._next:
            request = self._oldest
            if self._outcome[request] == PENDING:
                if self._due[request] + self._plan.timeout > now:
                    return
                connection = self._flying.get(request)
                self._end(request, UNSENT if connection is None else TIMEOUT)
                if connection is not None:
                    del self._open[connection.fd]
                    connection.abort()
            self._oldest += 1

    def _drain(self) -> None:
        """Send what waited for a connection, as far as there are some now."""
        while self._backlog:
            request = self._backlog[0]
            if self._outcome[request] == PENDING and not self._start(request):
                return
            self._backlog.popleft()

    def _progress(self, now: float) -> None:
        if self._tick is not None:
            self._tick(Progress(self._started, now - self._started, self._next, self._answered, self._failed))

    def _result(self, wall: float, cpu: float) -> Result:
        ends, at = {}, 0.0
        for phase in self._plan.phases:
            ends[phase.name] = (at, at + phase.seconds)
            at += phase.seconds
        return Result(
            started=self._started,
            wall=wall,
            cpu=cpu,
            classes={one.name: one.budget for one in self._plan.classes},
            phases=ends,
            samples=self._recorder.samples(),
            versions=self._recorder.versions.texts(),
            degraded=self._recorder.reasons.texts(),
            connections=Connections(self._opened, self._refused, self._dropped, self._idled),
        )


def _requests(plan: Plan, arrivals: Schedule) -> list[bytes]:
    """Each arrival's bytes: its class's requests in turn."""
    turns = [0] * len(plan.classes)
    chosen = []
    for kind in arrivals.kind.tolist():
        requests = plan.classes[kind].requests
        chosen.append(requests[turns[kind] % len(requests)])
        turns[kind] += 1
    return chosen


def _outcome(error: OSError) -> int:
    if error.errno in _LOCAL_ERRORS:
        return LOCAL
    return REFUSED if isinstance(error, ConnectionRefusedError) else RESET
