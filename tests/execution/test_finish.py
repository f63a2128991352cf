"""End of a run: errors if chunks fail, results do not apply or parts are damaged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import sim
from sim.analysis.result import Result
from sim.execution import finish
from sim.execution.failures import FailedChunks
from sim.execution.plan import Chunk
from sim.execution.pool import Done, Failure, InProcess
from sim.execution.population_cache import PopulationCache
from sim.simulation.progress import Tick
from sim.storage.errors import DamagedRun, NotApplicable
from sim.storage.run_directory import RunDirectory
from tests.support import MakeScenario


class FirstFails:
    """Pool whose first chunk fails."""

    def __init__(self) -> None:
        self._pool = InProcess(PopulationCache())

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        first, *others = chunks
        yield Failure(first, "not simulated")
        yield from self._pool.run(others, directory, tick)

    def close(self) -> None: ...


def test_damage_is_reported_together_with_failed_chunks(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise DamagedRun("p.parquet cannot be read: truncated file.")

    monkeypatch.setattr(finish, "write_results", damaged)
    scenario = make_scenario(replications=2)
    with pytest.raises(FailedChunks) as raised:
        sim.run(scenario, out=tmp_path, pool=FirstFails(), chunk_queries=1)
    lines = str(raised.value).splitlines()
    assert "not simulated" in lines[1]
    assert lines[-2].endswith("p.parquet cannot be read: truncated file.")


@pytest.mark.parametrize("error", [DamagedRun("p.parquet cannot be read."), NotApplicable("a window cuts the shift.")])
def test_a_result_that_does_not_apply_is_omitted_and_damage_is_raised(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def adaptation(_: Result) -> None:
        raise error

    monkeypatch.setattr(Result, "adaptation", adaptation)
    scenario = make_scenario(shifts=[{"kind": "new_places", "at_query": 5}])
    if isinstance(error, NotApplicable):
        result = sim.run(scenario, out=tmp_path, figures=False)
        assert result.run.has("summary.csv")
        assert not result.run.has("adaptation.csv")
    else:
        with pytest.raises(DamagedRun):
            sim.run(scenario, out=tmp_path, figures=False)
