"""Re-rankers: order the list as a whole."""
