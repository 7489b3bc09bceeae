"""The difference of two arms in one metric, absolute and relative, with intervals.

Ratios by the delta method over units, CUPED (Deng, Xu, Kohavi and Walker 2013, "Improving the Sensitivity
of Online Controlled Experiments by Utilizing Pre-Experiment Data", WSDM, section 3), Welch's t: the same
choices as the `tea-tasting` package, to which the tests compare. The relative interval is that of Fieller 1954,
"Some Problems in Interval Estimation", JRSS B 16(2): the same test for every lift, so that it and p never contradict
each other.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
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
    treatment - control, `lift` is treatment / control - 1. There is a lift only where the control's value is
    clearly above 0 (its own interval at this alpha lies there): of less nothing is a meaningful percentage. Its
    interval holds 0 exactly where p >= alpha. `statistic` is difference / its standard error, `p` two-sided. The
    `anytime` ones may be read as often as one likes. `reduction` is the share of the variance that CUPED removed.
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


class _Spread(NamedTuple):
    """How far the arms' values vary: their squared standard errors and their covariance, f64[...] each."""

    control: Floats
    treatment: Floats
    covariance: Floats


def effect(
    control: Moments,
    treatment: Moments,
    alpha: float = 0.05,
    tuned_for: float = anytime.TUNED_FOR,
    everyone: Moments | None = None,
) -> Effect:
    """Compare two arms; intervals cover with probability 1 - `alpha`.

    `tuned_for` is the number of units in both arms at which the anytime intervals are tightest, fixed
    before the data are seen. `everyone` is all arms of the experiment where there are more than these two:
    CUPED then adjusts to their common centre, and the control has one value in all comparisons.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        everyone = control + treatment if everyone is None else everyone
        values = (_adjusted(control, everyone), _adjusted(treatment, everyone))
        counts = (control.count, treatment.count)
        errors = (
            _error(control, cuped_gradient(control, everyone)),
            _error(treatment, cuped_gradient(treatment, everyone)),
        )
        raw = _error(control, control.gradient(VALUE)) + _error(treatment, treatment.gradient(VALUE))
        scale, df = _welch(errors, counts)
        scale = np.where(scale > 0, scale, np.nan)  # without variance there is nothing to test
        difference = values[1] - values[0]
        statistic = difference / scale
        t = special.stdtrit(df, 1 - alpha / 2)
        units = control.count + treatment.count
        far = anytime.critical(units, alpha, tuned_for)
        spread = _spread((control, treatment), errors, everyone)
        return Effect(
            values[0],
            values[1],
            difference,
            Bounds(difference - t * scale, difference + t * scale),
            np.where(_clearly_positive(values[0], spread.control, t), difference / values[0], np.nan),
            _fieller(values, spread, t),
            statistic,
            2 * special.stdtr(df, -np.abs(statistic)),
            Bounds(difference - far * scale, difference + far * scale),
            _fieller(values, spread, far),
            anytime.p_value(units, statistic, tuned_for),
            1 - (errors[0] + errors[1]) / raw,
        )


def cuped_gradient(arm: Moments, everyone: Moments) -> Floats:
    """Return the derivatives f64[..., 4] of an arm's adjusted value by its means, where the centre stands still.

    `everyone` gives the coefficient.
    """
    gradient: Floats = arm.gradient(VALUE) - _times(_theta(everyone)[..., np.newaxis], arm.gradient(COVARIATE))
    return gradient


def _theta(everyone: Moments) -> Floats:
    """Return CUPED's coefficient from all arms together; 0 where the covariate doesn't vary."""
    slope = everyone.gradient(COVARIATE)
    variance = everyone.covariance(slope, slope)
    shared = everyone.covariance(everyone.gradient(VALUE), slope)
    return np.where(variance > 0, shared / np.where(variance > 0, variance, 1.0), 0.0)


def _times(theta: Floats, values: Floats) -> Floats:
    """Return the product; 0 where theta is, though the covariate be 0 / 0 there (no history)."""
    return np.where(theta == 0, 0.0, theta * values)


def _adjusted(arm: Moments, everyone: Moments) -> Floats:
    """Return the arm's value less what its covariate explains by lying away from the centre of all arms."""
    away = arm.ratio(COVARIATE) - everyone.ratio(COVARIATE)
    adjusted: Floats = arm.ratio(VALUE) - _times(_theta(everyone), away)
    return adjusted


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


def _spread(arms: tuple[Moments, Moments], errors: tuple[Floats, Floats], everyone: Moments) -> _Spread:
    """Return how the adjusted values vary, the centre included: it moves both, and cancels only in their difference.

    An adjusted value is a part of its arm alone (whose squared standard error is in `errors`) and theta times the
    centre, which is an average over all units: so the covariance of the two parts is that per unit / all units.
    """
    theta, slope = _theta(everyone), everyone.gradient(COVARIATE)
    centre = _times(theta**2, everyone.covariance(slope, slope)) / everyone.count
    with_centre = [_times(theta, arm.covariance(cuped_gradient(arm, everyone), slope)) / everyone.count for arm in arms]
    return _Spread(
        errors[0] + 2 * with_centre[0] + centre,
        errors[1] + 2 * with_centre[1] + centre,
        with_centre[0] + with_centre[1] + centre,
    )


def _clearly_positive(control: Floats, squared_error: Floats, reach: Floats) -> npt.NDArray[np.bool_]:
    positive: npt.NDArray[np.bool_] = (control > 0) & (control**2 > reach**2 * squared_error)
    return positive


def _fieller(values: tuple[Floats, Floats], spread: _Spread, reach: Floats) -> Bounds:
    """Return the lifts l for which treatment - (1 + l) control lies within `reach` standard errors of 0.

    They are an interval only where the control's value lies further than that above 0; NaN elsewhere, and where
    nothing but a single lift is left (a treatment of zeros).
    """
    control, treatment = values
    square = reach**2
    # The roots of a l^2 - 2 b l + c, written so that no large numbers cancel.
    a = control**2 - square * spread.control
    b = control * (treatment - control) - square * (spread.covariance - spread.control)
    inner = control**2 * spread.treatment + treatment**2 * spread.control - 2 * control * treatment * spread.covariance
    inner -= square * (spread.control * spread.treatment - spread.covariance**2)
    known = _clearly_positive(control, spread.control, reach) & (inner > 0)
    half = reach * np.sqrt(np.where(known, inner, np.nan))
    return Bounds((b - half) / a, (b + half) / a)
