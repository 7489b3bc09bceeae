"""The limit on open files: raised as far as it goes, and else there are fewer connections."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import logging, resource, sys
from app.supervisor.descriptors import connections
logging.basicConfig(stream=sys.stderr)
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(connections(256, 4096), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def found(soft: int, hard: int) -> tuple[list[int], str]:
    """Connections, then both limits, as a process of its own finds them; and what it logs."""
    command = [sys.executable, "-c", CODE, str(soft), str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [*map(int, done.stdout.split())], done.stderr


@pytest.mark.parametrize("hard", [4352, 5000])
def test_the_soft_limit_is_raised_to_what_the_connections_take(hard: int) -> None:
    assert found(256, hard) == ([4096, 4352, hard], "")


def test_a_higher_soft_limit_stays() -> None:
    assert found(5000, 5000) == ([4096, 5000, 5000], "")


@pytest.mark.parametrize(("hard", "allowed"), [(1024, 768), (300, 150)])
def test_a_lower_hard_limit_makes_for_fewer_connections_and_the_log_says_so(hard: int, allowed: int) -> None:
    figures, logged = found(200, hard)
    assert figures == [allowed, hard, hard]
    assert f"at most {allowed} connections, not 4096: the limit on open files is {hard}" in logged
