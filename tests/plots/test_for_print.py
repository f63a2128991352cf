"""Figures for papers: as wide as asked, readable there, with their fonts in them, and of what was asked for."""

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
from sim.plots.for_print import KINDS, draw, width_in, write_figure
from sim.plots.map import BaseMap, Guesses, map_figure
from sim.plots.profiles import profiles_figure
from sim.storage.errors import RequestError, RunError
from sim.storage.load import load
from sim.storage.run_directory import RunDirectory
from tests.support import SMALL, assert_apart, told_shifts

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
    with told_shifts(moved):
        return run_of(tmp_path_factory.mktemp("figures"), LONG.replace("{attacks}", ATTACKS))


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the layout, which takes most of the time."""
    monkeypatch.setattr(style, "settled", lambda figure, **_: figure)


def visible(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible()]


def legend_names(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


WIDTHS = {
    "tradeoff": [2.5, 7.16],
    "over_time": [2.5, 7.16],
    "adaptation": [2.5],
    "users": [2.5],
    "profiles": [3.5],
    "map": [2.5, 7.16],
}
"""Where figures are laid out differently; the efficiency is laid out as all over time is, the tournament has tests
of its own."""


def test_every_kind_is_looked_at() -> None:
    assert set(KINDS) == {*WIDTHS, "efficiency", "tournament"}


@pytest.mark.parametrize(("kind", "width"), [(kind, width) for kind, own in WIDTHS.items() for width in own])
def test_everything_is_readable_at_the_width_asked_for(run: RunDirectory, kind: str, width: float) -> None:
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
def test_the_page_is_as_wide_as_asked_and_has_its_fonts(
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
def test_the_suffix_says_the_form_and_the_same_gives_the_same_bytes(
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
def test_what_is_chosen_is_drawn_and_looks_as_ever(run: RunDirectory) -> None:
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
def test_the_efficiency_is_that_of_the_courses(run: RunDirectory) -> None:
    figure = draw(run, "efficiency", attacks=["markov"])
    (panel,) = visible(figure)
    (line,) = [line for line in panel.get_lines() if line.get_label() == "SP-Exp"]
    table = time_series.efficiency_time_series(time_series.user_time_series(run))
    own = table[(table["lppm"] == "SP-Exp") & (table["attack"] == "markov")]
    assert list(line.get_ydata()) == pytest.approx(own["efficiency"].tolist())  # type: ignore[arg-type]
    assert "identity" not in legend_names(figure)
    assert [text.get_text() for text in panel.texts] == ["moves house"]


@pytest.mark.usefixtures("unsettled")
def test_users_have_a_panel_each(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    users = list(dict.fromkeys(Result(run).totals().users["user"]))
    assert [axes.get_title() for axes in visible(draw(run, "users"))] == users
    assert [axes.get_title() for axes in visible(draw(run, "users", users=users[1:2]))] == users[1:2]
    monkeypatch.setattr("sim.plots.users.MOST_PANELS", 2)
    figure = draw(run, "users")
    assert [axes.get_title() for axes in visible(figure)] == users[:2]
    assert figure.legends[0].get_title().get_text() == "against sporadic; 2 of 3 users"


@pytest.mark.usefixtures("unsettled")
def test_profiles_are_those_of_the_courses_where_they_were_recorded(run: RunDirectory) -> None:
    table = beliefs.belief_distance(run)
    (panel,) = visible(draw(run, "profiles"))
    lines = {str(line.get_label()): line for line in panel.get_lines() if str(line.get_label()) in set(table["lppm"])}
    assert list(lines) == ["SP-Exp", "PEB-Exp"]
    for name, line in lines.items():
        own = table[table["lppm"] == name]
        assert list(line.get_ydata()) == pytest.approx(own["distance"].tolist())  # type: ignore[arg-type]
        assert list(line.get_xdata()) == [1, 10, 30, 100]  # type: ignore[arg-type]
    assert panel.get_xscale() == "linear"
    with pytest.raises(RequestError, match="nothing depends on what identity believes: choose another LPPM"):
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
def test_profiles_that_are_the_same_stand_side_by_side() -> None:
    (panel,) = visible(profiles_figure(distances(0.8, 0.9), width=3.5))
    at = {str(line.get_label()): np.asarray(line.get_xdata(), dtype=float).tolist() for line in panel.get_lines()}
    assert at["a"] == at["c"] == [1, 200, 600]
    assert 5 < at["b"][0] - at["a"][0] < 30


@pytest.mark.usefixtures("unsettled")
@pytest.mark.parametrize(("low", "bottom"), [(0.8, 0.773), (0.1, 0.0)])
def test_profiles_start_at_nought_unless_all_lie_far_above(low: float, bottom: float) -> None:
    (panel,) = visible(profiles_figure(distances(low, 0.9), width=3.5))
    assert panel.get_ylim()[0] == pytest.approx(bottom, abs=1e-3)
    assert panel.get_ylim()[1] > 0.92


@pytest.mark.usefixtures("unsettled")
def test_the_map_shows_roads_and_where_the_user_was(tmp_path: Path) -> None:
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
    # No attack: the loss of each user is drawn, and what needs an adversary is refused.
    assert "quality loss" in draw(run, "users").get_supylabel()
    for kind in ("tradeoff", "efficiency"):
        with pytest.raises(RequestError, match="has no attack: there is no "):
            draw(run, kind)
    with pytest.raises(RequestError, match="has no shift"):
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
def test_maps_leave_room_for_text_on_the_page(width: float, highest: float, height_km: float, count: int) -> None:
    world = BaseMap(4, 5, 12.0, height_km, np.zeros((0, 2, 2)))
    names = [f"PEB half-life MAP {i}" for i in range(count)]
    figure = map_figure({name: trace(20) for name in names}, world, user="u", guesses=Guesses("markov"), width=width)
    assert figure.get_figheight() <= highest
    titles = [axes.get_title() for axes in visible(figure)[:count]]
    assert ["".join(title.split()) for title in titles] == ["".join(name.split()) for name in names]


@pytest.mark.usefixtures("unsettled")
def test_the_map_has_the_reports_words_and_colours(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    for attack, colour in (("sporadic", plots.COLOURS[1]), ("markov", plots.COLOURS[2])):
        figure = draw(run, "map", attacks=[attack])
        assert legend_names(figure) == ["true", "reported", f"guess of {attack}"]
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


def test_wrong_requests_are_told_what_is_right(run: RunDirectory, tmp_path: Path) -> None:
    for asked, said in (
        # Where, what and what instead.
        ({"kind": "pie"}, "one of tradeoff, over_time, .*, got 'pie'"),
        ({"kind": "tradeoff", "lppms": ["SP"]}, "has no LPPM 'SP': there is SP-Exp, PEB-Exp, identity"),
        ({"kind": "over_time", "attacks": ["x"]}, "has no attack 'x': there is sporadic, markov"),
        ({"kind": "users", "users": ["x"]}, "has no user 'x': there is user-"),
        ({"kind": "users", "attacks": ["markov", "sporadic"]}, "users shows one attack, got markov, sporadic"),
        ({"kind": "map", "users": ["user-001", "user-002"]}, "map shows one user, got user-001, user-002"),
        ({"kind": "profiles", "attacks": ["markov"]}, "profiles is not about attacks: leave out --attack"),
        ({"kind": "tradeoff", "users": ["user-001"]}, "tradeoff is of all users: --user is for users and map"),
        ({"kind": "efficiency", "lppms": ["identity"]}, "loses quality, and there is no efficiency"),
    ):
        with pytest.raises(RequestError, match=said):
            draw(run, **asked)
    (tmp_path / "there.pdf").write_bytes(b"mine")
    for name, said in (
        ("x.jpg", r"must end in \.pdf, \.svg, \.png, \.eps, got .*x\.jpg"),
        ("x", "must end in"),
        ("there.pdf", "there.pdf exists: choose another name, or replace it with --overwrite"),
        ("no/x.pdf", "does not exist"),
    ):
        with pytest.raises(RequestError, match=said):
            write_figure(run, "tradeoff", tmp_path / name)
    assert (tmp_path / "there.pdf").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["there.pdf"]


def test_widths() -> None:
    assert [width_in(text) for text in ("column", "page", "4.25")] == [3.5, 7.16, 4.25]
    for text in ("wide", "0", "-3", "nan", "inf", "100", ""):
        with pytest.raises(RequestError, match=r"must be column, page or inches from 2\.5 to 20, got"):
            width_in(text)


def test_what_a_run_has_not_is_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, SMALL + "record: {log: summary, window: 4}\n")
    for kind in ("profiles", "map"):
        with pytest.raises(RunError, match="is a summary"):
            draw(run, kind)
    run.write_manifest(run.manifest().updated(worlds=[]))
    with pytest.raises(RunError, match=r"manifest\.json has no world for point 0"):
        draw(run, "map", lppms=["identity"])
    assert not summarize(run).empty
