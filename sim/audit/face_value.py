"""Explanation of results in which the report taken literally is nearer to the true place than all attacks."""

from __future__ import annotations

import math

import numpy as np

from sim.audit.answers import clustered
from sim.audit.attack import ATTACKS, AttackResult
from sim.audit.memory_attack import has_memory
from sim.audit.selection import Finding

_MANY_NEW_PLACES = 0.1
_LITERAL = ATTACKS[0]


def literal_is_nearer(result: AttackResult) -> bool:
    """Return whether the report has a lower mean error than each attack with the fitted mechanism.

    The 95 % intervals of the differences over users must be positive; for fewer than five users there are none.
    """
    error = {name: np.hypot(*(xy - result.true_xy_m).T) for name, xy in result.estimates_m.items()}
    for name in result.attacks:
        mean, low, _ = clustered(error[name] - error[_LITERAL], result.sample.user)
        if name != _LITERAL and not (mean if math.isnan(low) else low) > 0:
            return False
    return True


def face_value_note(result: AttackResult, finding: Finding) -> str | None:
    """Return why the report taken literally is nearer than all other attacks, and what it means; None if it is not."""
    if not literal_is_nearer(result):
        return None
    error = float(np.hypot(*(result.estimates_m[_LITERAL] - result.true_xy_m).T).mean())
    return (
        f"The report taken literally is on average nearer to the true place ({error:,.0f} m) than the estimate of any "
        f"attack with the fitted mechanism, because {_reason(result, finding, error)}: those attacks are not optimal "
        "here, and the row of the literal report states the exposure, as anyone can read it without an attack."
    )


def _reason(result: AttackResult, finding: Finding, error_m: float) -> str:
    """Return the first model assumption that these pairs violate."""
    if finding.rejected:
        return "no known mechanism fits and they use one that the pairs reject"
    if result.grid.cell_m / 2 > error_m:
        return f"they choose between cells of {result.grid.cell_m:,.0f} m, which are larger than this error"
    if result.new_places > _MANY_NEW_PLACES:
        return (
            f"they expect the places of the past, while {result.new_places:.0%} of the attacked positions are at "
            "places where the user was not before"
        )
    if has_memory(finding.fit):
        return "they take reports that depend on each other as independent draws"
    return "the past pairs are too few to describe where the users are"
