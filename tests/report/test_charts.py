"""Charts and tables of the report in a browser: drawing, selection, tooltips and sorting, at several widths."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sim
from sim import report
from sim.analysis.result import Result
from sim.plots.labels import printable
from sim.report.page import SCRIPTS
from sim.scenario.models import Scenario
from tests.support import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

WIDTHS = (400, 1280, 2000)
PARTS = SCRIPTS[: SCRIPTS.index("tables.js")]
"""Scripts that draw charts; in a page without a content security policy their functions can be called directly."""

CROSSING = """() => {
  const wrong = [];
  for (const plot of document.querySelectorAll(".plot")) {
    const texts = [...plot.querySelectorAll("text")].filter((text) => !text.closest(".diagonal"));
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    boxes.forEach(([one, a], i) => {
      if (a.left < 0 || a.right > innerWidth) wrong.push(`${one} is cut off`);
      for (const [other, b] of boxes.slice(i + 1)) {
        const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
        if (!apart) wrong.push(`${one} covers ${other}`);
      }
    });
  }
  return wrong;
}"""
"""Texts of a plot that overlap (lines of text may touch) or leave the page."""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    scenario = {
        "name": "small",
        "seed": 3,
        "replications": 1,
        "world": {"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0}},
        "users": {"count": 5, "queries": 40, "mobility": {"kind": "favourites", "places": 4}},
        "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
        "lppms": ["SP-Exp", "PEB-Exp", "identity"],
        "attacks": ["sporadic", "markov"],
        "sweep": {"lppms.*.design.epsilon_per_km": [0.5, 1, 2]},
        "shifts": [{"kind": "new_places", "name": "new job", "at_query": 21}],
        "record": {"snapshots": [1, 10, 20]},
    }
    out = tmp_path_factory.mktemp("charts") / "run"
    return sim.run(Scenario.model_validate(scenario), out=out, figures=False)


@pytest.fixture(scope="module")
def address(result: Result, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report.page([result]), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser_page: Page, address: str) -> Page:
    browser_page.emulate_media(reduced_motion="reduce")
    browser_page.goto(address)
    return browser_page


@pytest.fixture
def parts(browser_page: Page) -> Page:
    """Return an empty page with the scripts that draw charts."""
    browser_page.set_content('<!doctype html><div data-chart="time"></div>')
    browser_page.add_style_tag(content=asset("page.css"))
    browser_page.add_script_tag(content="\n".join(map(asset, PARTS)))
    return browser_page


def asset(name: str) -> str:
    return files("sim.report").joinpath("assets", name).read_text(encoding="utf-8")


def data_of(page: Page) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(page.locator("#data").text_content() or "")
    return data


def pressed(page: Page, chart: str) -> dict[str, bool]:
    """Return whether each entry of a chart's legend is switched on."""
    buttons = page.locator(f"[data-chart={chart}] .legend button[aria-pressed]").all()
    return {button.inner_text(): button.get_attribute("aria-pressed") == "true" for button in buttons}


def entry(page: Page, chart: str, name: str) -> Locator:
    return page.locator(f"[data-chart={chart}] .legend").get_by_role("button", name=name, exact=True)


def lines(page: Page, chart: str) -> int:
    return page.locator(f"[data-chart={chart}] .plot .line").count()


def curve(name: str, x: list[float], y: list[float | None], series: int = 0) -> dict[str, Any]:
    ends = dict.fromkeys(("low", "high", "x_low", "x_high", "at"))
    return {"series": series, "name": name, "line": 0, "x": x, "y": y, **ends}


def chart(curves: list[dict[str, Any]], marks: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    axes = {"x": {"label": "query", "unit": "", "whole": True}, "y": {"label": "loss", "unit": "km", "whole": False}}
    rest = {"title": "", "note": "", "equal": False, "marks": marks or []}
    return {**axes, **rest, "panels": [{"title": "", "curves": curves}]}


def time_data(*charts: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a page with time series of a and b."""
    series = [{"name": name, "look": [i, i, 0]} for i, name in enumerate("ab")]
    return {"series": series, "charts": {"time": list(charts)}}


# ---------------------------------------------------------------------------------------------------- drawing


def test_axes_are_labelled_and_texts_do_not_overlap_at_any_width(page: Page) -> None:
    columns = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "width => document.querySelector('.plot').getBoundingClientRect().right < width", arg=width
        )
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(CROSSING) == []
        boxes = [panel.bounding_box() for panel in page.locator("[data-chart=tradeoff] .panel").all()]
        columns[width] = len({box["x"] for box in boxes if box})
    assert columns == {400: 1, 1280: 2, 2000: 2}
    assert page.locator("[data-chart=tradeoff] .panel-title").all_inner_texts() == [
        "against sporadic",
        "against markov",
    ]
    assert page.locator("[data-chart=tradeoff] .x-label").inner_text() == "quality loss Q\u0304 [km]"
    assert page.locator("[data-chart=time] figcaption").all_inner_texts() == [
        "quality loss Q\u0304 [km]",
        "adversary error PAE [km]",
        "efficiency PAE / Q\u0304",
    ]
    assert set(page.locator("[data-chart=time] .x-label").all_inner_texts()) == {"query index r"}


def test_tradeoff_has_equal_scales_and_a_diagonal(page: Page) -> None:
    plot = page.locator("[data-chart=tradeoff] .plot").first
    ticks: list[dict[str, Any]] = plot.evaluate(
        """plot => [...plot.querySelectorAll(".axes text")].map((text) => ({
          value: Number(text.textContent), x: Number(text.getAttribute("x")), y: Number(text.getAttribute("y")),
          across: text.getAttribute("text-anchor") === "middle" }))"""
    )
    across = [(tick["value"], tick["x"]) for tick in ticks if tick["across"]]
    upwards = [(tick["value"], -tick["y"]) for tick in ticks if not tick["across"]]
    scales = [(last[1] - first[1]) / (last[0] - first[0]) for first, *_, last in (across, upwards)]
    assert scales[0] == pytest.approx(scales[1])
    ends: list[float] = plot.locator(".diagonal line").evaluate(
        "line => ['x1', 'x2', 'y1', 'y2'].map((name) => Number(line.getAttribute(name)))"
    )
    assert ends[1] - ends[0] == pytest.approx(ends[2] - ends[3])
    assert plot.locator(".diagonal text").text_content() == "PAE = Q\u0304"


def test_names_of_shifts_and_long_numbers_do_not_overlap(parts: Page) -> None:
    names = ["a new job far away", "another", "a house", "at the very end"]
    marks = [
        {"x": at, "low": at, "high": at, "name": name, "ends": False}
        for at, name in zip((30, 32, 60, 99), names, strict=True)
    ]
    parts.set_viewport_size({"width": 500, "height": 900})
    parts.evaluate("drawCharts", time_data(chart([curve("a", [1, 50, 100], [1, 2, 3])], marks)))
    assert sorted(parts.locator(".mark text").all_text_contents()) == sorted(names)
    assert parts.evaluate(CROSSING) == []
    parts.evaluate("drawCharts", time_data(chart([curve("a", [1, 1e6], [1, 1e9])])))
    assert parts.evaluate(CROSSING) == []


def test_missing_values_leave_gaps_and_isolated_points_have_markers(parts: Page) -> None:
    parts.evaluate("drawCharts", time_data(chart([curve("a", [1, 2, 3, 4, 5, 6], [1, 2, None, 3, None, 1])])))
    assert (parts.locator(".plot .line").get_attribute("d") or "").count("M") == 3
    parts.evaluate("drawCharts", time_data(chart([curve("a", [1], [0])])))
    assert parts.locator(".plot .marker").count() == 1


def test_ticks_are_round_numbers(parts: Page) -> None:
    def texts(low: float, high: float, count: int, whole: bool) -> list[str]:
        code = "([low, high, count, whole]) => ticks(low, high, roundStep(high - low, count, whole))"
        return [tick["text"] for tick in parts.evaluate(code, [low, high, count, whole])]

    assert texts(0, 1.05, 5, False) == ["0.0", "0.5", "1.0"]
    assert texts(0, 4.2, 5, False) == ["0", "1", "2", "3", "4"]
    assert texts(1, 3, 10, True) == ["1", "2", "3"]
    assert texts(-100, 300, 4, True) == ["\u2212100", "0", "100", "200", "300"]
    assert texts(0, 24000, 3, True) == ["0", "10,000", "20,000"]
    assert texts(0.0012, 0.0031, 4, False) == ["0.0015", "0.0020", "0.0025", "0.0030"]


# ---------------------------------------------------------------------------------------------------- selection


def test_a_single_value_is_not_at_the_border_of_its_plot(parts: Page) -> None:
    for value, half_width in ((1.417, 0.001), (0.0, 0.0), (2.5, 0.0), (-0.3, 0.1)):
        low, high = parts.evaluate(f"rangeOf([{value}], [{value - half_width}, {value + half_width}], 0.25)")
        span = high - low
        assert span > 0
        assert high - value >= 0.04 * span
        assert value == 0 or value - low >= 0.04 * span


def test_legend_toggles_a_series_in_all_charts(page: Page) -> None:
    before = {name: lines(page, name) for name in ("tradeoff", "time", "users")}
    entry(page, "time", "SP-Exp").click()
    for name, count in before.items():
        assert pressed(page, name) == {"SP-Exp": False, "PEB-Exp": True, "identity": True}
        assert lines(page, name) == count * 2 // 3
    entry(page, "users", "PEB-Exp").dblclick()
    assert pressed(page, "tradeoff") == {"SP-Exp": False, "PEB-Exp": True, "identity": False}
    entry(page, "tradeoff", "PEB-Exp").click(modifiers=["Alt"])
    assert all(pressed(page, "users").values())
    entry(page, "tradeoff", "identity").focus()
    page.keyboard.press("Space")
    assert not pressed(page, "time")["identity"]
    assert entry(page, "tradeoff", "identity").evaluate("button => button === document.activeElement")
    page.locator("[data-chart=time] .legend").get_by_role("button", name="show all").click()
    assert {name: lines(page, name) for name in before} == before


def test_users_have_small_charts_of_the_selected_measure_and_attack(page: Page) -> None:
    users = page.locator("[data-chart=users]")
    choices = data_of(page)["charts"]["users"]
    for choice in choices:
        users.get_by_label("measure").select_option(choice["measure"])
        if users.get_by_label("attack").is_visible():
            users.get_by_label("attack").select_option(choice["attack"])
        assert users.locator("figcaption").inner_text().startswith(choice["chart"]["y"]["label"].replace("P_AE", "PAE"))
        assert users.locator(".panel-title").all_inner_texts() == [one["title"] for one in choice["chart"]["panels"]]
    assert len({choice["measure"] for choice in choices}) > 1


def test_many_users_are_shown_on_request(parts: Page) -> None:
    many = chart([])
    many["panels"] = [{"title": f"user {i}", "curves": [curve("a", [1, 2], [i, 1])]} for i in range(30)]
    data = time_data() | {"charts": {"users": [{"measure": "loss", "attack": "", "chart": many}]}}
    parts.evaluate("document.querySelector('[data-chart]').dataset.chart = 'users'")
    parts.evaluate("drawCharts", data)
    assert parts.locator(".panel").count() == 24
    parts.get_by_role("button", name="all 30 panels").click()
    assert parts.locator(".panel").count() == 30
    parts.evaluate("drawCharts", data)
    assert parts.locator(".panel").count() == 30
    parts.get_by_role("button", name="only the first 24 panels").click()
    assert parts.locator(".panel").count() == 24


def test_newer_data_preserve_hidden_series(parts: Page) -> None:
    both = [curve("a", [1, 2], [1, 2]), curve("b", [1, 2], [2, 1], 1)]
    parts.evaluate("drawCharts", time_data(chart(both)))
    entry(parts, "time", "b").click()
    longer = [curve("a", [1, 2, 3], [1, 2, 3]), curve("b", [1, 2, 3], [2, 1, 1], 1)]
    parts.evaluate("drawCharts", time_data(chart(longer), chart(longer)))
    assert pressed(parts, "time") == {"a": True, "b": False}
    assert lines(parts, "time") == 2


# ---------------------------------------------------------------------------------------------------- tooltips


def test_tooltip_has_interval_unit_swept_value_and_shift(page: Page) -> None:
    drawn = data_of(page)["charts"]["tradeoff"]["panels"][0]["curves"][0]
    last = max(range(len(drawn["x"])), key=lambda i: float(drawn["x"][i]))
    colour = page.locator("[data-chart=tradeoff] .plot").first.locator(".marker[fill='var(--series-0)']")
    colour.nth(len(drawn["x"]) - 1).hover()
    page.locator(".tip").wait_for()
    text = page.locator(".tip").inner_text()
    assert text.startswith(drawn["name"])
    assert drawn["at"][last] in text
    for value, low, high in (("y", "low", "high"), ("x", "x_low", "x_high")):
        number, ends = f"{drawn[value][last]:.3g} km", (f"{drawn[end][last]:.3g}" for end in (low, high))
        assert number in text
        assert " to ".join(ends) in text
    page.mouse.move(5, 5)
    assert page.locator(".tip").is_hidden()
    shift = page.locator("[data-chart=time] .plot").first.locator(".mark line")
    shift.scroll_into_view_if_needed()
    box = shift.bounding_box()
    assert box is not None
    page.mouse.move(box["x"], box["y"] + 40)
    page.locator(".tip").wait_for()
    assert "new job: 21" in page.locator(".tip").inner_text()


def test_arrow_keys_read_a_time_series_and_select_the_next_chart(page: Page) -> None:
    charts = data_of(page)["charts"]["time"]
    plots = page.locator("[data-chart=time] .plot")
    plots.first.focus()
    page.keyboard.press("End")
    page.locator(".tip").wait_for()
    rows = page.locator(".tip tr")
    expected = sorted(((one["y"][-1], one["name"]) for one in charts[0]["panels"][0]["curves"]), reverse=True)
    assert [row.locator("bdi").inner_text() for row in rows.all()] == [name for _, name in expected]
    values = [float(row.locator("td").first.inner_text().removesuffix(" km")) for row in rows.all()]
    assert values == pytest.approx([value for value, _ in expected], abs=0.006)
    page.keyboard.press("ArrowDown")
    assert plots.nth(1).evaluate("plot => plot === document.activeElement")
    page.locator(".tip").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()


def test_hostile_names_are_text_in_charts_and_tooltips(browser_page: Page, hostile_report: Path) -> None:
    browser_page.goto(hostile_report.as_uri())
    names = [f"{name} lppm" for name in HOSTILE[:2]]
    assert list(pressed(browser_page, "tradeoff")) == names
    assert browser_page.locator(".mark text").first.text_content() == f"{HOSTILE[0][:23]}\u2026"
    assert browser_page.locator("[data-chart=users] .panel-title").all_text_contents() == [
        f"{printable(name)} user" for name in sorted(HOSTILE[:3])
    ]
    browser_page.locator("[data-chart=time] .plot").first.focus()
    browser_page.keyboard.press("End")
    browser_page.locator(".tip").wait_for()
    assert sorted(browser_page.locator(".tip bdi").all_inner_texts()) == sorted(names)
    assert browser_page.evaluate("window.hacked") is None
    assert browser_page.locator("img, main script").count() == 0


# ---------------------------------------------------------------------------------------------------- tables and style


def test_tables_sort_by_click_and_by_key(page: Page) -> None:
    table = page.locator("#answer table.sortable")
    heads = table.locator("thead th")
    column = 1
    assert heads.nth(column).get_attribute("data-type") == "number"

    def cells(at: int) -> list[str | None]:
        return [cell.get_attribute("data-value") for cell in table.locator(f"tbody tr > :nth-child({at + 1})").all()]

    given_rows = table.locator("tbody tr").all_inner_texts()
    heads.nth(0).get_by_role("button").click()
    names = table.locator("tbody th").all_inner_texts()
    assert names == sorted(names, key=str.lower)
    heads.nth(column).get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert heads.nth(column).get_attribute("aria-sort") == "ascending"
    assert heads.nth(0).get_attribute("aria-sort") is None
    swept = cells(column)
    given = [float(value) for value in swept if value]
    assert given == sorted(given)
    assert swept[len(given) :] == [""] * (len(swept) - len(given)) != []
    same = [
        name
        for name, value in zip(table.locator("tbody th").all_inner_texts(), swept, strict=True)
        if value == swept[0]
    ]
    assert same == sorted(same), "sorting is stable"
    page.keyboard.press("Enter")
    assert heads.nth(column).get_attribute("aria-sort") == "descending"
    assert cells(column) == [*sorted(filter(None, swept), key=lambda value: -float(value)), *swept[len(given) :]]
    page.keyboard.press("Enter")
    assert heads.nth(column).get_attribute("aria-sort") is None
    assert table.locator("tbody tr").all_inner_texts() == given_rows


def test_dark_colour_scheme_on_screen_and_light_in_print(page: Page) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(paper) != light
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(paper) == light
    assert page.locator("nav").is_hidden()
    assert page.locator("th > button").first.is_visible()


def test_scripts_have_distinct_top_level_names() -> None:
    top = re.compile(r"^(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
    names = [name for part in SCRIPTS for name in top.findall(asset(part))]
    assert sorted(names) == sorted(set(names))


# ---------------------------------------------------------------------------------------------------------- few users


def test_few_users_are_drawn_individually_and_nothing_is_below_zero(browser_page: Page, small_report: Path) -> None:
    browser_page.goto(small_report.as_uri())
    for chart in ("tradeoff", "time", "profiles"):
        panels = browser_page.locator(f"[data-chart={chart}] .plot")
        panels.first.wait_for()
        assert browser_page.locator(f"[data-chart={chart}] .band").count() == 0
        for panel in panels.all():
            # Each of two mechanisms has a line, or a dot, for each of three users.
            assert panel.locator("path.user, circle.user").count() >= 6
    ticks = browser_page.locator("[data-chart] .axes text").all_text_contents()
    assert ticks
    assert not any(text.startswith(("-", "\u2212")) for text in ticks)
    notes = browser_page.locator("[data-chart=tradeoff] .note").all_inner_texts()
    assert notes == ["thin lines or small marks: individual users (no intervals for fewer than 5 users)"]
