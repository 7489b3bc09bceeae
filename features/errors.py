"""Errors of the feature store.

::

    StoreError                  anything that the store did or failed to do
    ├── StoreTimeout            no complete answer before the deadline
    ├── StoreUnavailable        no connection, or it broke, or the server refuses work
    │   └── StoreShunned        not asked: it has just failed too often (features.breaker)
    └── CommandError            the server answered one command with an error

Every exception of the client library is translated into one of these in
`features.redis_tier`; nothing above that file knows the library. A missing key
is a value (`None`, or an empty one), never an error.
"""


class StoreError(Exception):
    """Base of all store errors; `reason` is the word that `degraded` and metrics use."""

    reason = "error"


class StoreTimeout(StoreError):
    """The answer was not complete before the deadline; whether a write took effect is unknown."""

    reason = "timeout"


class StoreUnavailable(StoreError):
    """The store can't be reached, broke the connection, or is loading, full or read-only."""

    reason = "unavailable"


class StoreShunned(StoreUnavailable):
    """The store was not asked, because it has just failed too often; nothing was sent."""

    reason = "breaker"


class CommandError(StoreError):
    """The server refused one command (wrong type, wrong arguments, no permission).

    Stands in a list of replies in the command's place, so that one bad key doesn't
    take its neighbours' answers with it.
    """

    reason = "command"
