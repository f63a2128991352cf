"""The command `plot`: all figures, or one figure as one file."""

from __future__ import annotations

from pathlib import Path

import pytest

import sim
from sim.plots import style
from sim.storage.load import load
from tests.support import SMALL, done, files, refused


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plot")
    (folder / "small.yaml").write_text(SMALL)
    return sim.run(load(folder / "small.yaml"), out=folder / "run", figures=False).path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(style, "settled", lambda figure: figure)
    monkeypatch.chdir(tmp_path)


def test_plot_draws_the_figures(a_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.plots.style.METADATA", {"svg": {"Date": None}})  # one format is sufficient
    names = ["figures/tradeoff.svg", "figures/over_time.svg"]
    assert [str(Path(line).relative_to(a_run)) for line in done("plot", a_run).splitlines()] == names
    assert sorted(f"figures/{name}" for name in files(a_run / "figures")) == sorted(names)
    assert done("summarize", a_run).endswith(f"event log, summary.csv, metrics.csv and figures are in {a_run}\n")


def test_figure_is_written_to_the_given_file(run: Path, tmp_path: Path) -> None:
    before = files(run)
    assert done("plot", run, "--figure", "tradeoff", "-o", "x.svg", "--width", "page") == "x.svg\n"
    assert b'width="515.52pt"' in (tmp_path / "x.svg").read_bytes()
    assert done("plot", run, "--figure", "tradeoff") == "run-tradeoff.pdf\n"
    assert sorted(files(tmp_path)) == ["run-tradeoff.pdf", "x.svg"]
    assert files(run) == before


def test_existing_file_is_replaced_only_with_overwrite(run: Path, tmp_path: Path) -> None:
    (tmp_path / "x.svg").write_text("mine")
    command = ("plot", run, "--figure", "over_time", "--lppm", "SP-Exp", "--attack", "markov", "-o", "x.svg")
    assert "x.svg exists" in refused(*command)
    assert (tmp_path / "x.svg").read_text() == "mine"
    done(*command, "--overwrite")
    assert b"<svg" in (tmp_path / "x.svg").read_bytes()


def test_axes_can_be_chosen(run: Path, tmp_path: Path) -> None:
    done("plot", run, "--figure", "tradeoff", "-o", "x.svg", "--xscale", "log", "--ylim", "0:1", "--font-size", "9")
    assert b"<svg" in (tmp_path / "x.svg").read_bytes()
    assert "[invalid-limits]" in refused("plot", run, "--figure", "tradeoff", "-o", "y.svg", "--xlim", "2:1")
    assert "--font-size: needs --figure" in refused("plot", run, "--font-size", "9")


def test_invalid_requests_are_rejected(run: Path, tmp_path: Path) -> None:
    assert "'tradeoff', 'over_time', 'efficiency'" in refused("plot", run, "--figure", "pie")
    assert ".pdf, .svg, .png, .eps [unsupported-format]" in refused("plot", run, "--figure", "map", "-o", "x.gif")
    assert "huge" in refused("plot", run, "--figure", "map", "--width", "huge")
    assert "shift" in refused("plot", run, "--figure", "adaptation")
    assert "'x'" in refused("plot", run, "--figure", "map", "--user", "x")
    message = refused("plot", run, "-o", "x.pdf", "--lppm", "SP-Exp", "--overwrite")
    assert "--out, --lppm, --overwrite: " in message
    assert "[missing-option]" in message
    assert "nowhere" in refused("plot", "nowhere", "--figure", "map")
    assert files(tmp_path) == {}
