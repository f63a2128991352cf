"""Run the scenarios of docs/approximate_location.md, and fill its tables and its figure.

    python tools/approximate_location.py RUNS --data FOLDER --page docs/approximate_location.md \\
        -o docs/images/approximate_location.png

RUNS is a folder with a run directory for each population. Finished runs in it are not simulated again: remove a run
after a change of its scenario. Without the real data (`--data`, or the environment variable LPPM_SIM_DATA) tables that
need them stay as they are, and the figure has the other populations only.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sim
from sim.components.files import PREFIX, VARIABLE
from sim.paper.studies import DATASETS
from sim.scenario.models import Scenario
from sim.scenario.reading.source import read
from tools.approximate_location_figure import Series, draw
from tools.beyond import replaced
from tools.equal_loss_evidence import ADVERSARIES, ROUTINE, STRANGER, Evidence, Target

SCENARIOS = Path(__file__).parents[1] / "scenarios"
Lines = list[list[str]]


@dataclass(frozen=True, slots=True)
class Population:
    """People of the page, and the scenario that simulates them."""

    people: str
    scenario: str
    """Path below `SCENARIOS`."""
    target: Target = ""
    files: tuple[str, ...] = ()
    """Allowed names of the trace file; none for synthetic people."""


POPULATIONS = {
    "commuters": Population("Synthetic commuters", "approximate_location.yaml", "home"),
    "gowalla": Population("Check-ins (Gowalla)", "approximate_location/gowalla.yaml", "place", DATASETS["gowalla"]),
    "cabs": Population("Cabs", "approximate_location/cabs.yaml", files=DATASETS["taxicab"]),
}
OTHERS = "others"
"""Name of the table with the other swept mechanisms, on commuters."""
NAMES = (*(f"{name} {adversary}" for name in POPULATIONS for adversary in ADVERSARIES), OTHERS)


def main() -> None:
    """Run what is missing, replace the tables of the page and draw the figure; print the tables without a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path, help="folder of the runs")
    parser.add_argument("--data", type=Path, default=os.environ.get(VARIABLE), help="folder of the real data")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="number of worker processes")
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    parser.add_argument("-o", "--out", type=Path, help="figure")
    options = parser.parse_args()
    evidence = dict(collected(options.runs, None if options.data is None else Path(options.data), options.workers))
    if options.page is not None:
        page = options.page.read_text()
        tables = tables_in(page) | tables_of(evidence)
        options.page.write_text(replaced(page, tables.__getitem__))
    else:
        print("\n\n".join(f"% table: {name}\n\n{table}\n\n% end" for name, table in tables_of(evidence).items()))
    if options.out is not None:
        series = [Series(POPULATIONS[name].people, compared(name, own)) for name, own in evidence.items()]
        draw(series, evidence["commuters"].last_day, options.out)


def collected(runs: Path, data: Path | None, workers: int | None) -> Iterator[tuple[str, Evidence]]:
    """Yield the evidence of each population whose data are there, from its run, which is simulated if necessary."""
    for name, population in POPULATIONS.items():
        folder = runs / name
        files = [data / file for file in population.files if data is not None and (data / file).is_file()]
        if (folder / "manifest.json").exists() and (result := sim.Result.open(folder)).manifest.finished:
            print(f"{name}: finished run {folder}")
            yield name, Evidence(result)
        elif population.files and not files:
            print(f"{name}: omitted, no {' or '.join(population.files)} in {data or 'a folder (--data)'}")
        else:
            scenario = scenario_of(population, *files[:1])
            yield name, Evidence(sim.run(scenario, out=folder, figures=False, workers=workers))


def scenario_of(population: Population, file: Path | None = None) -> Scenario:
    """Return the scenario of a population, which reads this trace file."""
    path = SCENARIOS / population.scenario
    if file is None:
        return sim.load(path)
    data = {"name": path.stem, **read(path).data}
    for reader in (data["users"], data["training"]["others"]):
        reader["mobility"]["file"] = f"{PREFIX}{file.name}"
    folders = {"folder": path.parent, "data": file.parent.resolve()}
    return Scenario.model_validate(data, context=folders).at(folders["folder"], folders["data"])


def tables_in(page: str) -> dict[str, str]:
    """Return the tables of a page by name.

    >>> tables_in("% table: a\\n\\n| old |\\n\\n% end\\n")
    {'a': '| old |'}
    """
    return {name: text.strip("\n") for name, text in re.findall(r"(?ms)^% table: ([^\n]+)\n(.*?)^% end$", page)}


def tables_of(evidence: Mapping[str, Evidence]) -> dict[str, str]:
    """Return all tables as Markdown."""
    lines = {
        f"{name} {adversary}": compared_lines(table, POPULATIONS[name].target, own.last_day, adversary)
        for name, own in evidence.items()
        for adversary, table in compared(name, own).items()
    }
    if "commuters" in evidence:
        lines[OTHERS] = of_swept(evidence["commuters"])
    return {name: "\n".join(f"| {' | '.join(line)} |" for line in own) for name, own in lines.items()}


def compared(name: str, evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Return the comparison of a population by adversary."""
    return {adversary: evidence.compared(adversary, POPULATIONS[name].target) for adversary in ADVERSARIES}


def compared_lines(table: pd.DataFrame, target: Target, last_day: int, adversary: str) -> Lines:
    """Return the comparison of one adversary; values of `OURS` after an arrow.

    The target is shown for strangers only: somebody who knows the routine knows it beforehand.
    """
    target = target if adversary == STRANGER else ""
    extra = {"home": ["homes known", "95 % interval", "median days"], "place": ["places known", "95 % interval"]}
    titles = [f"{table['users'].max()} users", "loss, km", "error, km", "difference, km", "located"]
    titles += extra.get(target, [])
    first = table.iloc[0]
    control = ["*no report*", "", f"{first['control_error_km']:.2f}", "", f"{first['control_located']:.0%}"]
    control += [f"{first['control_found']:.0%}"] if target else []
    lines = [titles, ["---"] * len(titles), control + [""] * (len(titles) - len(control))]
    row: Any
    for name, row in table.sort_values("loss_km", kind="stable").iterrows():
        mark = "*" if row["outside"] else ""
        half_km = (row["difference_km_high"] - row["difference_km_low"]) / 2
        apart = "–" if np.isnan(half_km) else f"{row['difference_km']:+.2f} ± {half_km:.2f}{mark}"
        cells = [str(name), f"{row['loss_km']:.2f}", _pair(row, "error_km", "{:.2f}"), apart]
        half = (row["located_high"] - row["located_low"]) / 2
        cells.append(_pair(row, "located", "{:.0%}", f" ± {half:.0%}"))
        if target:
            cells += [_pair(row, "found", "{:.0%}"), f"{row['found_low']:.0%} to {row['found_high']:.0%}"]
        if target == "home":
            cells.append(_pair(row, "median_days", "{:.0f}").replace("inf", f"> {last_day}"))
        lines.append(cells)
    return lines


def _pair(row: Any, column: str, form: str, interval: str = "") -> str:
    """Return the value of the fixed mechanism, and that of the swept one at the same loss if there is any."""
    ours = row[f"our_{column}"]
    return form.format(row[column]) + interval + ("" if np.isnan(ours) else f" → {form.format(ours)}")


def of_swept(evidence: Evidence) -> Lines:
    """Return errors and homes known with each swept mechanism at the loss of each fixed one."""
    names = evidence.swept
    lines = [["value", "at the loss of", "its value", *names], ["---"] * (len(names) + 3)]
    for adversary, column, form in (
        (ROUTINE, "error_km", "{:.2f}"),
        (STRANGER, "error_km", "{:.2f}"),
        (STRANGER, "found", "{:.0%}"),
    ):
        tables = {name: evidence.compared(adversary, "home", name) for name in names}
        own = tables[names[0]].sort_values("loss_km", kind="stable")[column]
        label = f"{'homes known' if column == 'found' else 'error, km'}: {adversary}"
        for fixed, value in own.items():
            values = [float(table[f"our_{column}"][str(fixed)]) for table in tables.values()]
            if not np.isnan(values).all():
                lines.append([label, str(fixed), form.format(value), *map(form.format, values)])
    return lines


if __name__ == "__main__":
    main()
