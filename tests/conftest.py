"""Property tests: the same examples for the same code, no clock; `--hypothesis-profile=searching` looks for others."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("searching", PATIENT)
settings.register_profile("repeatable", PATIENT, derandomize=True)
settings.load_profile("repeatable")
