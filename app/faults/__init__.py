"""The fault kit: what breaks in production, broken on purpose under open-loop load, and what must hold meanwhile."""
