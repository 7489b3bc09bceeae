"""Builds a release from interactions: read them, learn vectors, lists and a ranker, write the files."""
