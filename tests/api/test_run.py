"""Runs from Python: progress, interruption, results in notebooks."""

from __future__ import annotations

import os
import signal
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

import sim
from sim.api.progress import NotebookBar
from tests.support import HOSTILE, raises_code

SCENARIO = sim.make_scenario(
    name="small",
    world={"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5, "height_km": 4}},
    users={"count": 6, "queries": 12, "mobility": {"kind": "favourites", "places": 4}},
    training={"others": {"kind": "others", "count": 8, "queries": 30}},
    lppms=["SP-Exp", "PEB-Exp"],
    attacks=["sporadic", "markov"],
    sweep={"lppms.*.design.epsilon_per_km": [0.5, 2.0]},
    replications=2,
)
QUERIES = 6 * 12 * 2 * 2 * 2


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> sim.Result:
    return sim.run(SCENARIO, out=tmp_path_factory.mktemp("api") / "run", figures=False)


def test_run_without_a_terminal_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sim.run(SCENARIO, out=tmp_path / "run", figures=False)
    assert capsys.readouterr() == ("", "")


def test_callback_counts_to_the_total(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    sim.run(SCENARIO, out=tmp_path / "run", figures=False, progress=lambda done, total: calls.append((done, total)))
    assert calls[0] == (0, QUERIES)
    assert calls[-1] == (QUERIES, QUERIES)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_progress_object_and_forced_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Count:
        chunks = 0

        def start(self, queries: int, *, chunks: int, skipped: int) -> None:
            assert (queries > 0) == (chunks > 0)

        def advance(self, queries: int) -> None: ...

        def end_chunk(self) -> None:
            self.chunks += 1

    count = Count()
    sim.run(SCENARIO, out=tmp_path / "run", figures=False, progress=count, chunk_queries=1)
    assert count.chunks == 4
    sim.run(SCENARIO, out=tmp_path / "run", figures=False, progress=True)
    assert "small: 4 parts" in capsys.readouterr().err


@pytest.mark.usefixtures("interruptible")
def test_interrupted_run_resumes(tmp_path: Path, result: sim.Result) -> None:
    def interrupt(done: int, total: int) -> None:
        if done > total / 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(sim.Interrupted):
        sim.run(SCENARIO, out=tmp_path / "run", figures=False, progress=interrupt, chunk_queries=1)
    totals: list[int] = []
    resumed = sim.run(
        SCENARIO,
        out=tmp_path / "run",
        figures=False,
        progress=lambda _done, total: totals.append(total),
        chunk_queries=1,
    )
    assert 0 < totals[0] < QUERIES
    keys = ["point", "lppm", "attack", "replication", "user", "index"]
    first, second = (each.events().sort_values(keys).reset_index(drop=True) for each in (result, resumed))
    assert first.drop(columns="event").equals(second.drop(columns="event"))


class Kernel:
    """Stands for IPython in a Jupyter kernel."""

    def __init__(self) -> None:
        self.kernel = object()
        self.shown: list[str] = []

    def display(self, shown: Any, *, display_id: bool) -> Kernel:
        assert display_id
        self.update(shown)
        return self

    def update(self, shown: Any) -> None:
        assert repr(shown)
        self.shown.append(shown._repr_html_())


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: kernel  # type: ignore[attr-defined]
    display.display = kernel.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return kernel


def test_notebook_shows_one_bar_and_one_line(tmp_path: Path, kernel: Kernel) -> None:
    sim.run(SCENARIO, out=tmp_path / "run", figures=False)
    assert kernel.shown[0].startswith("<div><label><progress")
    assert f"{QUERIES}/{QUERIES} queries" in kernel.shown[-1]
    assert "<progress" not in kernel.shown[-1]
    kernel.shown.clear()
    sim.run(SCENARIO, out=tmp_path / "run", figures=False)
    assert "earlier run" in kernel.shown[-1]
    kernel.shown.clear()
    sim.run(SCENARIO, out=tmp_path / "other", figures=False, progress=False)
    assert not kernel.shown


def test_notebook_bar_states_an_interruption_and_escapes_names(kernel: Kernel) -> None:
    def interrupted() -> None:
        with NotebookBar(HOSTILE[0]) as bar:
            bar.start(10, chunks=1, skipped=0)
            bar.advance(5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "5/10 queries" in kernel.shown[-1]
    assert "interrupted" in kernel.shown[-1]
    assert "<script" not in kernel.shown[-1]


def test_result_is_that_of_the_analysis(result: sim.Result) -> None:
    assert sim.Result.open(result.path).summary().equals(result.summary())
    assert isinstance(sim.Result.open(result.path), sim.Result)
    assert isinstance(result.frozen(), sim.Result)
    assert "'small'" in repr(result)
    assert "2 LPPMs" in repr(result)


@pytest.mark.parametrize("kind", ["tradeoff", "over_time", "efficiency", "users", "profiles", "map"])
def test_figures(result: sim.Result, kind: Any) -> None:
    figure = result.figure(kind, width="column")
    assert isinstance(figure, Figure)
    assert figure.get_size_inches()[0] == pytest.approx(3.5, abs=0.5)


def test_unknown_figure_is_refused(result: sim.Result) -> None:
    with pytest.raises(sim.UserError, match="tradeof"):
        result.figure("tradeof")  # type: ignore[arg-type]


def test_html_has_the_table_and_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = sim.run(SCENARIO, out=tmp_path / "<i>run", figures=False)
    page = result._repr_html_()
    assert page.count('<table class="dataframe"') == 1
    assert "±" in page
    assert "<i>run" not in page
    assert "result.report()" in page
    path = Path(result.report())
    assert path.name == "report.html"
    written = path.stat().st_mtime_ns
    assert result.report() == str(path)
    assert path.stat().st_mtime_ns == written
    result.report(rewrite=True)
    assert path.stat().st_mtime_ns > written
    assert 'href="file://' in result._repr_html_()
    monkeypatch.chdir(tmp_path)
    assert 'href="%3Ci%3Erun/report.html"' in result._repr_html_()
    assert "<script" not in result._repr_html_()


def test_compare_writes_one_page(result: sim.Result, tmp_path: Path) -> None:
    page = sim.compare([result, sim.Result.open(result.path)], tmp_path / "both.html")
    assert page.read_text().startswith("<!")
    with raises_code(sim.InputError, "file-exists"):
        sim.compare([result, result], page)
    with raises_code(sim.InputError, "too-few-runs"):
        sim.compare([result], page)
