"""The paper's experiments as studies: a scenario file each, and where its data come from."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sim.scenario.examples import examples_folder
from sim.scenario.models import Scenario
from sim.scenario.reading.source import read

DATASETS = {
    "brightkite": ("brightkite.parquet", "brightkite_sf_ccs17.csv.gz"),
    "gowalla": ("gowalla.parquet", "gowalla_sf_ccs17.csv.gz"),
    "taxicab": ("cabspotting.parquet", "cabs_sf_points.csv.gz"),
}
"""The names that a data set's trace file may have; the first is the one that docs/data.md gives it."""

QUICK = {"brightkite": 2, "gowalla": 2, "taxicab": 1}
"""So many replications are enough for a first look."""


HALF = {"brightkite": 150, "gowalla": 150, "taxicab": 432}
"""How many queries half of a test trace has."""


@dataclass(frozen=True, slots=True)
class Study:
    """An experiment (sp, mk) on a data set with a base mechanism (exp, lh)."""

    experiment: str
    dataset: str
    base: str

    @property
    def name(self) -> str:
        """As its scenario file is called."""
        return f"{self.experiment}-{self.dataset}-{self.base}"

    def scenario(self, file: Path, *, quick: bool = False, log: str = "queries") -> Scenario:
        """Return its scenario, which reads this trace file; `log: summary` keeps a row for each half of a trace."""
        path = scenario_folder() / f"{self.name}.yaml"
        data = {"name": self.name, **copy.deepcopy(read(path).data)}
        for reader in (data["users"], *data["training"].values()):
            if "mobility" in reader:  # cabs are trained on their own past or each other's
                reader["mobility"]["file"] = f"data:{file.name}"
        if quick:
            data["replications"] = QUICK[self.dataset]
        if log == "summary":
            data["record"] |= {"log": log, "window": HALF[self.dataset]}
        folders = {"folder": path.parent, "data": file.parent.resolve()}
        return Scenario.model_validate(data, context=folders).at(folders["folder"], folders["data"])


STUDIES = [
    *(
        Study(experiment, dataset, base)
        for experiment in ("sp", "mk")
        for dataset in ("brightkite", "gowalla")
        for base in ("exp", "lh")
    ),
    *(Study("mk", "taxicab", base) for base in ("exp", "lh")),
]


def found_in(folder: Path | None) -> Mapping[str, Path]:
    """Return the trace file of each data set that a folder has."""
    if folder is None:
        return {}
    places = {dataset: [folder / name for name in names] for dataset, names in DATASETS.items()}
    there = {dataset: [path for path in paths if path.is_file()] for dataset, paths in places.items()}
    return {dataset: paths[0] for dataset, paths in there.items() if paths}


def scenario_folder() -> Path:
    """Return the folder of the paper's scenarios."""
    return examples_folder() / "paper"
