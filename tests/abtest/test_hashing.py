import os
import subprocess
import sys
from pathlib import Path

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abtest import encode_unit, hashing, murmur3, slot

GOLDEN = [
    ("home/rank/1", "user_1", 8891),
    ("home/rank/1", 123, 6378),
    ("home/rank/1", "123", 6378),
    ("home/rank/1", "用户💰", 9537),
    ("home/recall/1", "user_1", 7931),
    ("home/rank/exp_din/1", "user_1", 4667),
    ("home/holdout/1", "user_1", 7484),
]

# SMHasher's verification inputs as they circulate for MurmurHash3_x86_32: (data, seed, hash).
VECTORS = [
    (b"", 0, 0),
    (b"", 1, 0x514E28B7),
    (b"", 0xFFFFFFFF, 0x81F16F39),
    (b"\xff\xff\xff\xff", 0, 0x76293B50),
    (b"\x21\x43\x65\x87", 0, 0xF55B516B),
    (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
    (b"\x21\x43\x65", 0, 0x7E4A8634),
    (b"\x21\x43", 0, 0xA0F7B07A),
    (b"\x21", 0, 0x72661CF4),
    (b"\x00\x00\x00\x00", 0, 0x2362F9DE),
    (b"\x00\x00\x00", 0, 0x85F0B427),
    (b"\x00\x00", 0, 0x30F4C306),
    (b"\x00", 0, 0x514E28B7),
    (b"Hello, world!", 0x9747B28C, 0x24884CBA),
    (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
    ("ππππππππ".encode(), 0x9747B28C, 0xD58063C1),
    (b"a" * 256, 0x9747B28C, 0x37405BDC),
]


@pytest.mark.parametrize(("salt", "unit", "expected"), GOLDEN)
def test_golden_slots(salt: str, unit: object, expected: int) -> None:
    assert slot(salt, unit) == expected


@pytest.mark.parametrize(("salt", "unit", "expected"), GOLDEN)
def test_golden_slots_come_from_the_fallback_as_well(salt: str, unit: object, expected: int) -> None:
    assert (murmur3.murmur3_32(f"{salt}:{unit}".encode()) * 10_000) >> 32 == expected


@pytest.mark.parametrize(("data", "seed", "expected"), VECTORS)
def test_murmur3_reference_vectors(data: bytes, seed: int, expected: int) -> None:
    assert hashing.murmur3_32(data, seed) == expected
    assert murmur3.murmur3_32(data, seed) == expected


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_fallback_equals_the_c_implementation(data: bytes, seed: int) -> None:
    assert murmur3.murmur3_32(data, seed) == mmh3.hash(data, seed, signed=False)


@given(st.integers(-(10**30), 10**30))
def test_integer_and_text_are_one_unit(number: int) -> None:
    assert encode_unit(number) == encode_unit(str(number)) == str(number).encode()


@pytest.mark.parametrize(
    "unit",
    [None, "", True, False, 1.0, float("nan"), b"u1", ["u1"], "\ud800", "x" * 257, "é" * 129, 10**4000],
)
def test_what_is_no_unit(unit: object) -> None:
    assert encode_unit(unit) is None
    assert slot("home/rank/1", unit) is None


@given(st.text(min_size=1, max_size=64))
def test_every_id_has_a_slot(unit: str) -> None:
    found = slot("home/rank/1", unit)
    assert found is not None
    assert 0 <= found < 10_000


def test_units_are_compared_byte_for_byte() -> None:
    units = ["u", "U", " u", "u\0", "\0u", "u💰", "café", "cafe\u0301", "0123", "123"]
    assert len({encode_unit(unit) for unit in units}) == len(units)
    assert len("é" * 128) == 128
    assert encode_unit("é" * 128) is not None


_SCRIPT = """
import sys
if "plain" in sys.argv:
    sys.modules["mmh3"] = None
from abtest import hashing
from tests.abtest.documents import arms, compiled, document, experiment
buckets = arms({"c": 3333, "a": 3333, "b": 3334}, control="c")
experiments = compiled(document(exp_1=experiment(slots=[[0, 9000]], buckets=buckets)))
print(hashing.murmur3_32.__module__, file=sys.stderr)
for user in range(300):
    print(experiments.assign("home", {"user_id": user}, {}, 0.0).buckets)
"""


def _assignments(hash_seed: str, *arguments: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


def test_assignments_are_the_same_under_any_hash_seed_and_from_the_fallback() -> None:
    one, _ = _assignments("1")
    two, _ = _assignments("2")
    plain, module = _assignments("3", "plain")
    assert module.strip() == "abtest.murmur3"
    assert len(one.splitlines()) == 300
    assert one == two == plain
