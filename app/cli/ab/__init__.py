"""`recserve ab`: experiments from the first check to the decision, a file for each group of sub-verbs."""

from __future__ import annotations

from app.cli.ab import aa, analyze, change, check, power, simulate, srm, why
from app.cli.common import Subparsers, new_verb

EXAMPLES = """  recserve ab check --against main-configs
  recserve ab start mmr_relevance@1 --share 10%
  recserve ab srm
  recserve ab analyze mmr_relevance@1 --events events.parquet --metric ctr=click/impression

Each sub-verb has a --help of its own."""


def add(verbs: Subparsers) -> None:
    """Register the verb with its sub-verbs."""
    parser = new_verb(verbs, "ab", EXAMPLES)
    inner = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for part in (check, why, simulate, change, srm, power, analyze, aa):
        part.add(inner)
