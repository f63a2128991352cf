"""CPU time of every design, belief and attack that a scenario can name, on a grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from statistics import median
from time import process_time
from typing import Any, Literal

import numpy as np

from benchmarks.memory import resident
from benchmarks.people import SEED, City
from benchmarks.timing import seconds_of
from sim.components.registry import registry
from sim.events import Report
from sim.interfaces import AttackCapabilities, Channel, Design, FloatArray
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.designs.optimal_privacy import OptimalPrivacy
from sim.lppm.designs.optimal_quality import OptimalQuality
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.scenario.reference import listing

Family = Literal["design", "belief", "attack"]

MOST_CELLS_OF_A_PROGRAM = 50
"""Maximum number of cells on which linear programs are solved by default; on more cells only if named, and once."""
BUDGET_KM = 1.0
CANDIDATES = 20
"""Number of users that an identification attack distinguishes."""
_PRIORS = 500

_VARIANTS: dict[Family, dict[str, dict[str, Any]]] = {
    "design": {
        "exponential-mix": {"kind": "exponential", "reveal_probability": 0.3},
        "planar_laplace-places": {"kind": "planar_laplace", "discretise": False},
        "planar_geometric-manhattan": {"kind": "planar_geometric", "metric": "manhattan"},
        "optimal_privacy-manhattan": {"kind": "optimal_privacy"},
        "optimal_quality-manhattan": {"kind": "optimal_quality", "metric": "quality"},
    },
    "belief": {
        "estimated_profile-forgetting": {"kind": "estimated_profile", "forget": {"half_life_queries": 100}},
        "estimated_profile-regularised": {"kind": "estimated_profile", "regularise": {"prior_reports": 3}},
        "estimated_profile-cross_validated": {"kind": "estimated_profile", "regularise": "cross_validated"},
    },
    "attack": {
        "markov-assuming": {
            "kind": "markov",
            "assumes": {"kind": "exponential", "epsilon_per_km": 1.0, "remap": False},
        },
    },
}
"""Variants whose cost differs from that of their kind."""

_DISTANCES = {
    "optimal_privacy": ("euclidean", "manhattan"),
    "optimal_privacy-manhattan": ("manhattan", "euclidean"),
}
"""d_P and d_Q if not both are Manhattan: with the same distance no program has to be solved."""


@dataclass(frozen=True, slots=True)
class Part:
    """Component of a scenario whose cost is measured."""

    family: Family
    name: str
    settings: dict[str, Any]
    """Its specification in a scenario."""

    @property
    def is_program(self) -> bool:
        """Whether the component solves linear programs."""
        return self.settings["kind"] in {"optimal_privacy", "optimal_quality"}


@dataclass(frozen=True, slots=True)
class Cost:
    """Measurements of a component in s, or bytes for memory; empty if it was skipped."""

    part: Part
    metrics: dict[str, float] = field(default_factory=dict)
    note: str = ""


def parts() -> dict[str, Part]:
    """Return all components by name; if a name exists in two families, the later one includes its family."""
    by_name: dict[str, Part] = {}
    for family, variants in _VARIANTS.items():
        of_kinds = {kind: {"kind": kind} for kind in listing()[family][1] if kind != "module:Class"}
        for kind, settings in (of_kinds | variants).items():
            name = f"{kind}-{family}" if kind in by_name else kind
            by_name[name] = Part(family, name, settings)
    return by_name


def measure(
    chosen: Sequence[Part],
    *,
    cells: int,
    solver: str = "ipm",
    rounds: int = 3,
    queries: int = 300,
    named: bool = False,
    progress: Callable[[Part], None] = lambda _part: None,
) -> list[Cost]:
    """Measure components one after the other, with `queries` queries of a user.

    Large linear programs are solved only if the components were `named`.
    """
    bench = _Bench(City(shape_of(cells)), solver, rounds, queries)
    costs = []
    for part in chosen:
        large = part.is_program and bench.city.n_cells > MOST_CELLS_OF_A_PROGRAM
        if large and not named:
            costs.append(Cost(part, note=f"over {MOST_CELLS_OF_A_PROGRAM} cells only if named"))
            continue
        progress(part)
        costs.append(bench.measure(part))
    return costs


def shape_of(cells: int) -> tuple[int, int]:
    """Return rows and columns of a grid of about `cells` cells, with more rows than columns.

    >>> shape_of(250), shape_of(100), shape_of(12), shape_of(1)
    ((25, 10), (20, 5), (6, 2), (1, 1))
    """
    widest = math.isqrt(cells)
    shapes = [(round(cells / cols), cols) for cols in range(math.ceil(widest / 2), widest + 1)]
    return min(shapes, key=lambda shape: (abs(math.prod(shape) - cells), abs(math.log(shape[0] / shape[1] / 2.5))))


class _Bench:
    """City with users, their reports and their statistics."""

    def __init__(self, city: City, solver: str, rounds: int, queries: int) -> None:
        self.city = city
        self._solver = solver
        self._rounds = rounds
        self._queries = queries
        self._traces = [city.trace(f"user-{number}", queries) for number in range(CANDIDATES)]
        self._training = city.statistics(city.trace("another user", queries))
        self._test = {trace.user: city.statistics(trace) for trace in self._traces}
        exponential = self._maker(Part("design", "exponential", {"kind": "exponential"}))
        self._channel = exponential()(self._training.profile)
        self._noise = stream(SEED, "noise", "costs")
        self._reports = {
            trace.user: [
                Report(trace.user, index, int(time_s), self._channel.sample(int(cell), self._noise), self._channel)
                for index, (time_s, cell) in enumerate(zip(trace.times_s, trace.cells, strict=True), start=1)
            ]
            for trace in self._traces
        }

    def measure(self, part: Part) -> Cost:
        """Measure one component."""
        measure_family = {
            "design": self._cost_of_design,
            "belief": self._cost_of_belief,
            "attack": self._cost_of_attack,
        }
        return Cost(part, measure_family[part.family](part))

    # Designs

    def _cost_of_design(self, part: Part) -> dict[str, float]:
        priors, make = cycle(self._priors()), self._maker(part)
        design = make()
        if part.is_program and self.city.n_cells > MOST_CELLS_OF_A_PROGRAM:
            now, most = resident()
            took_s = seconds_of(lambda: _channel_of(design, next(priors)))
            memory = {"memory": resident()[1] - now} if resident()[1] > most else {}
            return {"new prior": took_s} | memory
        metrics = {
            "first": self._median(lambda: self._query(make(), next(priors))),
            "new prior": self._median(lambda: self._query(design, next(priors))),
        }
        if "quality_budget_km" in registry.kinds("design")[part.settings["kind"]].model_fields:
            spends = self._maker(part, quality_budget_km=BUDGET_KM)()
            metrics["budget"] = self._median(lambda: self._query(spends, next(priors)))
        channel, cells = _channel_of(design, next(priors)), cycle(self._traces[0].cells.tolist())
        metrics["same prior"] = self._median(lambda: channel.likelihood(channel.sample(next(cells), self._noise)))
        return metrics

    def _maker(self, part: Part, **more: Any) -> Callable[[], Design]:
        """Return a function that builds the design."""
        solver = {"solver": self._solver} if part.is_program else {}
        lppm = {"name": "bench", "belief": "fixed_profile", "design": {**part.settings, **solver, **more}}
        scenario = self._scenario(*_DISTANCES.get(part.name, ("manhattan", "manhattan")), lppms=[lppm])
        world = scenario.build_world()
        return lambda: scenario.lppms[0].design.build(world)

    def _scenario(self, privacy: str = "manhattan", quality: str = "manhattan", **parts: Any) -> Scenario:
        grid = self.city.world.grid
        settings = {
            "name": "bench",
            "world": {
                "grid": {"kind": "san_francisco", "rows": grid.rows, "cols": grid.cols},  # designs may need coordinates
                "privacy_distance": privacy,
                "quality_distance": quality,
            },
            "users": {"count": 1, "queries": 1, "mobility": "favourites"},
            "training": {"nothing": "nothing"},
            "lppms": ["identity"],
            "attacks": [],
        }
        return Scenario.model_validate(settings | parts)

    def _query(self, design: Design, prior: FloatArray) -> FloatArray:
        channel = _channel_of(design, prior)
        return channel.likelihood(channel.sample(int(self._traces[0].cells[0]), self._noise))

    def _priors(self) -> list[FloatArray]:
        """Return distinct priors like those of a mechanism that learns."""
        profiles = np.array([own.profile for own in self._test.values()])
        weights = stream(SEED, "priors").dirichlet(np.ones(len(profiles)), size=_PRIORS)
        return list(0.95 * weights @ profiles + 0.05 / self.city.n_cells)

    # Beliefs and attacks

    def _cost_of_belief(self, part: Part) -> dict[str, float]:
        reports = self._reports[self._traces[0].user]
        likelihoods = [self._channel.likelihood(report.output) for report in reports]
        spec = self._scenario(lppms=[{"name": "bench", "belief": part.settings, "design": "identity"}]).lppms[0]

        def live() -> None:
            belief = spec.belief.build(self._training, None, self.city.world)
            for report, likelihood in zip(reports, likelihoods, strict=True):
                belief.prior(report.time_s)
                belief.observe(report.time_s, likelihood)

        return {"report": self._median(live) / self._queries}

    def _cost_of_attack(self, part: Part) -> dict[str, float]:
        reports, users = self._observed(part)
        plain, foreseen = (self._rounds_of_attack(part, reports, users, expected) for expected in (False, True))
        metrics = {"report": plain[0] / len(reports), "with expected metrics": foreseen[0] / len(reports)}
        return metrics if plain[1] is None else metrics | {"end": plain[1]}

    def _observed(self, part: Part) -> tuple[list[Report], list[str]]:
        """Return the reports and users to observe: one user, or the first reports of all users for identification."""
        users = [trace.user for trace in self._traces]
        if not part.settings["kind"].startswith("identification"):
            return self._reports[users[0]], users[:1]
        in_turn = zip(*(self._reports[user][: self._queries // CANDIDATES] for user in users), strict=True)
        return [report for simultaneous in in_turn for report in simultaneous], users

    def _rounds_of_attack(
        self, part: Part, reports: Sequence[Report], users: Sequence[str], expected: bool
    ) -> tuple[float, float | None]:
        """Return the CPU time in s of all reports, and of `conclude` if it yields estimates."""
        scenario = self._scenario(attacks=[part.settings], record={"expected": expected})
        spec = scenario.attacks[0]
        known = {user: self._training if spec.knows == "training" else self._test[user] for user in users}
        during, after = [], []
        for _ in range(self._rounds):
            attack = spec.build(scenario.attack_context(self.city.world, known))
            began = process_time()
            for report in reports:
                attack.observe(report)
            during.append(process_time() - began)
            began = process_time()
            revised = sum(1 for _ in AttackCapabilities.conclude.of(attack)())
            after.append(process_time() - began if revised else None)
        ends = [end for end in after if end is not None]
        return median(during), median(ends) if ends else None

    def _median(self, action: Callable[[], object]) -> float:
        action()  # imports, compilation and caches at first use do not count
        return median(seconds_of(action) for _ in range(self._rounds))


def _channel_of(design: Design, prior: FloatArray) -> Channel:
    """Return a channel without using a cache."""
    return MatrixChannel(design.matrix(prior)) if isinstance(design, OptimalPrivacy | OptimalQuality) else design(prior)
