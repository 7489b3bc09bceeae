"""What can go wrong before a release exists.

BootstrapError
├── InputError        one input file says something that can't be used
│   └── NotTextError  a column of bytes isn't text
└── DemoMissingError  the packaged data set of the demo isn't installed
"""

from __future__ import annotations

LONGEST_SHOWN = 100
"""Characters of a column's name that an error shows."""


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
        where = f"{file} {self.place}".rstrip()
        if column is not None:
            where += f" column {column[:LONGEST_SHOWN]}"
        super().__init__(printable(f"{where}: {message}"))

    @property
    def place(self) -> str:
        """The row and line, as text; empty where the whole file or column is meant."""
        line = None if self.line is None else f"line {self.line}"
        if self.row is None:
            return line or ""
        return f"row {self.row}" + (f" ({line})" if line else "")


class NotTextError(InputError):
    """A column whose type is bytes holds some that aren't UTF-8 text."""


class DemoMissingError(BootstrapError):
    """The demo's data set isn't installed."""


def printable(text: str) -> str:
    """The text on one line, with escapes for what a terminal would act on."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
