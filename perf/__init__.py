"""Measurements of the service against a floor: reference data, the bare loop, and how both are timed."""
