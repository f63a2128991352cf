"""Whole simulations of small worlds equal the full joint table: every row of the log is computed by enumeration.

The first test uses no code of the simulator for channels, remaps, filters, profile estimates and expected metrics: they
are sums over all sequences of cells and a search over all supports. The last test sums the steps of the simulator over
all possible reports.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

import sim
from sim.attack.optimal import OptimalAttack
from sim.belief.estimated_profile import EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.belief.markov_filter import MarkovFilter
from sim.belief.recursive_profile import RecursiveProfileParameters
from sim.events import Report
from sim.interfaces import Belief
from sim.lppm.designs.coin import Coin
from sim.lppm.designs.exponential import Exponential
from sim.lppm.designs.location_hiding import LocationHiding
from sim.lppm.mechanism import Mechanism
from sim.mobility.statistics import statistics
from sim.mobility.traces import Trace
from sim.world import World
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import MakeScenario, made

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

Array = NDArray[np.float64]

ROWS, COLS = 2, 3
N = ROWS * COLS
QUERIES = 4
EPSILON = 0.9
LEARNING_EPSILON = 1.7  # for PEB: with a lower value remaps merge outputs, and the likeliest profile is not unique
ALPHA = 0.4
FADING = 0.5


def distances(kind: str) -> Array:
    """Return distances in km between cells of 1 km x 1 km; directed ones are asymmetric."""
    places = [(cell // COLS, cell % COLS) for cell in range(N)]
    if kind == "directed":
        return distances("manhattan") * (1 + 0.3 * np.triu(np.ones((N, N))))
    if kind == "manhattan":
        return np.array([[abs(a - c) + abs(b - d) for c, d in places] for a, b in places], dtype=float)
    return np.array([[np.hypot(a - c, b - d) for c, d in places] for a, b in places])


def best(weights: Array, distance: Array) -> int:
    """Return the first of the cells with the minimum expected distance."""
    costs = [sum(weights[x] * distance[x, y] for x in range(N)) for y in range(N)]
    limit = min(costs) + 1e-12 * weights.sum() * distance.max()
    return next(y for y in range(N) if costs[y] <= limit)


def base(design: str, distance: Array, epsilon: float) -> Array:
    if design == "Exp":
        kernel = np.exp(-epsilon * distance)
        return np.array(kernel / kernel.sum(axis=1, keepdims=True))
    return np.where(np.eye(N) == 1, ALPHA, (1 - ALPHA) / (N - 1))


def channel(design: str, prior: Array, distance: Array, epsilon: float = EPSILON) -> Array:
    """Remap each output of the base to the best cell for its posterior; mix and coin also reveal the cell."""
    if design in ("Mix", "Coin"):
        other = channel("Exp", prior, distance, epsilon if design == "Mix" else 0.0)
        return np.asarray(ALPHA * np.eye(N) + (1 - ALPHA) * other)
    plain = base(design, distance, epsilon)
    matrix = np.zeros((N, N))
    for z in range(N):
        weights = prior * plain[:, z]
        matrix[:, best(weights, distance) if weights.sum() > 0 else z] += plain[:, z]
    return matrix


def counted(cells: Sequence[int]) -> tuple[Array, Array]:
    """Return the histogram and the transitions of a trace; rows without data are the histogram."""
    profile = np.array([cells.count(x) for x in range(N)]) / len(cells)
    pairs = list(itertools.pairwise(cells))
    rows = []
    for a in range(N):
        leaving = [b for x, b in pairs if x == a]
        rows.append([leaving.count(b) / len(leaving) for b in range(N)] if leaving else profile)
    return profile, np.array(rows)


def markov_prior(profile: Array, transition: Array, channels: Sequence[Array], outputs: Sequence[int]) -> Array:
    """Return p(x^r | z^{r-1}), unnormalised, by a sum over all sequences of r cells."""
    total = np.zeros(N)
    for cells in itertools.product(range(N), repeat=len(outputs) + 1):
        p = profile[cells[0]]
        for a, b in itertools.pairwise(cells):
            p *= transition[a, b]
        for f, z, x in zip(channels, outputs, cells[:-1], strict=True):
            p *= f[x, z]
        total[cells[-1]] += p
    return np.array(total / total.sum())


def likeliest(rows: Array) -> Array:
    """Return the profile that maximises the likelihood of at most three reports, by a search over all supports.

    Cells with equal columns share their mass evenly, as EM from the uniform profile does. An optimum exists on at most
    as many different columns as there are different rows (Caratheodory). On a pair of columns the likelihood has one
    variable; on three columns and three rows, its optimum on the plane sum(pi) = 1 has a closed form.
    """
    groups = [[j for j in range(N) if np.allclose(rows[:, j], rows[:, i], rtol=1e-12, atol=0)] for i in range(N)]
    columns = [i for i in range(N) if groups[i][0] == i]
    candidates = [
        (float(np.log(rows[:, support] @ masses).sum()), support, masses)
        for size in (1, 2, 3)
        for support in map(list, itertools.combinations(columns, size))
        if (masses := stationary(rows[:, support])) is not None
    ]
    _, support, masses = max(candidates, key=lambda candidate: candidate[0])
    slopes = (rows / (rows[:, support] @ masses)[:, None]).mean(axis=0)
    assert slopes.max() < 1 + 1e-9, "not a maximum"
    active = [i for i in columns if slopes[i] > 1 - 1e-6]
    assert np.linalg.matrix_rank(rows[:, active]) == len(active), "more than one maximum: the test needs other traces"
    profile = np.zeros(N)
    for column, mass in zip(support, masses, strict=True):
        profile[groups[column]] = mass / len(groups[column])
    return profile


def stationary(columns: Array) -> Array | None:
    """Return the masses above 0 on these columns at which the likelihood of the rows has slope 0, None if none are."""
    n_rows, size = columns.shape
    if size == 1:
        return np.ones(1) if columns.all() else None
    if size == 2:
        first, second = columns.T

        def slope(share: float) -> float:
            return float(((second - first) / ((1 - share) * first + share * second)).sum())

        if not (slope(1e-12) > 0 > slope(1 - 1e-12)):
            return None
        share = float(brentq(slope, 1e-12, 1 - 1e-12, xtol=1e-15))
        return np.array([1 - share, share])
    if n_rows < size or np.linalg.matrix_rank(columns) < size:
        return None
    # With fitted values y and pi = A^-1 y: maximise sum(log y) / 3 where u . y = 1, u = A^-T 1. So y = 1 / (3 u).
    level = np.linalg.solve(columns.T, np.ones(size))
    if not level.min() > 0:
        return None
    masses = np.linalg.solve(columns, 1 / (size * level))
    return np.asarray(masses) if masses.min() > 0 else None


def learned_prior(initial: Array, channels: Sequence[Array], outputs: Sequence[int]) -> Array:
    """Return PEB's prior of query r from the r - 1 reports before it (Oya et al. 2019, eqs. (updatepi), (pinorm))."""
    if not outputs:
        return initial
    rows = np.array([f[:, z] for f, z in zip(channels, outputs, strict=True)])
    weight = (len(outputs) + 1) ** -FADING
    return np.array(weight * initial + (1 - weight) * likeliest(rows))


def prior_of(model: str, known: tuple[Array, Array], channels: list[Array], outputs: list[int]) -> Array:
    if model == "learned":
        return learned_prior(known[0], channels, outputs)
    return known[0] if model == "sporadic" else markov_prior(*known, channels, outputs)


MODELS = {"SP": "sporadic", "MK": "markov", "PEB": "learned"}


TRACES = {
    "ann": [0, 1, 1, 2, 5, 5, 4, 1, 0, 1, 1, 4, 2, 2, 5, 3],
    "bob": [3, 3, 4, 5, 4, 3, 0, 0, 3, 4, 4, 1, 3, 4, 0, 3],
}
PAST = len(TRACES["ann"]) - QUERIES


def spec(kind: str, folder: Path) -> dict[str, str]:
    if kind != "directed":
        return {"kind": kind}
    np.save(folder / "directed.npy", distances(kind))
    return {"kind": "matrix", "file": str(folder / "directed.npy")}


def log_of(
    lppm: str, privacy: str, quality: str, make_scenario: MakeScenario, folder: Path, **changes: Any
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Run both users through one mechanism and both attacks, trained on their own past."""
    rows = [(user, i, cell) for user, cells in TRACES.items() for i, cell in enumerate(cells)]
    pd.DataFrame(rows, columns=["user", "order", "cell"]).to_csv(folder / "traces.csv", index=False)
    epsilon = LEARNING_EPSILON if lppm.startswith("PEB") else EPSILON
    design = {} if lppm.endswith("Exp") else {"reveal_probability": ALPHA}
    design |= {"epsilon_per_km": epsilon} if lppm.endswith(("Exp", "Mix")) else {}
    protection: dict[str, Any] = {"kind": lppm, "design": design}
    if lppm.startswith("PEB"):
        protection["belief"] = {"fading": FADING, "gap": 1e-12}
    grid = {"kind": "rectangle", "rows": ROWS, "cols": COLS, "width_km": float(COLS), "height_km": float(ROWS)}
    settings: dict[str, Any] = {
        "replications": 2,
        "world": {"grid": grid, "privacy_distance": spec(privacy, folder), "quality_distance": spec(quality, folder)},
        "users": {"mobility": {"kind": "replay", "file": str(folder / "traces.csv")}, "past_queries": PAST},
        "training": {"own": "own_past"},
        "lppms": [protection],
        "attacks": ["sporadic", "markov"],
        "record": {"snapshots": list(range(1, QUERIES + 1))},
    }
    scenario = make_scenario(**settings | changes)
    result = sim.run(scenario, out=folder / "run", figures=False)
    snapshots: dict[str, Any] = {}
    for part in result.run.parts():
        arrays = result.run.snapshots(part)
        names = ("replication", "user", "index", "profile")
        for replication, user, index, profile in zip(*(arrays[name] for name in names), strict=True):
            snapshots[f"{replication}/{user}/{index}"] = profile
    return result.events(), snapshots


@pytest.mark.parametrize(
    "lppm", ["SP-Exp", "SP-LH", "MK-Exp", "MK-LH", "PEB-Exp", "PEB-LH", "SP-Mix", "MK-Mix", "SP-Coin"]
)
@pytest.mark.parametrize(
    ("privacy", "quality"),
    [
        ("manhattan", "manhattan"),
        ("euclidean", "euclidean"),
        ("manhattan", "euclidean"),
        ("directed", "manhattan"),
        ("euclidean", "directed"),
    ],
)
def test_every_row_against_the_joint_table(
    lppm: str, privacy: str, quality: str, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    p, d = distances(privacy), distances(quality)
    events, snapshots = log_of(lppm, privacy, quality, make_scenario, tmp_path)
    assert len(events) == 2 * 2 * 2 * QUERIES
    belief, design = lppm.split("-")
    for (user, replication, attack), rows in events.groupby(["user", "replication", "attack"]):
        past, test = TRACES[str(user)][:PAST], TRACES[str(user)][PAST:]
        channels: list[Array] = []
        outputs: list[int] = []
        for _, row in rows.sort_values("index").iterrows():
            x, z = test[row["index"] - 1], int(row["output"])
            prior = prior_of(MODELS[belief], counted(past), channels, outputs)
            if belief == "PEB":
                assert snapshots[f"{replication}/{user}/{row['index']}"] == pytest.approx(prior, abs=1e-6)
            f = channel(design, prior, d, LEARNING_EPSILON if belief == "PEB" else EPSILON)
            assert row["cell"] == x
            assert f[x, z] > 0
            assert row["quality_loss_km"] == pytest.approx(d[x, z], abs=1e-12)
            assert row["expected_quality_loss_km"] == pytest.approx(float(f[x] @ d[x]), abs=1e-12)
            known_prior = prior_of(str(attack), counted(test), channels, outputs)
            # For a report without mass the prior is the profile, then the uniform profile.
            priors = [known_prior, counted(test)[0], np.full(N, 1 / N)]
            answers = [
                next((best(prior * f[:, o], p) for prior in priors if (prior * f[:, o]).any()), -1) for o in range(N)
            ]
            assert row["estimate"] == answers[z]
            assert row["adversary_error_km"] == pytest.approx(p[x, answers[z]], abs=1e-12)
            error = sum(f[x, output] * p[x, answers[output]] for output in range(N) if f[x, output] > 0)
            assert row["expected_adversary_error_km"] == pytest.approx(error, abs=1e-12)
            channels.append(f)
            outputs.append(z)


def counted_from(cells: Sequence[int], first: int) -> tuple[Array, Array]:
    """Return the histogram of the queries from `first` on, counted from 0, and the transitions to them."""
    profile = np.array([cells[first:].count(x) for x in range(N)]) / len(cells[first:])
    pairs = list(itertools.pairwise(cells))[max(first - 1, 0) :]
    leaving = [[b for x, b in pairs if x == a] for a in range(N)]
    rows = [[cells.count(b) / len(cells) for b in range(N)] if cells else profile for cells in leaving]
    return profile, np.array(rows)


def changing_prior(
    model: str, known: Sequence[tuple[Array, Array]], channels: Sequence[Array], outputs: Sequence[int]
) -> Array:
    """Return p(x^r | z^{r-1}) with known[s] in force at the query s, counted from 0, by a sum over all sequences."""
    r = len(outputs)
    if model == "sporadic":
        return known[r][0]
    total = np.zeros(N)
    for cells in itertools.product(range(N), repeat=r + 1):
        p = known[0][0][cells[0]]
        for s in range(1, r + 1):
            p *= known[s][1][cells[s - 1], cells[s]]
        for f, z, x in zip(channels, outputs, cells[:-1], strict=True):
            p *= f[x, z]
        total[cells[-1]] += p
    return np.array(total / total.sum())


@pytest.mark.parametrize("lppm", ["SP-Exp", "MK-LH"])
def test_statistics_in_force_against_the_joint_table(lppm: str, make_scenario: MakeScenario, tmp_path: Path) -> None:
    """At the third query each user adopts the other's trace; some adversaries know this, others the whole test."""
    d = distances("manhattan")
    attacks = [
        {"kind": kind, "name": f"{kind} {knows}", "knows": knows}
        for kind in ("sporadic", "markov")
        for knows in ("test", "whole_test")
    ]
    shifts = [{"kind": "adopt", "what": "trace", "at_query": 3}]
    events, _ = log_of(
        lppm, "manhattan", "manhattan", make_scenario, tmp_path, attacks=attacks, shifts=shifts, replications=3
    )
    events = events[events["attack"].notna()]
    assert len(events) == 2 * 3 * 4 * QUERIES
    belief, design = lppm.split("-")
    differ = 0
    for (user, _, attack), rows in events.groupby(["user", "replication", "attack"]):
        other = {"ann": "bob", "bob": "ann"}[str(user)]
        past, test = TRACES[str(user)][:PAST], TRACES[str(user)][PAST : PAST + 2] + TRACES[other][PAST + 2 :]
        before, after, whole = counted_from(test[:2], 0), counted_from(test, 2), counted(test)
        kind, knows = str(attack).split()
        known = [before, before, after, after] if knows == "test" else [whole] * 4
        channels: list[Array] = []
        outputs: list[int] = []
        for _, row in rows.sort_values("index").iterrows():
            x, z = test[row["index"] - 1], int(row["output"])
            f = channel(design, prior_of(MODELS[belief], counted(past), channels, outputs), d)
            known_prior = changing_prior(kind, known, channels, outputs)
            if knows == "test":
                differ += not np.allclose(known_prior, changing_prior(kind, [whole] * 4, channels, outputs))
            # For a report with probability zero the prior is the profile in force, then the uniform profile.
            priors = [known_prior, known[len(outputs)][0], np.full(N, 1 / N)]
            answers = [
                next((best(prior * f[:, o], d) for prior in priors if (prior * f[:, o]).any()), -1) for o in range(N)
            ]
            assert row["cell"] == x
            assert row["estimate"] == answers[z]
            error = sum(f[x, output] * d[x, answers[output]] for output in range(N) if f[x, output] > 0)
            assert row["expected_adversary_error_km"] == pytest.approx(error, abs=1e-12)
            channels.append(f)
            outputs.append(z)
    assert differ > 10


BUDGET_KM = {"Exp": 0.7, "LH": 0.7, "Coin": 0.7, "Mix": 0.3}
"""Budgets below the loss of revealing nothing; the mix also reveals the cell with probability `ALPHA`."""
DESIGNS: dict[str, type[Exponential | LocationHiding | Coin]] = {
    "Exp": Exponential,
    "Mix": Exponential,
    "LH": LocationHiding,
    "Coin": Coin,
}


@pytest.mark.parametrize("design", ["Exp", "LH", "Mix", "Coin", "Exp budget", "LH budget", "Mix budget", "Coin budget"])
@pytest.mark.parametrize("model", ["sporadic", "markov", "learned", "recursive"])
@pytest.mark.parametrize("distance", ["manhattan", "euclidean"])
def test_error_equals_loss_of_a_remapped_mechanism_under_its_own_model(model: str, design: str, distance: str) -> None:
    """P_AE = Q-bar at each of three queries, in exact expectation over all cells and all reports.

    With a belief that learns, the cell of each query has the distribution that the belief expects.
    """
    grid = Grid.rectangle(rows=ROWS, cols=COLS, width_km=float(COLS), height_km=float(ROWS))
    measure = manhattan(grid) if distance == "manhattan" else euclidean(grid)
    profile, transition = counted(TRACES["ann"])
    start, move = (profile, transition) if model == "markov" else (profile, np.tile(profile, (N, 1)))
    kind, *budget = design.split()
    parameters: dict[str, float] = {"quality_budget_km": BUDGET_KM[kind]} if budget else {}
    parameters |= {"epsilon_per_km": EPSILON} if kind in ("Exp", "Mix") and not budget else {}
    parameters |= {"reveal_probability": ALPHA} if kind == "Mix" or (kind != "Exp" and not budget) else {}
    world = World(locations=grid, roads=None, privacy_distance=measure, quality_distance=measure)
    known = statistics([Trace("ann", np.arange(len(TRACES["ann"])), np.array(TRACES["ann"]))], n_cells=N)
    beliefs: dict[str, Callable[[], Belief]] = {
        "sporadic": lambda: FixedProfile(profile=profile),
        "markov": lambda: MarkovFilter(start_profile=start, transition=move),
        "learned": lambda: EstimatedProfileParameters(gap=1e-9).build(known, None, world),
        "recursive": lambda: RecursiveProfileParameters().build(known, None, world),
    }
    belief = beliefs[model]()
    mechanism = Mechanism(belief=belief, design=made(DESIGNS[kind], distance=measure, **parameters))
    twin = OptimalAttack(belief_of=lambda _: copy.deepcopy(belief), distance=measure)
    loss, error = np.zeros(3), np.zeros(3)

    def walk(index: int, reached: Array, mechanism: Mechanism, attack: OptimalAttack) -> None:
        """Follow every report; reached[x] is p(x^r = x, z^{r-1})."""
        if index == 3:
            return
        channel = mechanism.channel(index)
        for output, likelihood in zip(*channel.likelihoods(), strict=True):
            joint = reached * likelihood
            if not joint.any():
                continue
            next_attack, next_mechanism = copy.deepcopy(attack), copy.deepcopy(mechanism)
            report = Report("ann", index + 1, index, int(output), channel)
            guess = next_attack.observe(report)
            next_mechanism.observe(report)
            loss[index] += joint @ measure.matrix_km[:, output]
            error[index] += joint @ measure.matrix_km[:, guess.estimate]
            learned = joint.sum() * next_mechanism.belief.prior(index + 1)
            walk(index + 1, joint @ move if model in ("sporadic", "markov") else learned, next_mechanism, next_attack)

    walk(0, belief.prior(0), mechanism, twin)
    assert error == pytest.approx(loss, abs=1e-9)
    assert loss.min() > 0.1
    if budget:
        # If a report leaves little uncertainty, even no information costs less than the budget.
        assert loss[0] == pytest.approx(BUDGET_KM[kind], abs=1e-4)
        assert loss.max() < 0.7 + 1e-4
