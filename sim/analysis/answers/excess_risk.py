"""Success rates with intervals, and the excess risk of an attack over a control attack (Giomi et al. 2023).

A control attack guesses without any report. Its success is not due to the reports, so the risk that they cause is

    R = (attack - control) / (1 - control),

the share of what a control attack leaves open that the attack resolves: 0 if the reports do not help, 1 if the attack
always succeeds (Giomi, Boenisch, Wehmeyer & Tasnadi 2023, Proc. Privacy Enhancing Technologies, eq. (2)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import ndtri

from sim.analysis.replication_effect import CONFIDENCE
from sim.analysis.statistics import ratio_of_means
from sim.interfaces import FloatArray

Z = float(ndtri((1 + CONFIDENCE) / 2))
"""Quantile of the normal distribution for the limits of an interval."""


class Rate(NamedTuple):
    """A probability with the limits of its 95 % confidence interval."""

    value: float
    low: float
    high: float


UNKNOWN = Rate(math.nan, math.nan, math.nan)


def wilson(successes: float, trials: float) -> Rate:
    """Return a share of independent trials with its Wilson score interval (Wilson 1927, JASA 22, 209-212).

    `successes` may be fractional, as a sum of probabilities; the interval is then too wide rather than too narrow.

    >>> [round(value, 4) for value in wilson(15, 148)]
    [0.1014, 0.0624, 0.1605]
    """
    if not trials > 0:
        return UNKNOWN
    share = successes / trials
    centre = (share + Z**2 / (2 * trials)) / (1 + Z**2 / trials)
    half = Z / (1 + Z**2 / trials) * math.sqrt(share * (1 - share) / trials + Z**2 / (4 * trials**2))
    return Rate(share, min(max(centre - half, 0.0), share), max(min(centre + half, 1.0), share))


def excess_risk(attack: Rate, control: Rate) -> Rate:
    """Return the excess risk of an attack over an independent control attack; unknown if the control always succeeds.

    The distances of the limits from the rates are propagated as errors, separately for both sides. It is negative if
    the control attack is the better one.

    >>> [round(value, 3) for value in excess_risk(Rate(0.8, 0.7, 0.9), Rate(0.5, 0.5, 0.5))]
    [0.6, 0.4, 0.8]
    """
    remaining = 1 - control.value
    if not remaining > 0:
        return UNKNOWN
    value = (attack.value - control.value) / remaining
    by_control = (1 - attack.value) / remaining**2
    below = math.hypot((attack.value - attack.low) / remaining, (control.high - control.value) * by_control)
    above = math.hypot((attack.high - attack.value) / remaining, (control.value - control.low) * by_control)
    return Rate(value, value - below, min(value + above, 1.0))


def paired_excess_risk(attack: FloatArray, control: FloatArray) -> Rate:
    """Return the excess risk of mean success rates of the same users under attack and control.

    It is the ratio mean(attack - control) / mean(1 - control), with an interval by the delta method over users.

    >>> import numpy as np
    >>> [round(value, 3) for value in paired_excess_risk(np.array([0.9, 0.7, 0.8]), np.array([0.5, 0.5, 0.5]))]
    [0.6, 0.103, 1.097]
    """
    ratio, low, high = ratio_of_means((attack - control)[:, None], (1 - control)[:, None])
    return Rate(float(ratio[0]), float(low[0]), float(high[0]))
