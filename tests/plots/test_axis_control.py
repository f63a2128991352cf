"""Limits, scales and font sizes of figures."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import sim
from sim.plots import style
from sim.plots.axis_control import AxisControl, parse_limits
from sim.plots.for_print import KINDS, draw
from sim.storage.errors import RequestError
from sim.storage.load import load
from sim.storage.run_directory import RunDirectory
from tests.support import SMALL, raises_code


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    folder = tmp_path_factory.mktemp("axes")
    (folder / "scenario.yaml").write_text(SMALL)
    return sim.run(load(folder / "scenario.yaml"), out=folder / "run", figures=False).run


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the layout, which takes most of the time."""
    monkeypatch.setattr(style, "settled", lambda figure, **_: figure)


def panels(figure: Figure) -> list[Axes]:
    return [panel for panel in figure.axes if panel.get_visible()]


def notes(figure: Figure) -> str:
    return figure.legends[0].get_title().get_text().replace("\n", " ")


@pytest.mark.parametrize("text", ["", ":", "1", "2:1", "1:1", "a:b", "nan:1", "0:inf", "1:2:3"])
def test_invalid_limits_are_rejected(text: str) -> None:
    with raises_code(RequestError, "invalid-limits"):
        parse_limits(text)


def test_limits_apply_to_all_panels_and_open_ends_are_kept(run: RunDirectory, unsettled: None) -> None:
    before = panels(draw(run, "tradeoff"))[0].get_xlim()
    figure = draw(run, "tradeoff", axes=AxisControl(xlim=(0.25, None), ylim=(None, 0.5)))
    assert len(panels(figure)) == 2
    for panel in panels(figure):
        assert panel.get_xlim()[0] == 0.25
        assert panel.get_xlim()[1] == pytest.approx(before[1], rel=0.2)  # labels need other room
        assert panel.get_ylim()[1] == 0.5


def test_the_diagonal_stays_the_diagonal_on_any_scale(run: RunDirectory, unsettled: None) -> None:
    figure = draw(run, "tradeoff", axes=AxisControl(xlim=(0.01, 100.0), xscale="log", yscale="log"))
    panel = panels(figure)[0]
    (diagonal,) = [line for line in panel.lines if line.get_gid() == "reference"]
    x, y = np.asarray(diagonal.get_xdata(), float), np.asarray(diagonal.get_ydata(), float)
    np.testing.assert_array_equal(x, y)
    assert x.max() > 100
    assert ((x > 0) & (x < 0.01)).any()
    assert panel.get_xscale() == panel.get_yscale() == "log"
    assert r"P_{AE}" in notes(figure)  # the name beside the line would be rotated wrongly


def test_values_missing_on_a_logarithmic_axis_are_named(run: RunDirectory, unsettled: None) -> None:
    figure = draw(run, "tradeoff", axes=AxisControl(xscale="log"))
    assert "zero, not on the logarithmic axis: identity" in notes(figure)
    low, _ = panels(figure)[0].get_xlim()
    rows = sim.Result(run).summary()
    positive = rows.loc[rows["expected_quality_loss_km"] > 0, "expected_quality_loss_km"]
    assert 0 < low < positive.min()
    assert "logarithmic" not in notes(draw(run, "tradeoff", lppms=["SP-Exp"], axes=AxisControl(xscale="log")))


def test_limits_of_a_logarithmic_axis_must_be_positive() -> None:
    with raises_code(RequestError, "invalid-limits"):
        AxisControl(ylim=(0.0, 1.0), yscale="log")
    with raises_code(RequestError, "invalid-font-size"):
        AxisControl(font_size=100.0)


def test_limits_beyond_the_own_end_are_rejected(run: RunDirectory, unsettled: None) -> None:
    with raises_code(RequestError, "invalid-limits"):
        draw(run, "over_time", axes=AxisControl(xlim=(1e6, None)))


@pytest.mark.parametrize("kind", ["map", "tournament"])
def test_figures_without_numeric_axes_reject_limits(run: RunDirectory, kind: str) -> None:
    with raises_code(RequestError, "option-not-applicable"):
        draw(run, kind, axes=AxisControl(xscale="log"))
    assert KINDS["located"].axes == "y"
    with raises_code(RequestError, "option-not-applicable"):
        draw(run, "located", axes=AxisControl(xlim=(0.0, 1.0)))


def test_the_font_size_scales_all_texts(run: RunDirectory) -> None:
    small, large = (
        draw(run, "over_time", width=7.16),
        draw(run, "over_time", width=7.16, axes=AxisControl(font_size=12)),
    )
    assert small.get_size_inches()[0] == large.get_size_inches()[0]
    for one, other in zip(panels(small), panels(large), strict=True):
        assert other.yaxis.label.get_fontsize() == 1.5 * float(one.yaxis.label.get_fontsize()) == 12
        for ticks, larger in zip(one.get_yticklabels(), other.get_yticklabels(), strict=False):
            assert larger.get_fontsize() == 1.5 * float(ticks.get_fontsize())


def test_figures_without_control_are_unchanged(run: RunDirectory) -> None:
    plain, same = (style.pictures(draw(run, "tradeoff", axes=axes), ["svg"]) for axes in (None, AxisControl()))
    assert plain == same


def test_limits_without_data_are_rejected(run: RunDirectory, unsettled: None) -> None:
    for axes in (AxisControl(xlim=(1000.0, 2000.0)), AxisControl(ylim=(1000.0, None))):
        with raises_code(RequestError, "invalid-limits"):
            draw(run, "tradeoff", axes=axes)


def test_limits_between_two_points_show_the_line(run: RunDirectory, unsettled: None) -> None:
    (line, *_) = [line for line in panels(draw(run, "over_time"))[0].lines if len(np.asarray(line.get_xdata())) > 1]
    first, second = np.asarray(line.get_xdata(), dtype=float)[:2]
    between = (first + 0.4 * (second - first), first + 0.6 * (second - first))
    assert panels(draw(run, "over_time", axes=AxisControl(xlim=between)))[0].get_xlim() == pytest.approx(between)


def test_open_lower_limits_of_non_negative_metrics_are_zero(run: RunDirectory, unsettled: None) -> None:
    assert panels(draw(run, "tradeoff"))[0].get_ylim()[0] < 0
    for panel in panels(draw(run, "tradeoff", axes=AxisControl(ylim=(None, 1.0)))):
        assert panel.get_ylim() == (0.0, 1.0)
