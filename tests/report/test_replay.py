"""Replay map in a browser: its description agrees with the log; mouse, keyboard and touch work."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest

from sim.analysis.result import Result
from sim.report.page import SCRIPTS
from sim.storage.event_schema import EVENTS
from tests.report.conftest import COLS, ROWS, SCENARIO, run, write
from tests.support import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURE = "canvas => canvas.toDataURL()"


@pytest.fixture
def page(browser_page: Page, small_report: Path) -> Page:
    """Return the report of the small run, by query index, with the first user followed."""
    show(browser_page, small_report)
    browser_page.get_by_label("Time line by").select_option("query")
    return browser_page


def show(page: Page, file: Path) -> None:
    """Open a report and wait for its map."""
    page.goto(file.as_uri())
    page.wait_for_selector(".map[data-frames]")


def words(page: Page) -> list[str]:
    """Return the description of the current moment, line by line."""
    return page.locator(".replay-words > *").all_text_contents()


def picture(page: Page) -> str:
    return str(page.locator(".replay-frame canvas").evaluate(PICTURE))


def moment(page: Page) -> float:
    return float(page.get_by_label("Time", exact=True).input_value())


def scrub(page: Page, to: float) -> None:
    page.get_by_label("Time", exact=True).evaluate(
        "(range, to) => { range.value = to; range.dispatchEvent(new Event('input')) }", to
    )


def query(result: Result, lppm: str, user: str, index: int) -> pd.DataFrame:
    """Return the rows of one query in the log, by attack."""
    events = result.events()
    own = events[(events["event"] == "query") & (events["lppm"] == lppm) & (events["user"] == user)]
    return own[own["index"] == index].set_index("attack")


def test_description_agrees_with_the_log(small_run: Result, page: Page) -> None:
    for lppm, user, index in (("SP-Exp", "user-001", 1), ("PEB-LH", "user-003", 14), ("PEB-LH", "user-002", 25)):
        page.get_by_label("Mechanism", exact=True).select_option(label=lppm)
        page.get_by_label("Follow", exact=True).select_option(label=user)
        scrub(page, index)
        own = query(small_run, lppm, user, index)
        cell, output = int(own["cell"].iloc[0]), int(own["output"].iloc[0])
        lines = words(page)
        assert lines[0] == f"Query {index}"
        assert lines[1].startswith(f"{user} is in cell {cell} at query {index} of 25")
        errors, estimates = own["adversary_error_km"], own["estimate"]
        for line, subject, metric, shown, km in (
            (lines[2], "Report", "loss", output, own["quality_loss_km"].iloc[0]),
            (lines[3], "Estimate of sporadic", "error", int(estimates.loc["sporadic"]), errors.loc["sporadic"]),
            (lines[4], "Estimate of markov", "error", int(estimates.loc["markov"]), errors.loc["markov"]),
        ):
            place = "the true cell" if shown == cell else f"cell {shown}, {metric} {round(km, 2):g} km"
            assert line == f"{subject}: {place}."
    scrub(page, 14)
    assert words(page)[5] == "Shift “new_places” 1 query ago."
    assert page.locator(".replay-ticks line.shift title").text_content() == "new_places: user-002, query 13"


def test_plays_and_steps_by_keyboard(page: Page) -> None:
    page.get_by_label("Map of the replay").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Pause").text_content() == "Pause"
    assert page.locator(".replay-words").get_attribute("aria-live") == "off"
    page.wait_for_function("() => document.querySelector('.map input[type=range]').value >= 2")
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Play").count() == 1
    assert page.locator(".replay-words").get_attribute("aria-live") == "polite"
    stopped = moment(page)
    assert stopped == int(stopped)
    for key, expected in (("ArrowRight", stopped + 1), ("ArrowLeft", stopped), ("End", 25.0), ("PageUp", 23.0)):
        page.keyboard.press(key)
        assert moment(page) == expected
    page.get_by_label("Time", exact=True).focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert words(page)[0] == "Query 2"
    page.keyboard.press("ArrowDown")
    assert words(page)[1].startswith("user-002 is in cell")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert words(page)[1].startswith("user-003 is in cell")


def test_step_on_the_time_axis_is_the_next_query_of_the_user(small_run: Result, page: Page) -> None:
    events = small_run.events()
    times = events[events["user"] == "user-002"].drop_duplicates("index").sort_values("index")["time_s"].tolist()
    page.get_by_label("Follow", exact=True).select_option(label="user-002")
    page.get_by_label("Time line by").select_option("time")
    scrub(page, times[9])
    for button, expected in (("Next query", times[10]), ("Next query", times[11]), ("Previous query", times[10])):
        page.get_by_role("button", name=button).click()
        assert moment(page) == expected
    page.get_by_label("Time line by").select_option("query")
    assert moment(page) == 11


def test_every_layer_is_visible_and_can_be_switched_off(small_run: Result, page: Page) -> None:
    places = {
        index: query(small_run, "SP-Exp", "user-001", index)[["cell", "output", "estimate"]].stack().nunique()
        for index in range(3, 26)
    }
    scrub(page, max(places, key=lambda index: places[index]))
    boxes = page.locator(".replay-layers input")
    assert boxes.count() == 9
    for box in boxes.all():
        before = picture(page)
        box.click()
        assert picture(page) != before, box.locator("..").text_content()
        box.click()
        assert picture(page) == before


def test_belief_note_has_user_and_query_or_the_reason_for_none(page: Page) -> None:
    page.get_by_label("Mechanism", exact=True).select_option(label="PEB-LH")
    note, box = page.locator(".replay-why"), page.get_by_label("Belief of the mechanism")
    scrub(page, 19)
    assert (note.text_content() or "").startswith("about user-001 before query 10; the darkest cell has probability ")
    scrub(page, 20)
    assert (note.text_content() or "").startswith("about user-001 before query 20;")
    page.get_by_label("Follow", exact=True).select_option("")
    assert box.is_disabled()
    assert note.text_content() == "select a user to see the belief about them"


def test_users_can_be_searched_hidden_and_selected_on_the_map(small_run: Result, page: Page) -> None:
    page.get_by_label("Follow", exact=True).select_option("")
    summary = page.locator(".replay-panel summary")
    summary.click()
    page.get_by_role("button", name="Hide all users in the list").click()
    assert summary.text_content() == "0 of 3 shown"
    page.get_by_label("Find").fill("002")
    page.get_by_role("button", name="Show all users in the list").click()
    assert summary.text_content() == "1 of 3 shown"
    page.get_by_label("Find").fill("")
    assert page.locator(".replay-list input:checked").count() == 1
    spot = page.locator(".replay-frame canvas").evaluate(REPORTED)
    side = (spot["width"] - 20) / COLS  # of a cell, in pixels; the map is 10 pixels from the edge, and north is up
    row, col = ROWS - 1 - int((spot["y"] - 10) / side), int((spot["x"] - 10) / side)
    assert row * COLS + col == query(small_run, "SP-Exp", "user-002", 1)["output"].iloc[0]
    page.locator(".replay-frame canvas").click(position={"x": spot["x"], "y": spot["y"]})
    assert words(page)[1].startswith("user-002 is in cell")


REPORTED = """canvas => {
  const { width, data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height - 40);
  const near = (at) => [0, 114, 178, 255].every((part, place) => Math.abs(data[at + place] - part) < 20);
  const at = [...Array(data.length / 4).keys()].find((pixel) => near(4 * pixel));
  return { x: at % width, y: Math.floor(at / width), width };
}"""
"""Position of the first pixel in the colour of a reported position."""


def test_colours_follow_the_scheme_and_the_page_fits_a_phone(page: Page) -> None:
    light = picture(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        f"before => ({PICTURE})(document.querySelector('.replay-frame canvas')) !== before", arg=light
    )
    page.emulate_media(color_scheme="light")
    page.wait_for_function(
        f"before => ({PICTURE})(document.querySelector('.replay-frame canvas')) === before", arg=light
    )
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_function("() => document.querySelector('.replay-frame canvas').clientWidth < 400")
    wide = page.locator("#replay *").evaluate_all(
        "nodes => nodes.filter((node) => node.getBoundingClientRect().right > 400).length"
    )
    assert wide == 0
    unnamed = page.locator("#replay :is(button, input, select)").evaluate_all(
        "nodes => nodes.filter((node) => !node.labels?.length && !node.getAttribute('aria-label')).length"
    )
    assert unnamed == 0


def test_lppm_hidden_in_the_charts_is_not_replayed(page: Page) -> None:
    lppm = page.get_by_label("Mechanism", exact=True)
    entry = page.locator(".legend").first.get_by_role("button", name="SP-Exp")
    entry.click()
    assert lppm.locator("option:checked").text_content() == "PEB-LH"
    entry.click()
    assert lppm.locator("option:disabled").count() == 0


def test_newer_data_preserve_the_selections(page: Page) -> None:
    scripts = "\n".join(
        files("sim.report").joinpath("assets", name).read_text(encoding="utf-8")
        for name in SCRIPTS
        if name != "page.js"
    )
    page.evaluate(
        f"""() => {{ {scripts}
        const replay = makeReplay($(".map"));
        window.again = () => replay.show(JSON.parse($("#data").textContent));
        return again(); }}"""
    )
    page.get_by_label("Time line by").select_option("query")
    page.get_by_label("Mechanism", exact=True).select_option(label="PEB-LH")
    page.get_by_label("Follow", exact=True).select_option(label="user-003")
    page.get_by_label("Speed").select_option("20")
    page.get_by_label("Trails").click()
    scrub(page, 17)
    before = picture(page), words(page)
    page.evaluate("again()")
    assert (picture(page), words(page)) == before
    assert page.get_by_label("Speed").input_value() == "20"
    assert not page.get_by_label("Trails").is_checked()


def test_one_of_several_runs_is_replayed(browser_page: Page, comparison: Path) -> None:
    page = browser_page
    show(page, comparison)
    assert page.get_by_label("Run").locator("option").count() == 3
    page.get_by_label("Run").select_option(index=1)
    page.wait_for_function("() => document.querySelector('.replay-panel summary').textContent === '2 of 2 shown'")
    page.get_by_label("Run").select_option(index=2)
    page.wait_for_selector("#replay .none:visible")
    assert "record.log" in (page.locator("#replay .none").text_content() or "")
    assert not page.get_by_label("Time", exact=True).is_visible()


def test_hostile_names_are_text_in_the_replay(browser_page: Page, hostile_report: Path) -> None:
    page = browser_page
    show(page, hostile_report)
    page.get_by_label("Time line by").select_option("query")
    named = []
    for user in range(3):
        page.get_by_label("Follow", exact=True).select_option(str(user))
        scrub(page, 13)
        lines = words(page)
        named.append(lines[1].split(" user is in cell")[0])
        assert lines[3].startswith(f"Estimate of {HOSTILE[0]} attack: ")
        assert lines[-1] == f"Shift “{HOSTILE[0]} shift” at this query."
    assert sorted(named) == sorted(HOSTILE[:3])
    assert page.evaluate("window.hacked") is None
    assert page.locator("#replay img, #replay script").count() == 0


def test_two_hundred_users_play(browser_page: Page, tmp_path: Path) -> None:
    """All users and all layers are drawn in every frame; the benchmark measures the frame rate."""
    few = run(
        tmp_path / "crowd",
        users=SCENARIO["users"] | {"count": 4, "queries": 6},
        lppms=["SP-Exp"],
        attacks=["sporadic", "markov", "sporadic-trained"],
        record={"snapshots": []},
        shifts=[{"kind": "new_places", "at_query": 3}],
    )
    for part in few.run.parts():
        rows = few.run.read_part(part).to_pandas()
        crowd = pd.concat([rows.assign(user=rows["user"] + f" {copy}") for copy in range(50)])
        few.run.write_part(part, pa.Table.from_pandas(crowd, schema=EVENTS, preserve_index=False), few.run.notes(part))
    page = browser_page
    show(page, write(tmp_path / "report.html", Result.open(tmp_path / "crowd")))
    page.get_by_label("Follow", exact=True).select_option("")
    assert re.match("200 of 200 users", words(page)[1])
    assert page.locator(".replay-layers input:checked").count() == 10
    before = int(str(page.locator(".map").get_attribute("data-frames")))
    page.locator(".replay-play").click()
    page.wait_for_function("before => Number(document.querySelector('.map').dataset.frames) > before + 5", arg=before)
