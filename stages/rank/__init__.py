"""Rankers: scorers over models."""
