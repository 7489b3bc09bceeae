"""What can go wrong inside the funnel, classified by who has to act.

StageError
├── StepFailed       a step with `on_fail: fail` failed: the request can't be answered
├── InvalidOutput    a component or a model broke its contract (length, NaN): its author acts
└── ReleaseError     a release can't be loaded or doesn't fit the configuration: its publisher acts

The store's errors are `features.errors.StoreError`. Anything else that a component raises is a bug of ours or of an
extension: loud in tests, counted under its own reason in production.
"""


class StageError(Exception):
    """Root of the funnel's own errors."""


class StepFailed(StageError):
    """A step with `on_fail: fail` failed, for the reason given."""

    def __init__(self, step: str, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step
        self.reason = reason


class InvalidOutput(StageError):
    """A component returned something its role does not allow."""


class ReleaseError(StageError):
    """A release is damaged, or does not hold what the configuration names; `path` is the step's in its file."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path
