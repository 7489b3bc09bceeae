"""The statistics of experiments: pure functions over numpy columns, without I/O and without data frames.

The way of an analysis: `Exposures` (records as columns) are checked by `check_srm`, `enrol` makes one row
per unit, `sums` joins events to them, `compare` compares arms. Before it `sample_size` and `detectable`
plan, `simulate` tries a configuration and `check_aa` a metric. All results have `as_json()`.

Needs numpy and scipy, which `import abtest` alone doesn't load.

>>> import numpy as np
>>> from abtest.analysis import Metric, compare
>>> clicks = np.repeat([1.0, 0.0, 1.0, 0.0], [130, 29870, 157, 29843])
>>> bucket = np.repeat([0, 1], 30_000)
>>> analysis = compare(bucket, ("control", "variant"), [Metric("clicks", clicks)], "control")
>>> found = analysis.comparisons[0]
>>> found.verdict, round(found.p, 3), round(found.lift, 3)
('no detectable difference', 0.11, 0.208)
"""

from abtest.analysis.aa import AaReport, check_aa
from abtest.analysis.anytime import TUNED_FOR
from abtest.analysis.columns import NOTHING, Attribute, Exposures
from abtest.analysis.compare import (
    BETTER,
    HIGHER,
    LOWER,
    NO_DIFFERENCE,
    TOO_LITTLE,
    WORSE,
    Analysis,
    Arm,
    Comparison,
    Interval,
    compare,
)
from abtest.analysis.metrics import GOALS, Enrolment, Goal, Metric, enrol, sums, sums_before
from abtest.analysis.power import (
    Baseline,
    Design,
    Detectable,
    SampleSize,
    baseline,
    binary,
    detectable,
    power,
    sample_size,
)
from abtest.analysis.result import Result
from abtest.analysis.simulate import LayerOutcome, Pair, Simulation, Split, simulate, synthetic
from abtest.analysis.srm import THRESHOLD, SampleRatio, SrmReport, check_srm

__all__ = [
    "BETTER",
    "GOALS",
    "HIGHER",
    "LOWER",
    "NOTHING",
    "NO_DIFFERENCE",
    "THRESHOLD",
    "TOO_LITTLE",
    "TUNED_FOR",
    "WORSE",
    "AaReport",
    "Analysis",
    "Arm",
    "Attribute",
    "Baseline",
    "Comparison",
    "Design",
    "Detectable",
    "Enrolment",
    "Exposures",
    "Goal",
    "Interval",
    "LayerOutcome",
    "Metric",
    "Pair",
    "Result",
    "SampleRatio",
    "SampleSize",
    "Simulation",
    "Split",
    "SrmReport",
    "baseline",
    "binary",
    "check_aa",
    "check_srm",
    "compare",
    "detectable",
    "enrol",
    "power",
    "sample_size",
    "simulate",
    "sums",
    "sums_before",
    "synthetic",
]
