"""The command `paper`: parsing and printing only. Heavy modules are imported inside the function."""

from __future__ import annotations

import os
from pathlib import Path

import click

from sim.cli.options import WORKERS, worker_count
from sim.errors import InputError


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar="LPPM_SIM_DATA",
    help="Folder of trace files; missing data sets are replaced by synthetic populations.",
)
@click.option("--synthetic", is_flag=True, help="Use synthetic populations even if data are available.")
@click.option("--quick", is_flag=True, help="Run 1 or 2 replications instead of 20 or 40: takes minutes.")
@click.option("-o", "--out", metavar="DIR", help="Output folder.  [default: outputs/paper..., by options]")
@click.option(
    "--log",
    type=click.Choice(["queries", "summary"]),
    default="queries",
    show_default=True,
    help="Log every query (0.3 GB in total), or only the means of each half of a trace.",
)
@click.option("--workers", type=WORKERS, help="Number of worker processes.  [default: one per core]")
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Run on the Dask cluster at ADDRESS; `local` starts one on this machine with --workers processes.",
)
def paper(
    data: Path | None,
    synthetic: bool,
    quick: bool,
    out: str | None,
    log: str,
    workers: int | None,
    dask: str | None,
) -> None:
    """Reproduce the evaluation of the paper.

    Runs the ten studies of Oya, Troncoso and Pérez-González (EuroS&P 2019), draws the 22 panels and tests the claims.
    Existing results are reused: an interrupted run is resumed, and a full run extends a --quick run in the same folder.
    """
    from sim.cli.output.paper import print_evaluation
    from sim.execution.progress_bar import Bar
    from sim.paper.reproduce import Source, reproduce
    from sim.paper.studies import DATASETS, found_in
    from sim.paper.synthetic import write_traces

    if out is not None and "://" in out:
        raise InputError(f"-o must be a local folder, found {out!r}", code="not-a-local-file")
    files = {} if synthetic else found_in(data)
    if data is not None and not synthetic and not files:
        names = ", ".join(name for names in DATASETS.values() for name in names)
        raise InputError(
            f"{data} has none of {names}: import a data set with `lppm-sim data import`, or use --synthetic",
            code="file-not-found",
        )
    default_name = f"paper{'-quick' if quick else ''}{'' if files else '-synthetic'}"
    folder = Path("outputs") / default_name if out is None else Path(out)
    sources = {}
    for name in DATASETS:
        if name in files:
            sources[name] = Source(files[name])
        else:
            click.echo(f"{name}: using a synthetic population, because {_reason(name, data, synthetic)}", err=True)
            sources[name] = Source(write_traces(name, folder / "synthetic"), is_synthetic=True)
    count = worker_count(workers, dask)
    print_evaluation(reproduce(folder, sources, progress_of=Bar, quick=quick, log=log, workers=count, dask=dask))


def _reason(name: str, data: Path | None, synthetic: bool) -> str:
    from sim.paper.studies import DATASETS

    if synthetic:
        return "--synthetic is set"
    if data is None:
        return "--data is not set"
    return f"{os.fspath(data)} has neither {' nor '.join(DATASETS[name])}"
