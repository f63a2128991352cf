"""The command `choose`."""

from __future__ import annotations

from pathlib import Path

import click

from sim.cli.options import WORKERS, worker_count
from sim.cli.quantity import DAYS, KM, SHARE


@click.command()
@click.option("--max-loss", type=KM, metavar="KM", help="Protect most with at most this loss, such as 0.3km.")
@click.option("--at", type=SHARE, metavar="SHARE", help="The loss holds for this share of users; default: on average.")
@click.option("--min-error", type=KM, metavar="KM", help="Lose least with this error of the strongest attack, as 1km.")
@click.option("--hide-home-for", type=DAYS, metavar="DAYS", help="Lose least and hide homes this long, such as 30d.")
@click.option(
    "--within", type=KM, metavar="KM", default="500m", show_default=True, help="A home is known this closely."
)
@click.option("--for-users", type=SHARE, metavar="SHARE", default="50%", show_default=True, help="Homes to be hidden.")
@click.option("--lppm", "lppms", multiple=True, metavar="NAME", help="Candidate, or `all`; may be repeated.")
@click.option("--data", type=click.Path(path_type=Path), metavar="FILE", help="Trace file to replay (CSV, Parquet).")
@click.option("--scenario", type=click.Path(path_type=Path), metavar="FILE", help="Scenario with users and attacks.")
@click.option("--users", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Number of users.")
@click.option("--cell", type=KM, metavar="KM", help="Size of the cells.  [default: from the goal and the region]")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of all random numbers.")
@click.option("--workers", type=WORKERS, help="Number of worker processes.  [default: one per core]")
@click.option("--figures/--no-figures", default=True, help="Draw the figures and write the report of the run.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder.  [default: outputs/choice-<digest>]")
def choose(
    *,
    max_loss: float | None,
    at: float | None,
    min_error: float | None,
    hide_home_for: float | None,
    within: float,
    for_users: float,
    lppms: tuple[str, ...],
    data: Path | None,
    scenario: Path | None,
    users: int,
    cell: float | None,
    seed: int,
    workers: int | None,
    figures: bool,
    out: Path | None,
) -> None:
    """Choose a mechanism and its strength for a goal.

    Give one goal: --max-loss, --min-error or --hide-home-for. Each candidate is calibrated to it by simulations of the
    users of --data, --scenario or a synthetic population; then all are attacked and ranked by the strongest attack.
    An interrupted choice is resumed by the same command.
    """
    from sim.choice.choose import choose as choose_mechanism
    from sim.choice.prepare import prepared, request_of
    from sim.choice.write import write_choice
    from sim.cli.kernels import load_kernels
    from sim.cli.output.choice import print_choice
    from sim.execution.progress_bar import Bar
    from sim.simulation import interrupts

    request = request_of(
        max_loss_km=max_loss,
        at=at,
        min_error_km=min_error,
        hide_home_days=hide_home_for,
        within_km=within,
        for_users=for_users,
    )
    compared = prepared(request, lppms, data=data, scenario=scenario, users=users, cell_km=cell, seed=seed)
    folder = out or compared.default_folder(request)
    load_kernels()
    with (
        interrupts.recorded(),
        interrupts.explained(f"interrupted; finished simulations are kept in {folder}: the same command continues"),
        Bar("choose") as bar,
    ):
        choice = choose_mechanism(
            compared.scenario,
            request,
            folder,
            all_of_them=compared.all_of_them,
            remarks=compared.remarks,
            workers=worker_count(workers, None),
            progress=bar,
            figures=figures,
        )
        write_choice(choice)
    print_choice(choice)
