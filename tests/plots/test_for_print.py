"""Figures for print: requested width, legible texts, embedded fonts, and the requested selection."""

from __future__ import annotations

import itertools
import logging
import re
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

import sim
from sim import plots
from sim.analysis import beliefs, time_series, trajectories
from sim.analysis.result import Result
from sim.analysis.summary import summarize
from sim.events import Shift
from sim.plots import style
from sim.plots.base_map import BaseMap
from sim.plots.for_print import KINDS, draw, width_in, write_figure
from sim.plots.map import Guesses, map_figure
from sim.plots.profiles import profiles_figure
from sim.storage.errors import RequestError, RunError
from sim.storage.load import load
from sim.storage.manifest import RecordedWorld
from sim.storage.run_directory import RunDirectory
from sim.world import Grid
from tests.support import SMALL, assert_apart, raises_code, recorded_shifts

LONG = SMALL.replace("queries: 12", "queries: 130").replace("attacks: [sporadic, markov]", "attacks: [{attacks}]")
ATTACKS = "sporadic, markov, {kind: markov, name: markov-with-a-name}"
ROADS = """
name: roads
world:
  grid: {kind: rectangle, rows: 4, cols: 5, width_km: 5, height_km: 4}
  roads: lattice
users: {count: 2, queries: 6, mobility: favourites}
training: {others: {kind: others, count: 3, queries: 8}}
lppms: [SP-Exp, PEB-Exp]
attacks: []
"""


def moved(user: str, replication: int) -> tuple[Shift, ...]:
    return (Shift(user, "moves house", 60),)


def run_of(folder: Path, text: str) -> RunDirectory:
    (folder / "scenario.yaml").write_text(text)
    return sim.run(load(folder / "scenario.yaml"), out=folder / "run", figures=False).run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    with recorded_shifts(moved):
        return run_of(tmp_path_factory.mktemp("figures"), LONG.replace("{attacks}", ATTACKS))


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the layout, which takes most of the time."""
    monkeypatch.setattr(style, "settled", lambda figure, **_: figure)


def visible(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible()]


def legend_names(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


WIDTHS = {
    "tradeoff": [2.5, 7.16],
    "over_time": [2.5, 7.16],
    "adaptation": [2.5],
    "home_exposure": [2.5, 7.16],
    "located": [2.5, 7.16],
    "users": [2.5],
    "profiles": [3.5],
    "map": [2.5, 7.16],
}
"""Kinds with different layouts; efficiency has the layout of over_time, and the tournament has its own tests."""


def test_every_kind_is_tested() -> None:
    assert set(KINDS) == {*WIDTHS, "efficiency", "tournament"}


@pytest.mark.parametrize(("kind", "width"), [(kind, width) for kind, own in WIDTHS.items() for width in own])
def test_texts_are_legible_at_the_requested_width(run: RunDirectory, kind: str, width: float) -> None:
    figure = draw(run, kind, width=width)
    assert figure.get_figwidth() == width
    assert_axes_say_what_they_are(figure)
    with rc_context(plots.STYLE):
        texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
        assert min(float(text.get_fontsize()) for text in texts) >= 6.5
        boxes = [box for axes in visible(figure) if (box := axes.get_tightbbox()) is not None]
        boxes += [legend.get_window_extent() for legend in figure.legends]
        boxes += [text.get_window_extent() for text in figure.texts if text.get_text()]
    assert_apart(figure.bbox, boxes, touch=1.5)
    for axes in visible(figure):
        for axis in (axes.xaxis, axes.yaxis):
            shown = [tick.label1 for tick in axis.get_major_ticks() if tick.label1.get_visible()]
            numbers = [label.get_window_extent() for label in shown if label.get_text()]
            for one, other in itertools.pairwise(numbers):
                assert not one.overlaps(other)


def assert_axes_say_what_they_are(figure: Figure) -> None:
    panels = visible(figure)
    assert any(axes.get_xlabel() for axes in panels)
    assert any(axes.get_ylabel() for axes in panels) or figure.get_supylabel()
    bottom = [axes for axes in panels if axes.xaxis.get_tick_params()["labelbottom"]]
    assert bottom
    assert all(axes.get_xlabel() for axes in bottom)


@pytest.mark.parametrize(("width", "points"), [(3.5, "252"), (7.16, "515.52")])
@pytest.mark.usefixtures("unsettled")
def test_page_has_the_requested_width_and_embedded_fonts(
    run: RunDirectory, width: float, points: str, tmp_path: Path
) -> None:
    path = write_figure(run, "map", tmp_path / "x.pdf", width=width, lppms=["SP-Exp"])
    content = path.read_bytes()
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL):
        content += _inflated(stream)
    (box,) = re.findall(rb"/MediaBox \[ ?([^\]]*?) ?\]", content)
    assert box.decode().split()[:3] == ["0", "0", points]
    assert b"/FontFile2" in content
    assert b"/Type3" not in content


def _inflated(stream: bytes) -> bytes:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png", "eps"])
@pytest.mark.usefixtures("unsettled")
def test_suffix_determines_the_format_and_output_is_reproducible(
    run: RunDirectory, suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    starts = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG", "eps": b"%!PS-Adobe-3.0 EPSF"}
    one = write_figure(run, "profiles", tmp_path / f"a.{suffix}")
    assert one.read_bytes().startswith(starts[suffix])
    assert b"Date" not in one.read_bytes()
    # PostScript takes seconds for its fonts; for the others one will do.
    if suffix == "pdf":
        assert one.read_bytes() == write_figure(run, "profiles", tmp_path / f"b.{suffix}").read_bytes()
    # Transparency would be lost with a warning.
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    if suffix == "svg":
        root = ElementTree.parse(one).getroot()
        assert root.attrib["width"] == "252pt"


@pytest.mark.usefixtures("unsettled")
def test_selection_is_drawn_in_the_same_style(run: RunDirectory) -> None:
    assert legend_names(draw(run, "over_time")) == ["SP-Exp", "PEB-Exp", "identity"]
    some = {kind: draw(run, kind, lppms=["PEB-Exp"], attacks=["markov"]) for kind in ("tradeoff", "over_time", "users")}
    assert legend_names(some["over_time"]) == ["PEB-Exp"]
    assert [axes.get_title() for axes in visible(some["over_time"]) if axes.get_title()] == ["against markov"]
    for figure in some.values():
        lines = [line for line in visible(figure)[0].get_lines() if line.get_label() == "PEB-Exp"]
        assert {(line.get_color(), line.get_marker()) for line in lines} == {(plots.COLOURS[1], "s")}
    assert legend_names(draw(run, "profiles", lppms=["PEB-Exp"])) == ["PEB-Exp"]
    assert visible(draw(run, "map", lppms=["PEB-Exp"]))[0].get_title() == "PEB-Exp"


@pytest.mark.usefixtures("unsettled")
def test_efficiency_equals_the_time_series(run: RunDirectory) -> None:
    figure = draw(run, "efficiency", attacks=["markov"])
    (panel,) = visible(figure)
    (line,) = [line for line in panel.get_lines() if line.get_label() == "SP-Exp"]
    table = time_series.efficiency_time_series(time_series.user_time_series(run))
    own = table[(table["lppm"] == "SP-Exp") & (table["attack"] == "markov")]
    assert list(line.get_ydata()) == pytest.approx(own["efficiency"].tolist())  # type: ignore[arg-type]
    assert "identity" not in legend_names(figure)
    assert [text.get_text() for text in panel.texts] == ["moves house"]


@pytest.mark.usefixtures("unsettled")
def test_each_user_has_a_panel(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    users = list(dict.fromkeys(Result(run).totals().users["user"]))
    assert [axes.get_title() for axes in visible(draw(run, "users"))] == users
    assert [axes.get_title() for axes in visible(draw(run, "users", users=users[1:2]))] == users[1:2]
    monkeypatch.setattr("sim.plots.users.MOST_PANELS", 2)
    figure = draw(run, "users")
    assert [axes.get_title() for axes in visible(figure)] == users[:2]
    assert figure.legends[0].get_title().get_text() == "against sporadic; 2 of 3 users"


@pytest.mark.usefixtures("unsettled")
def test_profiles_equal_the_belief_distances(run: RunDirectory) -> None:
    table = beliefs.belief_distance(run)
    (panel,) = visible(draw(run, "profiles"))
    lines = {str(line.get_label()): line for line in panel.get_lines() if str(line.get_label()) in set(table["lppm"])}
    assert list(lines) == ["SP-Exp", "PEB-Exp"]
    for name, line in lines.items():
        own = table[table["lppm"] == name]
        assert list(line.get_ydata()) == pytest.approx(own["distance"].tolist())  # type: ignore[arg-type]
        assert list(line.get_xdata()) == [1, 10, 30, 100]  # type: ignore[arg-type]
    assert panel.get_xscale() == "linear"
    with raises_code(RequestError, "no-belief"):
        draw(run, "profiles", lppms=["identity"])


def distances(low: float, high: float) -> pd.DataFrame:
    """Return a table in which two of three mechanisms are at the same distance."""
    rows = [
        {"point": 0, "lppm": lppm, "index": index, "users": 5, "distance": distance}
        | {"distance_low": distance - 0.02, "distance_high": distance + 0.02}
        for lppm, distance in (("a", low), ("b", low), ("c", high))
        for index in (1, 200, 600)
    ]
    return pd.DataFrame(rows)


@pytest.mark.usefixtures("unsettled")
def test_equal_profiles_are_drawn_side_by_side() -> None:
    (panel,) = visible(profiles_figure(distances(0.8, 0.9), width=3.5))
    at = {str(line.get_label()): np.asarray(line.get_xdata(), dtype=float).tolist() for line in panel.get_lines()}
    assert at["a"] == at["c"] == [1, 200, 600]
    assert 5 < at["b"][0] - at["a"][0] < 30


@pytest.mark.usefixtures("unsettled")
@pytest.mark.parametrize(("low", "bottom"), [(0.8, 0.773), (0.1, 0.0)])
def test_profiles_start_at_zero_unless_all_lie_far_above(low: float, bottom: float) -> None:
    (panel,) = visible(profiles_figure(distances(low, 0.9), width=3.5))
    assert panel.get_ylim()[0] == pytest.approx(bottom, abs=1e-3)
    assert panel.get_ylim()[1] > 0.92


@pytest.mark.usefixtures("unsettled")
def test_map_shows_roads_and_the_path_of_the_user(tmp_path: Path) -> None:
    run = run_of(tmp_path, ROADS)
    user = str(Result(run).totals().users["user"].iloc[-1])
    figure = draw(run, "map", users=[user])
    assert figure.legends[0].get_title().get_text() == f"user {user}"
    assert legend_names(figure) == ["true", "reported"]
    panel = visible(figure)[0]
    events = Result(run).events()
    own = events[(events["user"] == user) & (events["lppm"] == "SP-Exp") & (events["replication"] == 0)].sort_values(
        "index"
    )
    (way,) = [line for line in panel.get_lines() if len(line.get_xdata()) == len(own)]  # type: ignore[arg-type]
    assert list(way.get_xdata()) == pytest.approx([cell % 5 + 0.5 for cell in own["cell"]])  # type: ignore[arg-type]
    assert list(way.get_ydata()) == pytest.approx([cell // 5 + 0.5 for cell in own["cell"]])  # type: ignore[arg-type]
    roads = run.manifest().worlds[0].roads
    drawn = [len(lines.get_segments()) for lines in panel.collections if hasattr(lines, "get_segments")]
    assert roads is not None
    assert len(roads["edge_from"]) in drawn
    # Without an attack, the loss of each user is drawn; figures of the adversary error are errors.
    assert "quality loss" in draw(run, "users").get_supylabel()
    for kind in ("tradeoff", "efficiency"):
        with raises_code(RequestError, "no-attack"):
            draw(run, kind)
    with raises_code(RequestError, "no-shift"):
        draw(run, "adaptation")


def trace(cells: int) -> trajectories.UserTrace:
    queries = pd.DataFrame(
        {"index": [1, 2], "time_s": [0.0, 1.0], "cell": [0, 1], "shown": [[1], [1]], "estimate": [0, 2]}
    )
    return trajectories.UserTrace(queries, np.full(cells, 1 / cells), 2)


@pytest.mark.parametrize(
    ("width", "highest", "height_km", "count"),
    [(3.5, 5.0, 30.0, 1), (3.5, 5.0, 30.0, 8), (3.5, 5.0, 12.0, 4), (7.16, 7.0, 30.0, 8), (7.16, 7.0, 12.0, 4)],
)
@pytest.mark.usefixtures("unsettled")
def test_height_of_maps_is_limited(width: float, highest: float, height_km: float, count: int) -> None:
    grid = Grid.rectangle(rows=4, cols=5, width_km=12.0, height_km=height_km)
    world = BaseMap.of(RecordedWorld(points=[0], grid=grid.describe(), traces={}))
    names = [f"PEB half-life MAP {i}" for i in range(count)]
    figure = map_figure({name: trace(20) for name in names}, world, user="u", guesses=Guesses("markov"), width=width)
    assert figure.get_figheight() <= highest
    titles = [axes.get_title() for axes in visible(figure)[:count]]
    assert ["".join(title.split()) for title in titles] == ["".join(name.split()) for name in names]


@pytest.mark.usefixtures("unsettled")
def test_map_has_the_labels_and_colours_of_the_html_report(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    for attack, colour in (("sporadic", plots.COLOURS[1]), ("markov", plots.COLOURS[2])):
        figure = draw(run, "map", attacks=[attack])
        assert legend_names(figure) == ["true", "reported", f"estimate of {attack}"]
        handles = [handle for legend in figure.legends for handle in legend.legend_handles]
        assert [handle.get_color() for handle in handles if isinstance(handle, Line2D)][1:] == [
            plots.COLOURS[0],
            colour,
        ]
    (bar,) = [axes for axes in visible(figure) if axes.get_xlabel().startswith("belief")]
    assert bar.get_xlabel() == "belief at the last snapshot"
    (heat,) = visible(figure)[0].findobj(QuadMesh)
    assert isinstance(heat, QuadMesh)
    assert to_hex(heat.get_cmap()(1.0)).upper() == plots.COLOURS[3]
    monkeypatch.setattr("sim.plots.for_print.MOST_MAPS", 2)
    some, named = draw(run, "map"), draw(run, "map", lppms=["SP-Exp", "PEB-Exp", "identity"])
    assert [axes.get_title() for axes in visible(some)][:2] == ["SP-Exp", "PEB-Exp"]
    assert some.legends[0].get_title().get_text() == "user user-001; the first 2 of 3 LPPMs"
    assert [axes.get_title() for axes in visible(named)][:3] == ["SP-Exp", "PEB-Exp", "identity"]
    assert named.legends[0].get_title().get_text() == "user user-001"


def test_invalid_requests_are_errors_with_the_allowed_values(run: RunDirectory, tmp_path: Path) -> None:
    for request, code, values in (
        ({"kind": "pie"}, "unknown-figure", "'pie': must be one of tradeoff, over_time, "),
        ({"kind": "tradeoff", "lppms": ["SP"]}, "unknown-lppm", "'SP'; available: SP-Exp, PEB-Exp, identity"),
        ({"kind": "over_time", "attacks": ["x"]}, "unknown-attack", "'x'; available: sporadic, markov"),
        ({"kind": "users", "users": ["x"]}, "unknown-user", "'x'; available: user-"),
        ({"kind": "users", "attacks": ["markov", "sporadic"]}, "too-many-selected", "got markov, sporadic"),
        ({"kind": "map", "users": ["user-001", "user-002"]}, "too-many-selected", "got user-001, user-002"),
        ({"kind": "profiles", "attacks": ["markov"]}, "option-not-applicable", "--attack"),
        ({"kind": "tradeoff", "users": ["user-001"]}, "option-not-applicable", "users and map"),
        ({"kind": "efficiency", "lppms": ["identity"]}, "no-efficiency", ""),
    ):
        with raises_code(RequestError, code) as error:
            draw(run, **request)
        assert values in str(error.value)
    (tmp_path / "there.pdf").write_bytes(b"mine")
    for name in ("x.jpg", "x"):
        with raises_code(RequestError, "unsupported-format") as error:
            write_figure(run, "tradeoff", tmp_path / name)
        assert ".pdf, .svg, .png, .eps" in str(error.value)
    for name, text in (("there.pdf", "--overwrite"), ("no/x.pdf", "no")):
        with pytest.raises(RequestError, match=text):
            write_figure(run, "tradeoff", tmp_path / name)
    assert (tmp_path / "there.pdf").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["there.pdf"]


def test_widths() -> None:
    assert [width_in(text) for text in ("column", "page", "4.25")] == [3.5, 7.16, 4.25]
    for text in ("wide", "0", "-3", "nan", "inf", "100", ""):
        with raises_code(RequestError, "invalid-width") as error:
            width_in(text)
        assert "column, page" in str(error.value)
        assert f"[2.5, 20], got {text!r}" in str(error.value)


def test_missing_data_is_an_error(tmp_path: Path) -> None:
    run = run_of(tmp_path, SMALL + "record: {log: summary, window: 4}\n")
    for kind in ("profiles", "map"):
        with pytest.raises(RunError, match=r"record\.log"):
            draw(run, kind)
    run.write_manifest(run.manifest().updated(worlds=[]))
    with pytest.raises(RunError, match=r"manifest\.json.* point 0"):
        draw(run, "map", lppms=["identity"])
    assert not summarize(run).empty
