import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import abtest
from abtest import hashing

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", [abtest, hashing])
def test_the_examples_in_the_docstrings_run(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]  # modules, by the parameters above
    assert failed == 0
    assert tried


def test_it_is_importable_alone() -> None:
    script = """
import sys
import abtest
rooms = {"app", "bootstrap", "stages", "features", "recserve", "yaml", "fastapi", "redis", "msgspec"}
rooms |= {"numpy", "scipy", "pyarrow", "openfeature", "expression"}
print(sorted(rooms & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
