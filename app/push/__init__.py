"""Configuration pushes: read and pinned as a whole, tried by a few workers, then taken by all or by none."""
