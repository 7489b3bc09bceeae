"""Pre-rankers: cheap scorers that decide what the ranker gets to see."""
