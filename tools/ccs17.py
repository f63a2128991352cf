"""Compare mechanisms with published results on the points of interest of San Francisco (Oya et al., CCS 2017).

    python tools/ccs17.py --data DATA
    python tools/ccs17.py --data DATA --results RESULTS --page docs/validation.md

DATA is a folder with ccs17_gowalla_points.csv.gz and ccs17_gowalla_results.csv. `--results` replaces the latter by
another file in its format, or by the folder RESULTS of the authors' repository (simon-oya/CCS17-matlab-code), which has
all twelve epsilons. `--page` replaces the tables between `% table: NAME` and `% end` of the page. The exit code is 1 if
a result differs by more than the tolerance. Rows of other mechanisms are counted and omitted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from sim.components.files import Place
from sim.inference.geometric_median import best_point
from sim.interfaces import FloatArray
from sim.lppm.plane_theory import (
    Median,
    PlaneTheory,
    coin_theory,
    exponential_outputs,
    laplace,
    plane_theory,
    sampled_plane_theory,
)
from sim.scenario.world import WorldSpec
from tools.beyond import replaced

POINTS = "ccs17_gowalla_points.csv.gz"
RESULTS = "ccs17_gowalla_results.csv"
MATLAB = {"exponential": "Exp", "laplace": "Lap", "coin": "coin"}
"""Mechanisms that are compared, and their names in the authors' files."""
METRICS = {
    "loss_without_remap_km": "loss before the remap, km",
    "loss_km": "loss after the remap, km",
    "error_km": "P_AE, km",
    "entropy_bits": "entropy, bits",
}
PUBLISHED_DRAWS = 5_000
DRAWS = 20_000
RELATIVE = 1e-3
"""Largest relative difference of exact results; published ones are rounded to five decimals."""
MOST_ERRORS = 4.0
"""Largest difference of sampled results in standard errors."""
_ROUNDING = 5e-6
_COIN_LOSSES_KM = (0.0, 0.5, 1.0, 1.5, 2.0)


class Points(NamedTuple):
    """Points of interest with their prior."""

    prior: FloatArray
    x_km: FloatArray
    y_km: FloatArray


class Comparison(NamedTuple):
    """A published number and ours."""

    mechanism: str
    parameter: float
    metric: str
    published: float
    ours: float
    """With the authors' stopping rule for medians, if the result is exact."""
    exact: float | None
    """With exact medians, if the result is exact."""
    error: float | None
    """Standard error of the difference, if both are sampled."""

    @property
    def agrees(self) -> bool:
        """Return whether the difference is within the tolerance."""
        difference = abs(self.ours - self.published)
        if self.error is not None:
            return difference <= MOST_ERRORS * self.error
        return difference <= RELATIVE * self.published + _ROUNDING


def main() -> None:
    """Print the tables, or replace those of a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {POINTS} and {RESULTS}")
    parser.add_argument("--results", type=Path, help="other results: a file of this format, or the authors' folder")
    parser.add_argument("--epsilon", type=float, action="append", help="compare this epsilon only (repeatable)")
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"draws of sampled results (default: {DRAWS:,})")
    options = parser.parse_args()
    points = read_points(options.data)
    results = read_results(options.results or options.data / RESULTS)
    if options.epsilon is not None:
        chosen = np.isclose(results["parameter"].to_numpy()[:, None], options.epsilon, rtol=1e-4).any(axis=1)
        results = results[chosen | (results["mechanism"] == "coin")]
    comparisons = []
    for row in results.to_dict("records"):
        print(f"{row['mechanism']} {row['parameter']:g}", file=sys.stderr, flush=True)
        comparisons += compare(pd.Series(row), points, draws=options.draws)
    if options.page is not None:
        options.page.write_text(replaced(options.page.read_text(), lambda name: table(name, comparisons)))
    else:
        print("\n\n".join(table(name, comparisons) for name in MATLAB))
    failed = [one for one in comparisons if not one.agrees]
    print(f"{len(comparisons)} numbers compared, {len(failed)} outside the tolerance", file=sys.stderr)
    sys.exit(1 if failed else 0)


def read_points(data: Path) -> Points:
    """Read the points of interest as locations of a scenario; their weights are the prior."""
    columns = {"x_km": "east_km", "y_km": "north_km", "weight": "prior"}
    spec = WorldSpec.model_validate({"locations": {"kind": "points", "file": POINTS, "columns": columns}})
    locations = spec.build_locations(0, Place(data))
    assert locations.weights is not None
    return Points(locations.weights / locations.weights.sum(), locations.x_km, locations.y_km)


def read_results(path: Path) -> pd.DataFrame:
    """Read published results, and print how many are of mechanisms that are not compared."""
    if path.is_dir():
        return pd.DataFrame([row for name in MATLAB for row in _matlab_rows(path, name)])
    results = pd.read_csv(path)
    compared = (results["experiment"] == "unbounded") & results["mechanism"].isin(list(MATLAB))
    print(f"{path.name}: {compared.sum()} rows compared, {(~compared).sum()} of other mechanisms", file=sys.stderr)
    return results[compared]


def _matlab_rows(folder: Path, mechanism: str) -> Iterator[dict[str, object]]:
    """Yield the results of a mechanism from the authors' file; sampled ones are means of rows of draws."""
    from scipy.io import loadmat  # slow to import

    content = loadmat(folder / f"RES_SF_{MATLAB[mechanism]}_Gowalla.mat")
    names = ("QnoR_measures", "QminL2_measures", "PAEl2_measures", "PCE_measures")
    sampled = len(content[names[0]]) == PUBLISHED_DRAWS
    columns = [content[name].mean(axis=0) if sampled else content[name].ravel() for name in names]
    parameters = _COIN_LOSSES_KM if mechanism == "coin" else content["param_list"].ravel().tolist()
    for parameter, *values in zip(parameters, *columns, strict=True):
        yield {"mechanism": mechanism, "parameter": parameter, **dict(zip(METRICS, values, strict=True))}


def compare(row: pd.Series, points: Points, *, draws: int = DRAWS) -> list[Comparison]:
    """Return the comparisons of a row of published results."""
    mechanism, parameter = str(row["mechanism"]), float(row["parameter"])
    errors: PlaneTheory | None = None
    exact: PlaneTheory | None = None
    match mechanism:
        case "laplace":
            rng = np.random.default_rng(17)
            sampled = sampled_plane_theory(laplace(parameter), *points, draws=draws, rng=rng)
            ours = sampled.mean
            share = (1 / draws + 1 / PUBLISHED_DRAWS) ** 0.5
            errors = PlaneTheory(*(deviation * share for deviation in sampled.deviation))
        case "exponential":
            exact = exponential_theory(points, epsilon_per_km=parameter, median=best_point)
            ours = exponential_theory(points, epsilon_per_km=parameter, median=stopped_median)
        case _:
            exact = coin_theory(*points, loss_km=parameter)
            ours = coin_theory(*points, loss_km=parameter, median=stopped_median)
    own = ("loss_without_remap_km", "loss_km", "loss_km", "entropy_bits")  # P_AE is the loss after the remap
    return [
        Comparison(
            mechanism,
            parameter,
            metric,
            float(row[metric]),
            getattr(ours, name),
            None if exact is None else getattr(exact, name),
            None if errors is None else getattr(errors, name),
        )
        for metric, name in zip(METRICS, own, strict=True)
    ]


def exponential_theory(points: Points, *, epsilon_per_km: float, median: Median) -> PlaneTheory:
    """Return the metrics of the exponential mechanism with a rule for medians."""
    prior, x_km, y_km = points
    outputs = exponential_outputs(x_km, y_km, epsilon_per_km=epsilon_per_km)
    return plane_theory(outputs, prior, x_km, y_km, median=median)


def stopped_median(weights: FloatArray, x_km: FloatArray, y_km: FloatArray) -> tuple[float, float]:
    """Return Weiszfeld's iterate after the first step of at most 32 m, from the mean.

    This is the stopping rule of the authors' `compute_geometric_median`: a squared step of at most 0.001 km², at most
    199 steps, and the iterate itself if it is a location.

    >>> x_km, _ = stopped_median(np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, 2.0]), np.zeros(3))
    >>> round(x_km, 3)  # the exact median is 0
    0.7
    """
    total = weights.sum()
    x, y = float(weights @ x_km / total), float(weights @ y_km / total)
    for _ in range(199):
        away_km = np.hypot(x_km - x, y_km - y)
        if not away_km.all():
            break
        pull = weights / away_km
        last, total = (x, y), pull.sum()
        x, y = float(pull @ x_km / total), float(pull @ y_km / total)
        if (x - last[0]) ** 2 + (y - last[1]) ** 2 <= 1e-3:
            break
    return x, y


def table(mechanism: str, comparisons: list[Comparison]) -> str:
    """Return the comparisons of a mechanism as Markdown."""
    own = [one for one in comparisons if one.mechanism == mechanism]
    name = "loss" if mechanism == "coin" else "epsilon per km"
    sampled = any(one.error is not None for one in own)
    last = "difference / standard error" if sampled else "with exact medians"
    titles = [name, "metric", "published", "ours", "difference", last]
    lines = [titles, ["---"] * len(titles)]
    for one in own:
        start = f"{one.parameter:.4g}" if one.metric == next(iter(METRICS)) else ""
        mark = "" if one.agrees else " (!)"
        difference = f"{round(one.ours - one.published, 5) + 0.0:+.5f}{mark}"  # no negative zero
        detail = f"{(one.ours - one.published) / one.error:+.2f}" if one.error else f"{one.exact:.5f}"
        lines.append([start, METRICS[one.metric], f"{one.published:.5f}", f"{one.ours:.5f}", difference, detail])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
