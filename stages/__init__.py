"""The funnel: recall, merge, filters, pre-rank, rank and re-rank over arrays of row numbers."""
