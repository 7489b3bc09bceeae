"""What can go wrong before a release exists.

BootstrapError
├── InputError        one input file says something that can't be used
└── DemoMissingError  the packaged data set of the demo isn't installed
"""

from __future__ import annotations


class BootstrapError(Exception):
    """A release can't be built, for a reason that the person who asked for it can mend."""


class InputError(BootstrapError):
    """One input file can't be used; the text is one line: where, what is wrong, what to do.

    `row` counts data rows from 1 and `line` lines of a CSV file from 1 (the header is line 1);
    both are None where the whole file or a whole column is meant.
    """

    def __init__(
        self, file: str, row: int | None, column: str | None, message: str, *, line: int | None = None
    ) -> None:
        self.file, self.row, self.column, self.message, self.line = file, row, column, message, line
        where = file
        if row is not None:
            where += f" row {row}"
        if line is not None:
            where += f" (line {line})" if row is not None else f" line {line}"
        if column is not None:
            where += f" column {column}"
        super().__init__(f"{where}: {message}")


class DemoMissingError(BootstrapError):
    """The demo's data set isn't installed."""
