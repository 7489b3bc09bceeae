"""The command line: one file per verb, each with `add(subparsers)` and `run(args) -> exit status`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

# Threads multiply with processes; the funnel runs requests side by side instead. Must be set before numpy and faiss.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    from app.cli import bootstrap, check, recommend, schema, serve, why

    made = argparse.ArgumentParser(prog="recserve", description="Recommendations, served inside a latency budget.")
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in (serve, bootstrap, check, schema, recommend, why):
        verb.add(verbs)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb."""
    args = parser().parse_args(argv)
    try:
        status: int = args.run(args)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    return status
