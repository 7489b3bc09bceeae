"""The command line: one file per verb, each with `add(subparsers)` and `run(args) -> exit status`.

Only the verb that was asked for is imported: `serve` needn't load what trains models.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from app.cli.common import VERBS
from app.early import hold_signals

# Threads multiply with processes; the funnel runs requests side by side instead. Must be set before numpy and faiss.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def parser(asked: str | None = None) -> argparse.ArgumentParser:
    """The command line with the options of the verb `asked`, and the others by name."""
    made = argparse.ArgumentParser(prog="recserve", description="Recommendations, served inside a latency budget.")
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, summary in VERBS.items():
        if name == asked:
            importlib.import_module(f"app.cli.{name}").add(verbs)
        else:
            verbs.add_parser(name, help=summary)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb."""
    words = list(sys.argv[1:] if argv is None else argv)
    asked = next((word for word in words if not word.startswith("-")), None)
    try:
        if asked == "serve":
            hold_signals()  # first thing: to import what serves takes most of a second
        args = parser(asked).parse_args(words)
        status: int = args.run(args)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    return status
