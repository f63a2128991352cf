"""Replace the realised budgets at the points of a sweep by the strengths that simulations find for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sim.errors import InputError
from sim.execution.calibration.chunks import (
    CalibrationChunk,
    NotStored,
    family,
    found,
    read_evaluations,
    sample_of,
)
from sim.execution.calibration.goals import LossGoal
from sim.execution.calibration.measuring import Measured, Sample
from sim.execution.calibration.search import Found
from sim.execution.pool import Failure, Pool, to_stderr
from sim.execution.population_cache import PopulationCache
from sim.execution.training import count_training
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.scenario.sweep import Point
from sim.storage.errors import RunError
from sim.storage.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A strength that was found for an LPPM and a target."""

    chunk: CalibrationChunk
    target: float
    solution: Found
    reached: Measured
    sample: Sample

    @property
    def parameter(self) -> str:
        """Name of the parameter that was found."""
        span = self.chunk.lppm.design.strength_range
        assert span is not None
        return span.name

    @property
    def strength(self) -> float:
        """Strength that was found, a whole number for designs that need one."""
        span = self.chunk.lppm.design.strength_range
        assert span is not None
        return round(self.solution.strength) if span.whole else float(self.solution.strength)

    def described(self) -> dict[str, Any]:
        """Return the result and the number of simulations as in the manifest."""
        return {
            "parameter": self.parameter,
            "strength": self.strength,
            "loss_km": self.reached.value,
            "loss_km_low": self.reached.low,
            "loss_km_high": self.reached.high,
            "outcome": self.solution.outcome,
            "strengths_tried": self.solution.evaluations,
            "replications": self.sample.replications,
            "users": self.sample.users,
            "of_users": self.sample.of_users,
        }


def has_realised_budgets(swept: Iterable[Point]) -> bool:
    """Return whether an LPPM at some point has a realised budget."""
    return any(lppm.design.realised_budget is not None for point in swept for lppm in point.scenario.lppms)


def searches(swept: Sequence[Point]) -> list[CalibrationChunk]:
    """Return the searches for the realised budgets at some points."""
    return list(_chunks(swept).values())


def with_strengths(
    swept: Sequence[Point], directory: RunDirectory, pool: Pool, populations: PopulationCache
) -> tuple[list[Point], list[dict[str, Any]]]:
    """Return the points with fixed strengths, and the manifest entries of the calibrations.

    LPPMs that differ in their budgets only are one search. Finished searches in the directory are not repeated.
    """
    chunks = _chunks(swept)
    results = search(chunks.values(), directory, pool, populations)
    points, entries = [], []
    for point in swept:
        fixed: dict[str, LPPMSpec] = {}
        for lppm in point.scenario.lppms:
            if (budget := lppm.design.realised_budget) is None:
                continue
            one = results[chunks[_key(point, lppm)].id, budget.realised]
            _require_met(lppm, one)
            fixed[lppm.name] = lppm.model_copy(update={"design": lppm.design.with_strength(one.strength)})
            budgeted = {"point": point.index, "lppm": lppm.name, "asked_km": budget.realised, "at": budget.at}
            entries.append(budgeted | one.described())
        points.append(replace(point, scenario=with_lppms(point.scenario, fixed)))
    return points, entries


def with_lppms(scenario: Scenario, fixed: dict[str, LPPMSpec]) -> Scenario:
    """Return a scenario with some LPPMs replaced by name."""
    return scenario.model_copy(update={"lppms": [fixed.get(lppm.name, lppm) for lppm in scenario.lppms]})


def search(
    chunks: Iterable[CalibrationChunk],
    directory: RunDirectory,
    pool: Pool,
    populations: PopulationCache,
    notify: Callable[[str], None] = to_stderr,
) -> dict[tuple[str, float], Calibrated]:
    """Run the searches that are not finished in the directory; return the results by chunk id and target."""
    every = {chunk.id: chunk for chunk in chunks}
    results = {key: one for chunk in every.values() for key, one in _stored(chunk, directory, populations).items()}
    todo = [chunk for chunk in every.values() if any((chunk.id, target) not in results for target in chunk.targets)]
    if todo:
        count_training(todo, populations, pool, directory)
        notify(f"calibrating {len(todo)} mechanism{'s' if len(todo) > 1 else ''} by simulations")
    for number, ended in enumerate(pool.run(todo, directory, lambda _queries: None), start=1):
        name = ended.chunk.lppms[0]
        if isinstance(ended, Failure):
            raise RunError(
                f"lppms.{name}: the calibration failed: {ended.error}\n{ended.details}".rstrip(),
                code="calibration-failed",
            )
        goal = every[ended.chunk.id].goal
        own = _stored(every[ended.chunk.id], directory, populations)
        results |= own
        strengths = ", ".join(f"{one.strength:.4g} for {one.target:g} {goal.unit}" for one in own.values())
        notify(f"calibrated {name} ({number}/{len(todo)}): {next(iter(own.values())).parameter} {strengths}")
    return results


def _stored(
    chunk: CalibrationChunk, directory: RunDirectory, populations: PopulationCache
) -> dict[tuple[str, float], Calibrated]:
    """Return the results of a search that is finished in the directory; nothing if it is not."""
    if not (stored := read_evaluations(chunk, directory)):
        return {}
    taken = sample_of(chunk, populations)
    try:
        strengths = found(chunk, taken, stored)
    except NotStored:
        return {}
    return {
        (chunk.id, target): Calibrated(chunk, target, one, stored[taken.replications, one.strength], taken)
        for target, one in zip(chunk.targets, strengths, strict=True)
    }


def _chunks(swept: Sequence[Point]) -> dict[tuple[object, ...], CalibrationChunk]:
    """Return a search for each group of LPPMs that differ in their budgets only, by the key of the group."""
    groups: dict[tuple[object, ...], tuple[Point, LPPMSpec, set[float]]] = {}
    for point in swept:
        for lppm in point.scenario.lppms:
            if (budget := lppm.design.realised_budget) is not None:
                groups.setdefault(_key(point, lppm), (point, lppm, set()))[2].add(budget.realised)
    return {
        key: CalibrationChunk(
            f"calibration-{number}", point, range(0), (lppm.name,), goal=_goal(lppm), targets=tuple(sorted(targets))
        )
        for number, (key, (point, lppm, targets)) in enumerate(groups.items())
    }


def _key(point: Point, lppm: LPPMSpec) -> tuple[object, ...]:
    return point.setting, point.scenario.records_expected, family(lppm), _goal(lppm)


def _goal(lppm: LPPMSpec) -> LossGoal:
    budget = lppm.design.realised_budget
    assert budget is not None
    return LossGoal(budget.at)


def _require_met(lppm: LPPMSpec, one: Calibrated) -> None:
    """Raise InputError if every strength loses more than the budget; a budget above all losses is a stated limit."""
    if not one.solution.meets:
        raise InputError(
            f"lppms.{lppm.name}.design.quality_budget_km: the loss in the run is at least {one.reached.value:.4g} km, "
            f"with {one.parameter} {one.strength:.4g}, found a budget of {one.target:g} km: increase the budget",
            code="infeasible-budget",
        )
