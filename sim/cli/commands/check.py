"""The command `check`: validate a scenario and estimate its cost."""

from __future__ import annotations

import time

import click

from sim.cli.options import WORKERS, ScenarioCommand, ScenarioOptions, scenario_options, worker_count

_TOTAL_S, _LEAST_S = 4.5, 0.5
"""Time in s from which the start, imports, kernels and the scenario are subtracted to get the default limit, and its
minimum."""
_COMPILED_S = 10.0
"""Default limit in s after compiling the kernels: the command takes long anyway, and nothing is loaded yet."""


@click.command(cls=ScenarioCommand)
@scenario_options
@click.option("--time/--no-time", "measure", default=True, help="Estimate the run time by simulating a few users.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(0.1, 86_400),
    default=None,
    show_default="0.5 to 2.5, so that the command takes less than 5; 10 after compiling",
    help="Time limit of the measurement in seconds; parts that take longer are not measured.",
)
@click.option(
    "--workers",
    type=WORKERS,
    help="Number of worker processes of the run, for the estimated duration.  [default: one per core]",
)
def check(scenario: ScenarioOptions, *, measure: bool, limit_s: float | None, workers: int | None) -> None:
    """Validate SCENARIO and estimate its cost.

    Describes the trace files that it replays: time span, sampling, gaps, rows outside the region and irregular rows.
    SCENARIO may also be a trace file, which is described with a suggested region and grid; `lppm-sim data describe`
    adds a figure.
    Estimates CPU time and duration of the run, memory and disk space by simulating a few users for at most --limit
    seconds. Writes no files.
    Without --allow-code, custom components are not imported and nothing is estimated.
    """
    began_s = time.monotonic()
    from sim.cli.surveying import is_trace_file, survey_scenario, survey_traces

    if is_trace_file(scenario.path):
        survey_traces(scenario.path)
        return
    from sim.cli.kernels import load_kernels
    from sim.cli.output.cost import print_cost, print_not_loaded, print_remarks
    from sim.execution.cost.estimate import LIMIT_S
    from sim.execution.cost.search import estimate_with_search
    from sim.execution.inputs import custom_components
    from sim.scenario.plausibility import remarks
    from sim.scenario.sweep import points

    study = scenario.load()
    if not study.place.code.allowed and (names := custom_components(study)):
        print_not_loaded(study, names)
        return
    loading_cpu_s, compiling_cpu_s = time.process_time(), 0.0
    if measure and load_kernels():  # compiling happens once: it neither shortens the measurement nor counts for the run
        limit_s = limit_s or _COMPILED_S
        compiling_cpu_s = time.process_time() - loading_cpu_s
    swept = points(study)
    if limit_s is None:
        taken_s = max(time.monotonic() - began_s, time.process_time())  # the latter includes the start of Python
        limit_s = min(max(_TOTAL_S - taken_s, _LEAST_S), LIMIT_S)
    cost = estimate_with_search(
        study, swept, measure=measure, limit_s=limit_s, started_s=time.process_time() - compiling_cpu_s
    )
    survey_scenario(study)
    print_cost(study, cost, workers=worker_count(workers, None) or 1)
    print_remarks(remarks(point.scenario for point in swept))
