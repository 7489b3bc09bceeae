import doctest
import json
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

import abtest.analysis
from abtest.analysis import Attribute, Exposures, Metric, Result, compare
from tests.abtest_analysis.data import codes, floats


def test_importing_abtest_loads_neither_numpy_nor_scipy_nor_the_statistics() -> None:
    program = "import abtest, sys; print([m for m in ('numpy', 'scipy', 'abtest.analysis') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_statistics_load_no_data_frames() -> None:
    program = (
        "import abtest.analysis, sys; print([m for m in ('pandas', 'pyarrow', 'statsmodels') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_result_is_json_even_where_numbers_are_undefined() -> None:
    analysis = compare(codes(0, 1), ("a", "b"), [Metric("m", floats(1, 2))], "a")
    data = json.loads(json.dumps(analysis.as_json(), allow_nan=False))
    assert isinstance(analysis, Result)
    assert data["comparisons"][0]["p"] is None
    assert data["comparisons"][0]["verdict"] == "too little data"
    assert data["comparisons"][0]["treatment"] == {"bucket": "b", "units": 1, "value": 2.0}


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="column time has 1 rows where the others have 2"):
        Exposures(codes(1, 2), codes(0, 0), ("a",), floats(0))
    with pytest.raises(ValueError, match="metric m has 1 rows where the others have 2"):
        compare(codes(0, 1), ("a", "b"), [Metric("m", floats(1))], "a")


def test_a_code_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"column bucket lies outside \[0, 1\)"):
        Exposures(codes(1), codes(1), ("a",), floats(0))
    with pytest.raises(ValueError, match=r"column attribute lies outside \[-1, 1\)"):
        Attribute(codes(-2), ("x",))


def test_an_attribute_codes_names_in_their_order_and_absent_ones_as_minus_one() -> None:
    attribute = Attribute.encode(["de", None, "at", "de"])
    assert attribute.values == ("at", "de")
    assert attribute.codes.tolist() == [1, -1, 0, 1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"goal": "up"}, "the goal of metric m is one of increase, decrease, none, not up"),
        ({"covariate_denominator": np.ones(2)}, "metric m has a covariate's denominator and no covariate"),
        ({"denominator": floats(1, np.nan)}, "metric m has values that are not finite"),
    ],
)
def test_a_metric_that_makes_no_sense_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Metric("m", np.ones(2), **settings)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("module", [abtest.analysis])
def test_the_examples_in_the_docstrings_run(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)
