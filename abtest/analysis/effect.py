"""The difference of two arms in one metric, absolute and relative, with intervals.

Ratios by the delta method over units, CUPED (Deng, Xu, Kohavi and Walker 2013, "Improving the Sensitivity
of Online Controlled Experiments by Utilizing Pre-Experiment Data", WSDM, section 3), Welch's t. The relative
interval is made on the logarithmic scale, where the ratio of two means is nearer to normal, and so never
reaches below -100%. The same choices as the `tea-tasting` package, to which the tests compare.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from abtest.analysis import anytime
from abtest.analysis.columns import Floats
from abtest.analysis.moments import COVARIATE, VALUE, Moments


class Bounds(NamedTuple):
    """An interval, f64[...] each."""

    low: Floats
    high: Floats


class Effect(NamedTuple):
    """Everything about a difference, f64[...] each; NaN where undefined.

    `control` and `treatment` are the arms' values (adjusted where there is a covariate), `difference` is
    treatment - control, `lift` is treatment / control - 1 and has an interval only where both values have
    one sign. `statistic` is difference / its standard error, `p` two-sided. The `anytime` ones may be read
    as often as one likes. `reduction` is the share of the variance that CUPED removed.
    """

    control: Floats
    treatment: Floats
    difference: Floats
    difference_bounds: Bounds
    lift: Floats
    lift_bounds: Bounds
    statistic: Floats
    p: Floats
    anytime_difference_bounds: Bounds
    anytime_lift_bounds: Bounds
    anytime_p: Floats
    reduction: Floats


def effect(control: Moments, treatment: Moments, alpha: float = 0.05, tuned_for: float = anytime.TUNED_FOR) -> Effect:
    """Compare two arms; intervals cover with probability 1 - `alpha`.

    `tuned_for` is the number of units in both arms at which the anytime intervals are tightest, fixed
    before the data are seen.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        both = control + treatment
        values = (_adjusted(control, both), _adjusted(treatment, both))
        counts = (control.count, treatment.count)
        errors = (
            _error(control, cuped_gradient(control, both)),
            _error(treatment, cuped_gradient(treatment, both)),
        )
        raw = _error(control, control.gradient(VALUE)) + _error(treatment, treatment.gradient(VALUE))
        scale, df = _welch(errors, counts)
        scale = np.where(scale > 0, scale, np.nan)  # without variance there is nothing to test
        difference = values[1] - values[0]
        statistic = difference / scale
        t = special.stdtrit(df, 1 - alpha / 2)
        # A ratio of opposite signs, or of zero, has no logarithm and no interval.
        ratio = values[1] / values[0]
        ratio_known = np.where(ratio > 0, ratio, np.nan)
        relative = (errors[0] / values[0] ** 2, errors[1] / values[1] ** 2)
        log_scale, log_df = _welch(relative, counts)
        log_t = special.stdtrit(log_df, 1 - alpha / 2)
        far = anytime.critical(both.count, alpha, tuned_for)
        return Effect(
            values[0],
            values[1],
            difference,
            Bounds(difference - t * scale, difference + t * scale),
            ratio - 1,
            _around(ratio_known, log_t * log_scale),
            statistic,
            2 * special.stdtr(df, -np.abs(statistic)),
            Bounds(difference - far * scale, difference + far * scale),
            _around(ratio_known, far * log_scale),
            anytime.p_value(both.count, statistic, tuned_for),
            1 - (errors[0] + errors[1]) / raw,
        )


def cuped_gradient(arm: Moments, both: Moments) -> Floats:
    """Return the derivatives f64[..., 4] of an arm's adjusted value by its means; `both` gives the coefficient."""
    gradient: Floats = arm.gradient(VALUE) - _theta(both)[..., np.newaxis] * arm.gradient(COVARIATE)
    return gradient


def _theta(both: Moments) -> Floats:
    """Return CUPED's coefficient from both arms together; 0 where the covariate doesn't vary."""
    slope = both.gradient(COVARIATE)
    variance = both.covariance(slope, slope)
    shared = both.covariance(both.gradient(VALUE), slope)
    return np.where(variance > 0, shared / np.where(variance > 0, variance, 1.0), 0.0)


def _adjusted(arm: Moments, both: Moments) -> Floats:
    """Return the arm's value less what its covariate explains by lying away from the centre of both arms."""
    return arm.ratio(VALUE) - _theta(both) * (arm.ratio(COVARIATE) - both.ratio(COVARIATE))


def _error(arm: Moments, gradient: Floats) -> Floats:
    """Return the squared standard error of an arm's value."""
    return arm.covariance(gradient, gradient) / arm.count


def _welch(errors: tuple[Floats, Floats], counts: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return the standard error of a difference and its degrees of freedom (Welch 1947).

    `errors` are the squared standard errors of the arms.
    """
    total = errors[0] + errors[1]
    df = total**2 / (errors[0] ** 2 / (counts[0] - 1) + errors[1] ** 2 / (counts[1] - 1))
    return np.sqrt(total), df


def _around(ratio: Floats, reach: Floats) -> Bounds:
    return Bounds(ratio * np.exp(-reach) - 1, ratio * np.exp(reach) - 1)
