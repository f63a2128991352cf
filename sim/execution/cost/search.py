"""Estimate the cost of a scenario with realised budgets: the searches for strengths, and the run with strengths."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from sim.execution.calibration.chunks import CalibrationChunk
from sim.execution.calibration.measuring import sample_size
from sim.execution.calibration.points import searches, with_lppms
from sim.execution.cost.estimate import LIMIT_S, Cost, estimate
from sim.execution.cost.overhead import START_S
from sim.lppm.parameters import DesignParameters
from sim.scenario.models import Scenario
from sim.scenario.sweep import Point, points

_FIRST, _FURTHER = (10, 4), (5, 3)
"""Typical number of strengths simulated in one replication and in all of them, for the first target and each other."""
_SHARE = 0.4
"""Share of the time of the measurements for the searches."""
_WHOLE = 4.0


def estimate_with_search(
    scenario: Scenario,
    swept: list[Point] | None = None,
    *,
    measure: bool = True,
    limit_s: float = LIMIT_S,
    started_s: float = START_S,
) -> Cost:
    """Estimate the cost of a scenario as `estimate` does, with the searches for realised budgets."""
    swept = points(scenario) if swept is None else swept
    chunks = searches(swept)
    if not chunks:
        return estimate(scenario, swept, measure=measure, limit_s=limit_s, started_s=started_s)
    began_s = time.monotonic()
    run_s = (1 - _SHARE) * limit_s
    cost = estimate(scenario, with_assumed_strengths(swept), measure=measure, limit_s=run_s, started_s=started_s)
    if not measure:
        return cost
    left_s = max(limit_s - (time.monotonic() - began_s), _SHARE * limit_s)
    simulated = [point for chunk in chunks for point in _simulated(chunk, cost)]
    searched = estimate(scenario, simulated, limit_s=left_s, started_s=started_s)
    return _with_search(cost, searched, len(chunks))


def with_assumed_strengths(swept: Sequence[Point], *, number: int = 0) -> list[Point]:
    """Return the points with assumed strengths instead of realised budgets; the cost hardly depends on them."""
    assumed = []
    for point in swept:
        fixed = {
            lppm.name: lppm.model_copy(update={"design": _assumed(lppm.design, budget.realised, number)})
            for lppm in point.scenario.lppms
            if (budget := lppm.design.realised_budget) is not None
        }
        assumed.append(replace(point, scenario=with_lppms(point.scenario, fixed)) if fixed else point)
    return assumed


def _assumed(design: DesignParameters, budget_km: float, number: int) -> DesignParameters:
    span = design.strength_range
    assert span is not None
    if span.whole:
        return design.with_strength(min(max(_WHOLE + number, span.least), span.most))
    strength = 2 / budget_km if span.per_loss else (span.least + span.most) / 2
    return design.with_strength(min(max(strength * (1 + number / 100), span.least), span.most))


def _simulated(chunk: CalibrationChunk, cost: Cost) -> list[Point]:
    """Return points without attacks that simulate about as much as a search."""
    further = len(chunk.targets) - 1
    once, fully = (first + further * other for first, other in zip(_FIRST, _FURTHER, strict=True))
    single = _alone(chunk, 0)
    scenario = single.scenario
    is_exact = scenario.is_exact(scenario.lppms[0])
    taken = sample_size(users=cost.users, queries=cost.queries // max(cost.simulations, 1), is_exact=is_exact)
    if is_exact:  # a run simulates one replication, so each strength is a point
        return [_alone(chunk, number) for number in range(once)]
    replications = round((once + fully * taken.replications) * taken.users / max(taken.of_users, 1))
    return [replace(single, scenario=scenario.model_copy(update={"replications": max(replications, 1)}))]


def _alone(chunk: CalibrationChunk, number: int) -> Point:
    """Return the point of a search with its LPPM alone, at a strength that depends on a number."""
    (point,) = with_assumed_strengths([chunk.point], number=number)
    lppms = [lppm for lppm in point.scenario.lppms if lppm.name == chunk.lppm.name]
    changes = {"lppms": lppms, "sweep": {}, "replications": 1, **chunk.goal.needs(point.scenario)}
    return replace(point, values={}, scenario=point.scenario.model_copy(update=changes))


def _with_search(cost: Cost, searched: Cost, count: int) -> Cost:
    """Return a cost with the time of the searches added."""
    if cost.times is None or searched.times is None:
        return replace(cost, unmeasured=(*cost.unmeasured, "the search for realised budgets"), incomplete=True)
    search_s = searched.times.simulation_s

    def added(part: Cost) -> Cost:
        assert part.times is not None
        times = replace(part.times, search_s=search_s, searches=count)
        return replace(part, times=times, seconds=times.cpu_s())

    whole = added(cost)
    least = None if cost.least is None or cost.least.times is None else added(cost.least)
    missing = [f"{part} (search for its strength)" for part in searched.unmeasured]
    return replace(
        whole,
        least=least,
        unmeasured=(*whole.unmeasured, *missing),
        timed_out=whole.timed_out or searched.timed_out,
        incomplete=whole.incomplete or searched.incomplete,
    )
