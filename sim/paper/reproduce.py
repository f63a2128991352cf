"""The command `lppm-sim paper`: run the studies, draw the panels, test the claims."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from sim.analysis.windows import read_halves
from sim.execution.run import open_pool, run
from sim.paper.claims.page import markdown
from sim.paper.claims.statements import findings
from sim.paper.claims.verdicts import Finding
from sim.paper.panels import PANELS, draw, draw_all, series_of, table
from sim.paper.studies import STUDIES, Study
from sim.plots import pictures
from sim.simulation.progress import Progress
from sim.storage.atomic import atomic_file

SYNTHETIC = "synthetic population of the simulator, not the paper's data"


@dataclass(frozen=True, slots=True)
class Source:
    """Source of the traces of a data set."""

    file: Path
    is_synthetic: bool = False


@dataclass(slots=True)
class Evaluation:
    """Results of the reproduction, and their folder."""

    folder: Path
    findings: list[Finding]
    queries: int
    """Number of queries in all runs."""
    simulated: int = 0
    """Number of queries simulated by this call; earlier calls simulated the others."""
    seconds: float = 0.0
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)


ProgressOf = Callable[[str], AbstractContextManager[Progress]]


class _Counting:
    """Progress callback that counts the simulated queries and forwards all calls."""

    def __init__(self, progress: Progress, evaluation: Evaluation) -> None:
        self._progress, self._evaluation = progress, evaluation

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        """Forward the call."""
        self._progress.start(queries, chunks=chunks, skipped=skipped)

    def advance(self, queries: int) -> None:
        """Count the queries and forward the call."""
        self._evaluation.simulated += queries
        self._progress.advance(queries)

    def end_chunk(self) -> None:
        """Forward the call."""
        self._progress.end_chunk()


def reproduce(
    folder: Path,
    sources: Mapping[str, Source],
    *,
    progress_of: ProgressOf,
    quick: bool = False,
    log: str = "queries",
    workers: int | None = None,
    dask: str | None = None,
) -> Evaluation:
    """Run or resume the ten studies, then write panels and claims to the folder.

    `sources` has a trace file for each data set; `progress_of` returns the progress callback of a study, given its
    label.
    """
    start = time.monotonic()
    evaluation = Evaluation(folder, [], queries=0)
    users: dict[Study, pd.DataFrame] = {}
    with closing(open_pool(workers, dask)) as pool:
        for number, study in enumerate(STUDIES, start=1):
            source = sources[study.dataset]
            scenario = study.scenario(source.file, quick=quick, log=log)
            name = study.name + ("-synthetic" if source.is_synthetic else "")
            with progress_of(f"{number}/{len(STUDIES)} {study.name}") as progress:
                counting = _Counting(progress, evaluation)
                result = run(scenario, out=folder / "runs" / name, progress=counting, figures=False, pool=pool)
            halves = read_halves(result.run)
            users[study] = series_of(halves)
            evaluation.queries += int(halves["queries"].sum())
    synthetic = {name for name, source in sources.items() if source.is_synthetic}
    _write_panels(evaluation, users, synthetic)
    evaluation.findings = findings(users)
    evaluation.seconds = time.monotonic() - start
    _write(folder / "claims.md", markdown(evaluation.findings, synthetic=synthetic, quick=quick).encode())
    return evaluation


def _write_panels(evaluation: Evaluation, users: Mapping[Study, pd.DataFrame], synthetic: set[str]) -> None:
    for panel in PANELS:
        curves = table(panel, users[panel.study])
        evaluation.tables[panel.name] = curves
        note = SYNTHETIC if panel.study.dataset in synthetic else ""
        stem = evaluation.folder / "panels" / panel.name
        _write(stem.with_suffix(".csv"), curves.to_csv(None, index=False, lineterminator="\n").encode())
        for suffix, content in pictures(draw(panel, curves, note=note), ("pdf", "png")).items():
            _write(stem.with_suffix(f".{suffix}"), content)
    note = f"{_listed(synthetic)}: {SYNTHETIC}" if synthetic else ""
    for suffix, content in pictures(draw_all(evaluation.tables, note=note), ("pdf", "png")).items():
        _write(evaluation.folder / f"all-panels.{suffix}", content)


def _listed(names: Sequence[str] | set[str]) -> str:
    return ", ".join(sorted(names))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        file.write(content)
