"""The command `paper`: parsing and printing only. Heavy imports wait inside."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar="LPPM_SIM_DATA",
    help="Folder of trace files, see docs/data.md; missing data sets are replaced by synthetic users.",
)
@click.option("--synthetic", is_flag=True, help="Use synthetic users even if data are available.")
@click.option("--quick", is_flag=True, help="One or two replications instead of 20 and 40: all panels in minutes.")
@click.option("-o", "--out", help="Folder  [default: in outputs/, named after the options]")
@click.option(
    "--log",
    type=click.Choice(["queries", "summary"]),
    default="queries",
    show_default=True,
    help="Record each query (0.3 GB in total) or only the means of each half.",
)
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes to share the work  [default: one per core]")
@click.option(
    "--dask", metavar="ADDRESS", help="Run on the Dask cluster at ADDRESS; `local` starts one with --workers."
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
    """Reproduce the paper's whole evaluation.

    Runs its ten studies (scenarios/paper), draws its 22 panels and tests its claims. Existing results are
    reused: the command resumes after an interruption, or after --quick in the same folder.
    """
    from sim.cli.output.paper import print_evaluation
    from sim.execution.pool import usable_cores
    from sim.execution.progress_bar import Bar
    from sim.paper.reproduce import Source, reproduce
    from sim.paper.studies import DATASETS, found_in
    from sim.paper.synthetic import write_traces

    if out is not None and "://" in out:
        raise click.UsageError(f"-o: found {out!r}, expected a folder of this machine")
    found = {} if synthetic else found_in(data)
    if data is not None and not synthetic and not found:
        names = ", ".join(name for names in DATASETS.values() for name in names)
        raise click.UsageError(f"{data} has none of {names}: see docs/data.md, or use --synthetic")
    chosen = f"paper{'-quick' if quick else ''}{'' if found else '-synthetic'}"
    folder = Path("outputs") / chosen if out is None else Path(out)
    sources = {}
    for name in DATASETS:
        if name in found:
            sources[name] = Source(found[name])
        else:
            click.echo(f"{name}: {_why(name, data, synthetic)}, so synthetic people stand in for it", err=True)
            sources[name] = Source(write_traces(name, folder / "synthetic"), is_synthetic=True)
    count = workers if workers is not None or dask is not None else usable_cores()
    print_evaluation(reproduce(folder, sources, progress_of=Bar, quick=quick, log=log, workers=count, dask=dask))


def _why(name: str, data: Path | None, synthetic: bool) -> str:
    from sim.paper.studies import DATASETS

    if synthetic:
        return "you asked for it"
    if data is None:
        return "no data folder was given (--data)"
    return f"{os.fspath(data)} has neither {' nor '.join(DATASETS[name])}"
