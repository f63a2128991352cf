"""The command `watch`: run a scenario and serve its report meanwhile."""

from __future__ import annotations

import click

from sim.cli.options import RunOptions, ScenarioCommand, ScenarioOptions, run_options, scenario_options


@click.command(cls=ScenarioCommand)
@scenario_options
@run_options
@click.option("--chunk-queries", type=click.IntRange(1), help="As for `run`; smaller chunks appear sooner.")
@click.option("--port", type=click.IntRange(1024, 65535), help="Port of the page  [default: any free port]")
@click.option("--open", "in_browser", is_flag=True, help="Open the page in a browser.")
@click.option("--once", is_flag=True, help="Exit when the run ends instead of serving the page until Ctrl-C.")
def watch(
    scenario: ScenarioOptions,
    options: RunOptions,
    *,
    chunk_queries: int | None,
    port: int | None,
    in_browser: bool,
    once: bool,
) -> None:
    """Run SCENARIO and serve its report meanwhile.

    Like `run`, with a page that shows the results so far. The page is available on this machine only, at an address
    with a secret token, which is printed first.
    """
    import webbrowser

    from sim.cli.kernels import load_kernels
    from sim.cli.output.result import print_result
    from sim.cli.progress import Bar
    from sim.execution.inputs import default_directory
    from sim.execution.run import run as run_scenario
    from sim.report.live.server import served
    from sim.simulation.interrupts import explained

    options.require_lasting_directory()
    study = scenario.load_with_consent()
    load_kernels()
    place, bar = options.out or default_directory(study), Bar(study.name)
    with served(study.name, place, bar, port=port or 0) as server:
        click.echo(f"watch it at {server.address}", err=True)
        if in_browser and not webbrowser.open(server.ticket()):
            click.echo("no browser could be opened: open this address yourself", err=True)
        with bar:
            result = run_scenario(
                study,
                out=place,
                progress=server.progress,
                figures=options.figures,
                workers=options.processes(),
                dask=options.dask,
                dask_timeout=options.dask_timeout,
                chunk_queries=chunk_queries,
            )
        server.progress.end()
        with explained(f"interrupted; the simulation is complete and kept in {result.run}"):
            print_result(result, redrawn=options.figures)
        if once:
            server.wait_for_final_view()
        else:
            _serve_until_interrupt(server.address)


def _serve_until_interrupt(address: str) -> None:
    import time
    from contextlib import suppress

    with suppress(KeyboardInterrupt):
        click.echo(f"the page stays at {address} until Ctrl-C", err=True)
        while True:
            time.sleep(3600)
