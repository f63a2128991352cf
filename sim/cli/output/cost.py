"""Output of `check`: the estimated cost of a scenario, and remarks."""

from __future__ import annotations

from collections.abc import Sequence

from sim.analysis import narrative as sentences
from sim.analysis.narrative import span
from sim.cli.output.terminal import data_size, duration, stdout
from sim.escaping import escape
from sim.execution.cost.estimate import Cost, installed_bytes
from sim.scenario.models import RepeatUntil, Scenario


def print_cost(scenario: Scenario, cost: Cost, *, workers: int = 1) -> None:
    """Print the size and estimated cost of a scenario."""
    console = stdout()
    least = cost.least or cost
    about = "about " if cost.approximate else ""
    log_size = span(least.log_bytes, cost.log_bytes, data_size)
    for name, *texts in (
        ("scenario", f"{scenario.name} is valid ({_digest(scenario)}seed {scenario.seed})"),
        *(("cells", text) for text in cost.locations),
        ("points", f"{cost.points} x {_replications(scenario)}"),
        *(
            ("exact", f"{name}: simulated once, because its expected metrics do not vary between replications")
            for name in cost.exact
        ),
        ("users", f"{cost.users:,}" if cost.users else "not counted"),
        (
            "queries",
            f"{about}{span(least.queries, cost.queries)}" if cost.queries else "not counted",
            f" in {span(least.simulations, cost.simulations)} simulations",
        ),
        (
            "event log",
            f"{about}{span(least.rows, cost.rows)} rows, about {log_size}" if cost.rows else "not counted",
        ),
        ("memory", f"about {data_size(cost.peak_bytes, digits=0)} per worker process"),
        *(("note", note) for note in cost.undivided),
        *(("note", note) for note in _more_than_installed(cost)),
        ("CPU time", _cpu_time(least, cost)),
        *(("duration", text) for text in _duration(least, cost, workers)),
        *(("search", text) for text in _search(cost)),
        *(("note", f"not measured: {part}") for part in cost.unmeasured),
        *([("note", "`--limit SECONDS` sets a longer time limit of the measurement")] if cost.timed_out else []),
        *(("note", note) for note in sentences.left_out(cost.readings)),
        *(("note", note) for note in sentences.hidden_channels(scenario)),
        *(("note", note) for note in sentences.memories(scenario, cost.secrets)),
    ):
        console.print(f"{name:>10}  {escape(''.join(texts))}", highlight=False)


def _digest(scenario: Scenario) -> str:
    """Return the digest of a run that reads no files; otherwise it depends on their content."""
    return "" if scenario.files() or scenario.own_components() else f"digest {scenario.digest[:8]}, "


def _replications(scenario: Scenario) -> str:
    replications = scenario.replications
    if not isinstance(replications, RepeatUntil):
        return f"{replications} replications"
    number = span(replications.at_least, replications.at_most)
    return f"{number} replications, until all metrics are within ± {replications.until_half_width_km:g} km"


def _more_than_installed(cost: Cost) -> list[str]:
    """Return a warning if a process needs more memory than the machine has, with advice that can help."""
    installed = installed_bytes()
    if installed is None or cost.peak_bytes <= installed:
        return []
    advice = "reduce users, queries or cells"
    if cost.least_bytes > installed:
        advice = "fewer users or queries do not help; reduce the number of cells or choose other mechanisms"
    return [f"this exceeds the memory of this machine ({data_size(installed)}): {advice}"]


def _cpu_time(least: Cost, cost: Cost) -> str:
    """Return the estimated CPU time of the run; a lower bound if a part was not measured."""
    if cost.seconds is None:
        return "not measured"
    bound = "at least" if cost.incomplete else "about"
    spent = span(least.seconds, cost.seconds, duration)
    return f"{bound} {spent} on one core, with start-up, tables and figures (measured on a few users)"


def _duration(least: Cost, cost: Cost, workers: int) -> list[str]:
    """Return the estimated wall-clock time with some workers, if it was measured."""
    if least.times is None or cost.times is None:
        return []
    bound = "at least" if cost.incomplete else "about"
    passed = span(least.times.wall_s(workers), cost.times.wall_s(workers), duration)
    each = "1 worker process on a free core" if workers == 1 else f"{workers} worker processes, each on a free core"
    return [f"{bound} {passed} with {each}"]


def _search(cost: Cost) -> list[str]:
    """Return the part of the CPU time that searches for realised budgets take, if there are any."""
    if cost.times is None or not cost.times.searches:
        return []
    count = cost.times.searches
    what = "1 search" if count == 1 else f"{count} searches"
    return [f"about {duration(cost.times.search_s)} of the CPU time: {what} for the strengths of realised budgets"]


def print_remarks(remarks: Sequence[str]) -> None:
    """Print remarks on a valid scenario, in the format of `print_cost`."""
    for remark in remarks:
        stdout().print(f"{'note':>10}  {escape(remark)}", highlight=False)


def print_not_loaded(scenario: Scenario, names: Sequence[str]) -> None:
    """Print that a scenario is valid except for its custom components, which were not imported."""
    print(f"{scenario.name} is valid as far as it can be checked without its custom code, which was not imported:")
    for name in names:
        print(f"  {name}  ({scenario.place.code.located(name)})")
    print("If you trust this code, use --allow-code to check it too and to estimate the cost.")
