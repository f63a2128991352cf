from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sim import plots
from sim.analysis.adaptation import Adaptation
from sim.analysis.result import Result
from sim.plots import style
from sim.plots.labels import literal
from sim.storage.errors import RunError
from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.run_directory import RunDirectory
from tests.support import a_manifest, assert_apart

HOSTILE = ["$x_1$", "_hidden", "<script>alert(1)</script>", r"a\$b", "50 % _^{", "日本\n\x00"]


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the layout, which takes most of the time, for tests of the data only."""
    monkeypatch.setattr(style, "settled", lambda figure, **_: figure)


def summary(
    lppms: list[str], attacks: list[str], points: int = 1, *, expected: bool = True, users: int = 5
) -> pd.DataFrame:
    rows = []
    for point, (i, lppm), attack in itertools.product(range(points), enumerate(lppms), attacks):
        loss = 3.0 - 0.5 * point + 0.1 * i
        row: dict[str, Any] = {"point": point, "lppm": lppm, "attack": attack, "users": users}
        values = (loss + 1, loss - 0.5, loss, loss - 1)
        for name, value in zip(MEASURES, values, strict=True):
            shown = value if expected or not name.startswith("expected") else np.nan
            row |= {name: shown, f"{name}_low": shown - 0.1, f"{name}_high": shown + 0.2}
        rows.append(row)
    return pd.DataFrame(rows)


def windows(lppms: list[str], attacks: list[str], points: int = 1, windows: int = 4) -> pd.DataFrame:
    table = summary(lppms, attacks, points)
    frames = [table.assign(first_index=1 + 10 * w, last_index=10 + 10 * w, queries=50) for w in range(windows)]
    return pd.concat(frames, ignore_index=True)


def visible(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible()]


def lines(axes: Axes) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes.get_lines() if line.get_label() != plots.DIAGONAL}


def data(line: Line2D, which: str) -> list[float]:
    return [float(v) for v in np.asarray(line.get_xdata() if which == "x" else line.get_ydata())]


def legend_names(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


@pytest.mark.usefixtures("unsettled")
@pytest.mark.parametrize("attacks", [1, 3, 4, 5])
def test_tradeoff_has_a_panel_for_each_attack(attacks: int) -> None:
    names = [f"attack{i}" for i in range(attacks)]
    figure = plots.tradeoff_figure(summary(["SP", "PEB"], names, points=3))
    panels = visible(figure)
    assert [axes.get_title() for axes in panels] == [f"against {name}" for name in names]
    assert all(sorted(lines(axes)) == ["PEB", "SP"] for axes in panels)
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in panels}) == 1
    for axes in panels:
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        assert left == bottom
        # Equal scales: a panel is as much higher than wide as its ranges are.
        assert axes.get_box_aspect() == pytest.approx((top - bottom) / (right - left))
        assert all(max(data(line, "y")) < top for line in lines(axes).values())
    assert panels[0].get_ylabel() == plots.ERROR_LABEL
    assert panels[-1].get_xlabel() == plots.QUALITY_LABEL
    assert legend_names(figure) == ["SP", "PEB"]


@pytest.mark.usefixtures("unsettled")
@pytest.mark.parametrize(("factor", "height"), [(0.05, 0.5), (1.0, 0.7), (3.0, 1.0)])
def test_tradeoff_is_no_higher_than_needed(factor: float, height: float) -> None:
    table = summary(["SP"], ["markov"], points=3)
    columns = [name for name in table.columns if "adversary_error_km" in name]
    table[columns] *= factor
    (axes,) = visible(plots.tradeoff_figure(table))
    assert axes.get_box_aspect() == pytest.approx(height, abs=0.05)


@pytest.mark.usefixtures("unsettled")
def test_tradeoff_lines_are_sorted_by_loss_and_prefer_expected_metrics() -> None:
    table = summary(["SP"], ["markov"], points=3)
    (axes,) = visible(plots.tradeoff_figure(table))
    line = lines(axes)["SP"]
    assert data(line, "x") == pytest.approx([2.0, 2.5, 3.0])
    assert data(line, "y") == pytest.approx([1.0, 1.5, 2.0])
    (axes,) = visible(plots.tradeoff_figure(summary(["SP"], ["markov"], points=3, expected=False)))
    line = lines(axes)["SP"]
    assert data(line, "x") == pytest.approx([3.0, 3.5, 4.0])
    assert data(line, "y") == pytest.approx([1.5, 2.0, 2.5])


@pytest.mark.usefixtures("unsettled")
def test_tradeoff_has_a_labelled_diagonal() -> None:
    (axes,) = visible(plots.tradeoff_figure(summary(["SP"], ["markov"], points=2)))
    (diagonal,) = [line for line in axes.get_lines() if line.get_label() == plots.DIAGONAL]
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    assert plots.DIAGONAL in [text.get_text() for text in axes.texts]


@pytest.mark.usefixtures("unsettled")
def test_tradeoff_bars_are_the_intervals() -> None:
    (axes,) = visible(plots.tradeoff_figure(summary(["SP"], ["markov"])))
    segments = sorted(np.ptp(s, axis=0).tolist() for c in axes.collections for s in c.get_segments())  # type: ignore[attr-defined]
    np.testing.assert_allclose(segments, [[0, 0.3], [0.3, 0]], atol=1e-12)


@pytest.mark.usefixtures("unsettled")
@pytest.mark.parametrize(("longer", "cut"), [(2.5, False), (9.0, True)])
def test_tradeoff_bars_are_cut_off_if_they_would_squeeze_the_points(longer: float, cut: bool) -> None:
    table = summary(["SP"], ["markov"], points=3)
    for name in ("expected_quality_loss_km", "expected_adversary_error_km"):
        table[f"{name}_high"] = table[name] + longer
    figure = plots.tradeoff_figure(table)
    (axes,) = visible(figure)
    ends = np.concatenate([s for c in axes.collections for s in c.get_segments()])  # type: ignore[attr-defined]
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    assert bool((ends[:, 0].max() < right) and (ends[:, 1].max() < top)) != cut
    assert ("exceed the axis" in figure.legends[0].get_title().get_text()) == cut
    assert right < 2.2 * 3.0


@pytest.mark.parametrize(("width", "attacks", "beside"), [(3.5, 2, 1), (3.5, 3, 1), (7.16, 2, 2), (7.16, 3, 3)])
def test_printed_tradeoff_has_panels_of_minimum_width(width: float, attacks: int, beside: int) -> None:
    figure = plots.tradeoff_figure(summary(["SP", "PEB"], ATTACKS[:attacks], points=3), width=width)
    panels = visible(figure)
    assert len({round(axes.get_position().x0, 3) for axes in panels}) == beside
    assert min(axes.get_position().width * width for axes in panels) > 1.9
    assert figure.get_figheight() < 7.7
    assert lines(panels[0])["SP"].get_markersize() == 3


@pytest.mark.usefixtures("unsettled")
def test_single_points_are_labelled_directly() -> None:
    figure = plots.tradeoff_figure(summary(["SP", "PEB", "MK"], ["markov", "sporadic"]))
    for axes in visible(figure):
        assert {"SP", "PEB", "MK"} < {text.get_text() for text in axes.texts}
    assert legend_names(figure) == []
    assert figure.legends[0].get_title().get_text() == "bars: 95 % confidence intervals over users"


@pytest.mark.usefixtures("unsettled")
def test_many_single_points_get_a_legend() -> None:
    names = [f"mechanism {i}" for i in range(9)]
    figure = plots.tradeoff_figure(summary(names, ["markov"]))
    assert legend_names(figure) == names
    assert [text.get_text() for text in visible(figure)[0].texts] == [plots.DIAGONAL]


MANY = [f"MK-{i}-Exp" for i in range(9)]
ATTACKS = ["markov", "sporadic", "markov-train", "sporadic-train"]


@pytest.mark.parametrize(
    "figure",
    [
        pytest.param(lambda: plots.tradeoff_figure(summary(MANY[:4], ATTACKS[:2])), id="labels"),
        pytest.param(lambda: plots.tradeoff_figure(summary(MANY, ATTACKS[:2])), id="dots"),
        pytest.param(lambda: plots.tradeoff_figure(summary(MANY, ATTACKS[:1], points=3)), id="column"),
        pytest.param(lambda: plots.tradeoff_figure(summary(MANY, ATTACKS, points=3)), id="square"),
        pytest.param(lambda: plots.over_time_figure(windows(MANY, ATTACKS, points=3)), id="over-time"),
    ],
)
def test_texts_neither_leave_the_page_nor_overlap(figure: Any) -> None:
    figure = figure()
    with rc_context(plots.STYLE):
        boxes = [box for axes in visible(figure) if (box := axes.get_tightbbox()) is not None]
        boxes += [legend.get_window_extent() for legend in figure.legends]
    assert_apart(figure.bbox, boxes)


@pytest.mark.usefixtures("unsettled")
def test_no_intervals_no_note() -> None:
    table = summary(["SP"], ["markov"])
    table[[c for c in table.columns if c.endswith(("_low", "_high"))]] = np.nan
    assert plots.tradeoff_figure(table).legends == []
    replicated = plots.tradeoff_figure(summary(["SP"], ["markov"], users=1))
    assert replicated.legends[0].get_title().get_text() == "bars: 95 % confidence intervals over replications"


@pytest.mark.usefixtures("unsettled")
def test_run_without_attack_or_query_has_a_message() -> None:
    table = summary(["SP"], [""])
    table[[c for c in table.columns if "adversary" in c]] = np.nan
    figure = plots.tradeoff_figure(table)
    assert figure.axes == []
    assert "no attack" in figure.texts[0].get_text()
    over_time = plots.over_time_figure(table.assign(first_index=1, last_index=1))
    assert [axes.get_ylabel() for axes in over_time.axes] == [plots.QUALITY_LABEL]
    assert over_time.axes[0].get_title() == "no attack"
    assert "no queries" in plots.over_time_figure(windows(["SP"], ["a"]).iloc[:0]).texts[0].get_text()


@pytest.mark.usefixtures("unsettled")
def test_over_time_panels_and_data() -> None:
    table = windows(["SP", "PEB"], ["markov", "sporadic"])
    losses = [name for name in table.columns if "quality_loss_km" in name]
    table.loc[table["attack"] == "sporadic", losses] += 0.5
    figure = plots.over_time_figure(table)
    assert len(figure.axes) == 4
    assert [axes.get_title() for axes in figure.axes[:2]] == ["against markov", "against sporadic"]
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == [plots.QUALITY_LABEL, plots.ERROR_LABEL]
    line = lines(figure.axes[2])["SP"]
    assert data(line, "x") == pytest.approx([5.5, 15.5, 25.5, 35.5])
    assert data(line, "y") == pytest.approx([2.0] * 4)
    assert len(figure.axes[0].collections) == 2
    assert figure.get_suptitle() == ""
    assert legend_names(figure) == ["SP", "PEB"]


def test_loss_that_does_not_depend_on_the_attack_is_drawn_once() -> None:
    figure = plots.over_time_figure(windows(["SP", "PEB"], ["markov", "sporadic", "bayes"]), width=3.5)
    loss, *errors = visible(figure)
    assert loss.get_ylabel().replace("\n", " ") == plots.QUALITY_LABEL
    assert data(lines(loss)["SP"], "y") == pytest.approx([3.0] * 4)
    assert [axes.get_title() for axes in errors] == ["against markov", "against sporadic", "against bayes"]
    assert all(data(lines(axes)["SP"], "y") == pytest.approx([2.0] * 4) for axes in errors)
    # Numbers and a label stand below the last panel of each column.
    assert [bool(axes.get_xlabel()) for axes in visible(figure)] == [False, False, True, True]
    (legend,) = figure.legends
    box, frame = legend.get_window_extent(), loss.get_window_extent()
    assert box.x0 >= frame.x1
    assert box.x1 <= figure.bbox.x1
    assert frame.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


@pytest.mark.usefixtures("unsettled")
def test_mechanism_at_zero_does_not_squeeze_the_others() -> None:
    table = windows(["SP", "identity"], ["markov"])
    measures = [name for name in table.columns if "_km" in name]
    table.loc[table["lppm"] == "identity", measures] = 0.0
    figure = plots.over_time_figure(table)
    assert [axes.get_ylim()[0] > 1.5 for axes in visible(figure)] == [True, True]
    note = "bands: 95 % confidence intervals over users; zero, below the axis: identity"
    assert figure.legends[0].get_title().get_text() == note
    # With others close to zero, all values are within the limits and no note is needed.
    table.loc[table["last_index"] == 10, measures] *= 0.1
    figure = plots.over_time_figure(table)
    assert [axes.get_ylim()[0] for axes in visible(figure)] == [0, 0]
    assert "below" not in figure.legends[0].get_title().get_text()


@pytest.mark.usefixtures("unsettled")
def test_over_time_prefers_expected_metrics_row_by_row() -> None:
    """A mechanism without expected metrics uses its realised ones."""
    table = windows(["SP", "PEB"], ["markov"])
    expected = [name for name in table.columns if name.startswith("expected")]
    table.loc[table["lppm"] == "PEB", expected] = np.nan
    top, bottom = (lines(axes) for axes in plots.over_time_figure(table).axes)
    assert data(top["SP"], "y") == pytest.approx([3.0] * 4)
    assert data(top["PEB"], "y") == pytest.approx([4.1] * 4)
    assert data(bottom["SP"], "y") == pytest.approx([2.0] * 4)
    assert data(bottom["PEB"], "y") == pytest.approx([2.6] * 4)
    bands = plots.over_time_figure(table).axes[0].collections
    heights = [band.get_datalim(band.axes.transData).intervaly.tolist() for band in bands if band.axes]
    assert heights == pytest.approx(np.array([[2.9, 3.2], [4.0, 4.3]]))


@pytest.mark.usefixtures("unsettled")
def test_over_time_draws_the_middle_sweep_point() -> None:
    figure = plots.over_time_figure(windows(["SP"], ["markov"], points=5))
    assert data(lines(figure.axes[0])["SP"], "y") == pytest.approx([2.0] * 4)


@pytest.mark.usefixtures("unsettled")
def test_styles_are_stable_and_distinct() -> None:
    names = [f"m{i}" for i in range(70)]
    looks = plots.looks(names)
    assert len({(look.colour, look.marker, look.line) for look in looks.values()}) == 70
    assert plots.looks(names[:3]) == {name: looks[name] for name in names[:3]}
    table = windows(["SP", "PEB"], ["markov"], points=3)
    over_time = lines(plots.over_time_figure(table).axes[0])
    tradeoff = lines(plots.tradeoff_figure(summary(["SP", "PEB"], ["markov"], 3)).axes[0])
    assert {n: line.get_color() for n, line in over_time.items()} == {
        n: line.get_color() for n, line in tradeoff.items()
    }


@pytest.mark.usefixtures("unsettled")
def test_hostile_names_are_literal_text(tmp_path: Path) -> None:
    """Mathtext must not interpret these names, and SVG must not execute them."""
    figure = plots.tradeoff_figure(summary(HOSTILE, HOSTILE[:3], points=2))
    assert [axes.get_title() for axes in visible(figure)] == [f"against {literal(name)}" for name in HOSTILE[:3]]
    assert legend_names(figure) == [literal(name) for name in HOSTILE]
    paths = plots.save(plots.tradeoff_figure(summary(HOSTILE, ["<b>$"], points=2)), tmp_path / "tradeoff")
    ElementTree.parse(paths[2])
    assert "<script" not in paths[2].read_text()


@pytest.mark.usefixtures("unsettled")
def test_hostile_names_over_time() -> None:
    figure = plots.over_time_figure(windows(HOSTILE, HOSTILE[:2]))
    assert [axes.get_title() for axes in figure.axes[1:]] == [f"against {literal(name)}" for name in HOSTILE[:2]]
    assert sorted(lines(figure.axes[0])) == sorted(HOSTILE)


def test_save_is_deterministic_and_embeds_fonts(tmp_path: Path) -> None:
    table = summary(["SP", "PEB"], ["markov"], points=2)
    first = plots.save(plots.tradeoff_figure(table), tmp_path / "a" / "v1.5")
    second = plots.save(plots.tradeoff_figure(table), tmp_path / "b" / "v1.5")
    assert [path.name for path in first] == ["v1.5.png", "v1.5.pdf", "v1.5.svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert b"CreationDate" not in first[1].read_bytes()
    assert b"/FontFile2" in first[1].read_bytes()


def a_run(path: Path, points: pd.DataFrame | None = None) -> RunDirectory:
    """Write a run with two mechanisms and two attacks that are not in alphabetical order."""
    run = RunDirectory.create(path)
    scenario = {
        "lppms": [{"kind": "identity", "name": name} for name in ("SP", "PEB")],
        "attacks": [{"kind": "sporadic", "name": name} for name in ("markov", "bayes")],
    }
    run.write_manifest(a_manifest(scenario=scenario))
    row: dict[str, Any] = (
        dict.fromkeys(EVENTS.names, 0)
        | {"event": "query", "shift": None, "identity": None}
        | dict.fromkeys(MEASURES, 1.0)
    )
    points = pd.DataFrame({"point": [0]}) if points is None else points
    keys = itertools.product(points["point"].tolist(), ("PEB", "SP"), ("bayes", "markov"), ("ann", "bob"), (1, 2))
    rows = [
        row | {"point": p, "lppm": lppm, "attack": attack, "user": user, "index": i, "estimated_index": i}
        for p, lppm, attack, user, i in keys
    ]
    run.write_part("p", pa.Table.from_pylist(rows, schema=EVENTS))
    run.write_csv("points.csv", points)
    return run


def drawn(result: Result, monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Return the figures of a run by name, without writing them."""
    figures: dict[str, Figure] = {}

    def keep(figure: Figure, stem: Path) -> list[Path]:
        figures[stem.relative_to(result.path).as_posix()] = figure
        return [stem]

    monkeypatch.setattr(style, "save", keep)
    plots.write_figures(result)
    return figures


@pytest.mark.usefixtures("unsettled")
def test_write_figures_reads_the_log(tmp_path: Path) -> None:
    paths = plots.write_figures(Result(a_run(tmp_path)))
    assert sorted(p.relative_to(tmp_path).as_posix() for p in paths) == [
        f"figures/{name}.{suffix}" for name in ("over_time", "tradeoff") for suffix in ("pdf", "png", "svg")
    ]
    assert all(path.stat().st_size > 1000 for path in paths)


@pytest.mark.usefixtures("unsettled")
def test_write_figures_follows_the_order_of_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours and panels follow the scenario, so another mechanism does not change the style of the others."""
    points = pd.DataFrame(
        {"point": [0, 1, 2], "lppms.*.design.epsilon": [0.5, 1.0, 2.0], "lppms.*.belief.count": [7, 8, 9]}
    )
    figures = drawn(Result(a_run(tmp_path, points)), monkeypatch)
    assert list(figures) == ["figures/tradeoff", "figures/over_time"]
    for figure in figures.values():
        assert legend_names(figure) == ["SP", "PEB"]
        titles = [axes.get_title() for axes in visible(figure) if axes.get_title()]
        assert titles == ["against markov", "against bayes"]
        drawn_lines = lines(visible(figure)[0])
        colours = {name: line.get_color() for name, line in drawn_lines.items() if not name.startswith("_")}
        assert colours == {"SP": plots.COLOURS[0], "PEB": plots.COLOURS[1]}
    assert figures["figures/over_time"].get_suptitle() == "epsilon = 1, count = 8"


@pytest.mark.usefixtures("unsettled")
def test_points_with_other_circumstances_are_separate_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = pd.DataFrame({"point": [0, 1, 2], "lppms.*.design.epsilon": [0.5, 1.0, 1.0], "users.count": [7, 7, 9]})
    figures = drawn(Result(a_run(tmp_path, points)), monkeypatch)
    names = ["SP (count 7)", "SP (count 9)", "PEB (count 7)", "PEB (count 9)"]
    assert legend_names(figures["figures/tradeoff"]) == names
    drawn_lines = lines(visible(figures["figures/tradeoff"])[0])
    colours = {name: line.get_color() for name, line in drawn_lines.items()}
    assert colours["SP (count 7)"] == colours["SP (count 9)"] != colours["PEB (count 7)"]
    assert drawn_lines["SP (count 7)"].get_linestyle() != drawn_lines["SP (count 9)"].get_linestyle()
    assert figures["figures/over_time"].get_suptitle() == "epsilon = 1, count = 7"


@pytest.mark.usefixtures("unsettled")
def test_cached_tables_are_not_read_from_the_log_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = Result(a_run(tmp_path))
    result.over_time()
    result.run.part_path("p").write_bytes(b"damaged")
    figures = drawn(result, monkeypatch)
    assert list(figures) == ["figures/tradeoff", "figures/over_time"]
    assert legend_names(figures["figures/over_time"]) == ["SP", "PEB"]


def test_run_without_points_is_an_error(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (tmp_path / "points.csv").unlink()
    with pytest.raises(RunError, match=r"points\.csv"):
        plots.write_figures(Result(run))
    assert not (tmp_path / "figures").exists()


@pytest.mark.usefixtures("unsettled")
def test_each_mechanism_is_drawn_at_its_middle_point() -> None:
    """Two parameters are swept, and each mechanism is simulated only where its own parameter differs."""
    one = windows(["SP"], ["markov"], points=3)
    other = windows(["LH"], ["markov"], points=5)
    other = other[other["point"].isin([0, 3, 4])]
    figure = plots.over_time_figure(pd.concat([one, other], ignore_index=True), title="$x$ = 1")
    drawn_at = {name: data(line, "y")[0] for name, line in lines(figure.axes[0]).items()}
    assert plots.middle_points(pd.concat([one, other])) == {"SP": 1, "LH": 3}
    assert set(drawn_at) == {"SP", "LH"}
    assert figure.get_suptitle() == r"\$x\$ = 1"


@pytest.mark.usefixtures("unsettled")
def test_mechanism_outside_the_sweep_is_drawn_at_its_only_point() -> None:
    """The identity has no swept parameter and is simulated at the first point only."""
    table = pd.concat([windows(["SP"], ["markov"], points=3), windows(["identity"], ["markov"])], ignore_index=True)
    figure = plots.over_time_figure(table)
    assert {name: data(line, "y") for name, line in lines(figure.axes[0]).items()} == {
        "SP": pytest.approx([2.5] * 4),
        "identity": pytest.approx([3.0] * 4),
    }


# ----------------------------------------------------------------------------------------------------- shifts


def changes(**indices: list[int]) -> pd.DataFrame:
    """Return a table of shifts; names with the suffix `_end` are ends of shifts."""
    rows = [
        {"point": 0, "replication": 0, "shift": name.removesuffix("_end"), "user": f"u{i}", "index": index, "time_s": 0}
        | {"event": "shift_end" if name.endswith("_end") else "shift"}
        for name, own in indices.items()
        for i, index in enumerate(own)
    ]
    return pd.DataFrame(rows)


def upright(axes: Axes) -> list[float]:
    return sorted(x[0] for x in (data(line, "x") for line in axes.get_lines()) if len(x) == 2 and x[0] == x[1])


@pytest.mark.usefixtures("unsettled")
def test_shifts_are_lines_at_the_median_user() -> None:
    shifts = changes(move=[10, 20, 21], move_end=[30, 30, 30])
    elsewhere = changes(other=[5]).assign(point=7)
    figure = plots.over_time_figure(windows(["SP"], ["a", "b"]), shifts=pd.concat([shifts, elsewhere]))
    for axes in visible(figure):
        assert upright(axes) == [20, 30]
    upper, lower = visible(figure)[:1], visible(figure)[1:]
    assert [[text.get_text() for text in axes.texts] for axes in upper] == [["move"]]
    assert [axes.texts[:] for axes in lower] == [[], []]
    # Users differ in where it begins, not in where it ends.
    assert [len(axes.patches) for axes in visible(figure)] == [1] * 3
    plain = plots.over_time_figure(windows(["SP"], ["a", "b"]))
    assert upright(visible(plain)[0]) == []
    assert figure.get_size_inches()[1] > plain.get_size_inches()[1]


def test_names_of_shifts_are_above_the_panel_without_overlap() -> None:
    names = ["relocate home", "holiday", "$x_1$", "new places", "close_roads"]
    shifts = changes(**dict(zip(names, ([15], [16], [18], [37], [39]), strict=True)))
    figure = plots.over_time_figure(windows(["SP"], ["markov"]), shifts=shifts)
    figure.draw_without_rendering()
    axes = visible(figure)[0]
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == [literal(name) for name in names]
    frame = axes.get_window_extent()
    assert all(box.y0 >= frame.y1 for box in boxes)
    assert all(box.x0 >= frame.x0 - 1 and box.x1 <= figure.bbox.x1 for box in boxes)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert not any(box.overlaps(axes.title.get_window_extent()) for box in boxes)


def test_too_many_shifts_are_lines_without_names() -> None:
    shifts = changes(**{f"a long name {i}": [20] for i in range(9)})
    figure = plots.over_time_figure(windows(["SP"], ["markov"]), shifts=shifts)
    assert len(visible(figure)[0].texts) == plots.MOST_ROWS
    assert upright(visible(figure)[0]) == [20] * 9


def adapted(lppms: list[str], attacks: list[str], points: int = 1, *, interval: float = 0.05) -> Adaptation:
    at = [-4, -2, 0, 10, 12, 14, 16]
    rows, summaries = [], []
    for (i, lppm), attack, point in itertools.product(enumerate(lppms), attacks, range(points)):
        key = {"point": point, "lppm": lppm, "attack": attack, "shift": "move_$1"}
        for k in at:
            value = 0.9 - 0.05 * i if k <= 0 else 0.3 + 0.03 * k - 0.05 * i
            ends = {"efficiency_low": value - interval, "efficiency_high": value + interval}
            rows.append(key | {"queries_after": k, "users": 5, "efficiency": value} | ends)
        back = {"pooled_queries_to_recover": 12.0 if i else 16.0, "pooled_censored": not i}
        summaries.append(key | back | {"efficiency_before": 0.9})
    return Adaptation(pd.DataFrame(summaries), pd.DataFrame(), pd.DataFrame(rows), 10, 0.9)


@pytest.mark.usefixtures("unsettled")
@pytest.mark.parametrize("interval", [0.05, np.nan])
def test_adaptation_has_a_panel_for_each_attack(interval: float) -> None:
    figure = plots.adaptation_figure(adapted(["SP", "PEB", "MK"], ["a", "b"], interval=interval))
    panels = visible(figure)
    assert [axes.get_title() for axes in panels] == ["against a", "against b"]
    assert legend_names(figure) == ["SP", "PEB", "MK"]
    assert ("bands" in figure.legends[0].get_title().get_text()) == (interval == 0.05)
    for axes in panels:
        assert upright(axes) == [0]
        own = [line for line in axes.get_lines() if line.get_label() == "PEB"]
        # Nothing is drawn across the shift.
        assert [data(line, "x") for line in own] == [[-4, -2, 0], [10, 12, 14, 16]]
        rings = [line for line in axes.get_lines() if line.get_markersize() == 7]
        assert [(data(ring, "x"), ring.get_markeredgecolor()) for ring in rings] == [
            ([12.0], plots.COLOURS[1]),
            ([12.0], plots.COLOURS[2]),
        ]
        assert axes.get_xlabel() == r"queries after the shift (move_\$1)"
    assert panels[0].get_ylabel() == plots.EFFICIENCY_LABEL


@pytest.mark.usefixtures("unsettled")
def test_recovery_level_is_drawn_for_few_lines() -> None:
    def levels(figure: Figure) -> list[float]:
        flat = [data(line, "y") for line in visible(figure)[0].get_lines() if len(data(line, "y")) == 2]
        return [y[0] for y in flat if y[0] == y[1]]

    assert levels(plots.adaptation_figure(adapted(["SP", "PEB"], ["a"]))) == pytest.approx([0.81, 0.81])
    assert levels(plots.adaptation_figure(adapted(["SP", "PEB", "MK"], ["a"]))) == []


@pytest.mark.usefixtures("unsettled")
def test_adaptation_without_users_has_a_message() -> None:
    whole = adapted(["SP"], ["a"])
    figure = plots.adaptation_figure(Adaptation(whole.summary, whole.users, whole.time_series.iloc[:0], 10, 0.9))
    assert "no user has 10 queries" in figure.texts[0].get_text()


def test_adaptation_figure_has_a_row_for_each_value_of_circumstances(tmp_path: Path) -> None:
    figures: dict[str, Figure] = {}
    sweep = pd.DataFrame({"point": [0, 1, 2], "lppms.*.design.epsilon": [1.0, 2.0, 2.0], "users.count": [7, 7, 9]})
    run = a_run(tmp_path, sweep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "save", lambda figure, stem: figures.update({stem.name: figure}) or [stem])
        plots.write_adaptation(run, adapted(["PEB", "SP"], ["bayes", "markov"], points=3))
    (figure,) = figures.values()
    assert list(figures) == ["adaptation"]
    assert legend_names(figure) == ["SP", "PEB"]
    titles = [axes.get_title() for axes in visible(figure)]
    assert titles == [f"against {attack}, count {n}" for n in (7, 9) for attack in ("markov", "bayes")]
    paths = plots.write_adaptation(run, adapted(["PEB", "SP"], ["bayes", "markov"]))
    assert [path.name for path in paths] == ["adaptation.png", "adaptation.pdf", "adaptation.svg"]
