"""Surveys of trace files for `check` and `data describe`; heavy modules are imported inside the functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.mobility.recorded.replay import ReplayParameters
    from sim.scenario.models import Scenario
    from sim.world.locations import Locations

_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".gpx", ".geojson")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")

MANY_ROWS = 3_000_000
"""Number of rows above which a file is described without a figure, in constant memory."""
_BYTES_PER_ROW = 40


def is_trace_file(path: Path) -> bool:
    """Return whether a path names a trace file instead of a scenario, by its suffix."""
    name = path.name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return name.endswith(_SUFFIXES)


def survey_traces(path: Path, columns: Mapping[str, str] | None = None) -> None:
    """Print a survey of a trace file, with a suggested region and grid."""
    from sim.cli.output.survey import print_next_step, print_survey
    from sim.datasets.survey.survey import survey

    print_survey(survey(path, columns=columns), path, columns=columns, region=True)
    print_next_step(path, columns, large=is_large(path))


def survey_rest(path: Path, locations: Locations) -> None:
    """Print what the description of a small file lacks; rows are counted in the cells of a grid."""
    from sim.cli.output.survey import print_rest
    from sim.datasets.survey.survey import survey

    print_rest(survey(path, locations=locations), path, locations)


def is_large(path: Path) -> bool:
    """Return whether a file has too many rows to be read into memory, estimated from its size."""
    import pyarrow.parquet as pq

    from sim.mobility.recorded.tables import UNREADABLE, is_parquet

    try:
        if is_parquet(path):
            return pq.read_metadata(path).num_rows > MANY_ROWS
        compressed = path.name.lower().endswith(_COMPRESSED)
        return path.stat().st_size > MANY_ROWS * (_BYTES_PER_ROW // 4 if compressed else _BYTES_PER_ROW)
    except UNREADABLE:
        return False  # reading the file names the fault


def survey_scenario(scenario: Scenario) -> None:
    """Print a survey of each trace file that a scenario replays, with a region if many rows are outside its own."""
    from sim.cli.output.survey import print_suggestion, print_survey, suggests_another_region
    from sim.datasets.survey.survey import survey
    from sim.errors import UserError

    surveyed = set()
    for replay in _replays(scenario):
        columns = replay.columns.names()
        key = (replay.file, replay.columns.model_dump_json(), replay.max_gap_s)
        if key in surveyed:
            continue
        surveyed.add(key)
        try:
            path, locations = scenario.place.locate(replay.file), scenario.build_locations()
            on_earth = None if locations.bounds is None else locations
            content = survey(path, columns=columns, locations=on_earth, max_gap_s=replay.max_gap_s)
        except (UserError, OSError):
            continue  # reading the file for the simulation names the fault together with its place in the scenario
        print_survey(content, path, locations=on_earth, columns=columns, region=False)
        if suggests_another_region(content):
            print_suggestion(content, path, columns)


def _replays(scenario: Scenario) -> Iterator[ReplayParameters]:
    """Yield the replays of a scenario: of its users and of its training sets."""
    from sim.mobility.recorded.replay import ReplayParameters

    others = (getattr(spec, "mobility", None) for spec in scenario.training.values())
    for mobility in (scenario.users.mobility, *others):
        if isinstance(mobility, ReplayParameters):
            yield mobility
