"""The paper's experiments as studies, each with a scenario file and a data set."""

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
"""Allowed names of the trace file of each data set; the documentation uses the first."""

QUICK = {"brightkite": 2, "gowalla": 2, "taxicab": 1}
"""Number of replications of a quick run."""


HALF = {"brightkite": 150, "gowalla": 150, "taxicab": 432}
"""Number of queries in half of a test trace."""


@dataclass(frozen=True, slots=True)
class Study:
    """An experiment (sp, mk) on a data set with a base mechanism (exp, lh)."""

    experiment: str
    dataset: str
    base: str

    @property
    def name(self) -> str:
        """Stem of the scenario file."""
        return f"{self.experiment}-{self.dataset}-{self.base}"

    def scenario(self, file: Path, *, quick: bool = False, log: str = "queries") -> Scenario:
        """Return the scenario, which reads this trace file; `log="summary"` logs one row per half of a trace."""
        path = scenario_folder() / f"{self.name}.yaml"
        data = {"name": self.name, **copy.deepcopy(read(path).data)}
        for reader in (data["users"], *data["training"].values()):
            if "mobility" in reader:  # cabs are trained on their own past or that of another cab
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
    """Return the trace file of each data set in a folder; data sets without a file are omitted."""
    if folder is None:
        return {}
    candidates = {dataset: [folder / name for name in names] for dataset, names in DATASETS.items()}
    existing = {dataset: [path for path in paths if path.is_file()] for dataset, paths in candidates.items()}
    return {dataset: paths[0] for dataset, paths in existing.items() if paths}


def scenario_folder() -> Path:
    """Return the folder of the paper's scenarios."""
    return examples_folder() / "paper"
