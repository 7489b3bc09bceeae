"""What the number types hold: checked where a default is configured, and where a stored value is read."""

import math
from collections.abc import Mapping

WHOLE: Mapping[str, int] = {"i32": 2**31, "i64": 2**63}
"""Values v of a type have -limit <= v < limit."""

REAL: Mapping[str, float] = {"f32": 2.0**128 - 2.0**103, "f64": math.inf, "time": math.inf}
"""Values v of a type have abs(v) < limit; that of f32, half a step above its largest, already casts to inf."""
