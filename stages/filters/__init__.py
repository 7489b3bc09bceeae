"""Filters: each says which candidates may stay. One component per file."""
