"""The replay map in a real browser: what it says is in the log, and it can be used by mouse, keyboard and thumb."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

import sim
from sim import report
from sim.analysis.result import Result
from sim.report.page import SCRIPTS
from sim.scenario.models import Scenario
from sim.storage.event_schema import EVENTS
from sim.storage.run_directory import RunDirectory
from tests.support import HOSTILE, rename_hostile

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROWS, COLS = 4, 5
SCENARIO: dict[str, Any] = {
    "name": "small",
    "seed": 3,
    "replications": 1,
    "world": {
        "grid": {"kind": "rectangle", "rows": ROWS, "cols": COLS, "width_km": 5.0, "height_km": 4.0},
        "roads": "lattice",
        "privacy_distance": "road",
    },
    "users": {"count": 3, "queries": 25, "mobility": {"kind": "favourites", "places": 4}},
    "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
    "lppms": ["SP-Exp", "PEB-LH"],
    "attacks": ["sporadic", "markov"],
    "shifts": [{"kind": "new_places", "at_query": 13}],
    "record": {"snapshots": [1, 10, 20]},
}
PICTURE = "canvas => canvas.toDataURL()"


def run(folder: Path, **changes: Any) -> Result:
    return sim.run(Scenario.model_validate(SCENARIO | changes), out=folder, figures=False)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run(tmp_path_factory.mktemp("replay") / "run")


@pytest.fixture(scope="module")
def written(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("page"), result)


@pytest.fixture
def page(browser_page: Page, written: Path) -> Page:
    """Return the report of the small run, by query index, with the first user followed."""
    show(browser_page, written)
    browser_page.get_by_label("Time line by").select_option("query")
    return browser_page


def write(folder: Path, *results: Result) -> Path:
    file = folder / "report.html"
    file.write_text(report.page(results), encoding="utf-8")
    return file


def show(page: Page, file: Path) -> None:
    """Open a report and wait for its map."""
    page.goto(file.as_uri())
    page.wait_for_selector(".map[data-frames]")


def words(page: Page) -> list[str]:
    """Return what the map says in words, line by line."""
    return page.locator(".replay-words > *").all_text_contents()


def picture(page: Page) -> str:
    return str(page.locator(".replay-frame canvas").evaluate(PICTURE))


def moment(page: Page) -> float:
    return float(page.get_by_label("Moment").input_value())


def scrub(page: Page, to: float) -> None:
    page.get_by_label("Moment").evaluate(
        "(range, to) => { range.value = to; range.dispatchEvent(new Event('input')) }", to
    )


def query(result: Result, lppm: str, user: str, index: int) -> pd.DataFrame:
    """Return what the log holds of one query, by attack."""
    events = result.events()
    own = events[(events["event"] == "query") & (events["lppm"] == lppm) & (events["user"] == user)]
    return own[own["index"] == index].set_index("attack")


def test_the_words_are_those_of_the_log(result: Result, page: Page) -> None:
    for lppm, user, index in (("SP-Exp", "user-001", 1), ("PEB-LH", "user-003", 14), ("PEB-LH", "user-002", 25)):
        page.get_by_label("Protected by").select_option(label=lppm)
        page.get_by_label("Follow", exact=True).select_option(label=user)
        scrub(page, index)
        own = query(result, lppm, user, index)
        cell, output = int(own["cell"].iloc[0]), int(own["output"].iloc[0])
        said = words(page)
        assert said[0] == f"Query {index}"
        assert said[1].startswith(f"{user} is in cell {cell} at query {index} of 25")
        errors = own["adversary_error_km"]
        for line, verb, what, guess, km in (
            (said[2], "Reports", "loss", output, own["quality_loss_km"].iloc[0]),
            (said[3], "sporadic guesses", "error", int(own["estimate"].loc["sporadic"]), errors.loc["sporadic"]),
            (said[4], "markov guesses", "error", int(own["estimate"].loc["markov"]), errors.loc["markov"]),
        ):
            far = "the true cell" if guess == cell else f"cell {guess}: {what} {round(km, 2):g} km"
            assert line == f"{verb} {far}."
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
    page.get_by_label("Moment").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert words(page)[0] == "Query 2"
    page.keyboard.press("ArrowDown")
    assert words(page)[1].startswith("user-002 is in cell")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert words(page)[1].startswith("user-003 is in cell")


def test_by_the_clock_a_step_is_the_users_next_query(result: Result, page: Page) -> None:
    events = result.events()
    times = events[events["user"] == "user-002"].drop_duplicates("index").sort_values("index")["time_s"].tolist()
    page.get_by_label("Follow", exact=True).select_option(label="user-002")
    page.get_by_label("Time line by").select_option("time")
    scrub(page, times[9])
    for button, expected in (("Next query", times[10]), ("Next query", times[11]), ("Previous query", times[10])):
        page.get_by_role("button", name=button).click()
        assert moment(page) == expected
    page.get_by_label("Time line by").select_option("query")
    assert moment(page) == 11


def test_every_layer_is_seen_and_can_be_switched_off(result: Result, page: Page) -> None:
    places = {
        index: query(result, "SP-Exp", "user-001", index)[["cell", "output", "estimate"]].stack().nunique()
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


def test_the_belief_says_whose_and_of_when_or_why_there_is_none(page: Page) -> None:
    page.get_by_label("Protected by").select_option(label="PEB-LH")
    said, box = page.locator(".replay-why"), page.get_by_label("Belief of the mechanism")
    scrub(page, 19)
    assert (said.text_content() or "").startswith(
        "of user-001, before her query 10: where she is expected; the strongest shade is "
    )
    scrub(page, 20)
    assert (said.text_content() or "").startswith("of user-001, before her query 20")
    page.get_by_label("Follow", exact=True).select_option("")
    assert box.is_disabled()
    assert said.text_content() == "follow one user to see what is believed of her"


def test_users_are_found_hidden_and_picked_on_the_map(result: Result, page: Page) -> None:
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
    assert row * COLS + col == query(result, "SP-Exp", "user-002", 1)["output"].iloc[0]
    page.locator(".replay-frame canvas").click(position={"x": spot["x"], "y": spot["y"]})
    assert words(page)[1].startswith("user-002 is in cell")


REPORTED = """canvas => {
  const { width, data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height - 40);
  const near = (at) => [0, 114, 178, 255].every((part, place) => Math.abs(data[at + place] - part) < 20);
  const at = [...Array(data.length / 4).keys()].find((pixel) => near(4 * pixel));
  return { x: at % width, y: Math.floor(at / width), width };
}"""
"""Where the first pixel in the colour of a reported position is."""


def test_colours_follow_the_scheme_and_a_phone_has_room(page: Page) -> None:
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


def test_an_lppm_switched_off_in_the_charts_is_not_replayed(page: Page) -> None:
    lppm = page.get_by_label("Protected by")
    entry = page.locator(".legend").first.get_by_role("button", name="SP-Exp")
    entry.click()
    assert lppm.locator("option:checked").text_content() == "PEB-LH"
    entry.click()
    assert lppm.locator("option:disabled").count() == 0


def test_newer_data_keep_what_was_chosen(page: Page) -> None:
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
    page.get_by_label("Protected by").select_option(label="PEB-LH")
    page.get_by_label("Follow", exact=True).select_option(label="user-003")
    page.get_by_label("Speed").select_option("20")
    page.get_by_label("Trails").click()
    scrub(page, 17)
    before, said = picture(page), words(page)
    page.evaluate("again()")
    assert (picture(page), words(page)) == (before, said)
    assert page.get_by_label("Speed").input_value() == "20"
    assert not page.get_by_label("Trails").is_checked()


def test_of_several_runs_one_is_replayed(result: Result, browser_page: Page, tmp_path: Path) -> None:
    other = run(tmp_path / "other", name="other", users=SCENARIO["users"] | {"count": 2})
    sums = run(tmp_path / "sums", name="sums", record="summary")
    page = browser_page
    show(page, write(tmp_path, result, other, sums))
    assert page.get_by_label("Run").locator("option").count() == 3
    page.get_by_label("Run").select_option(index=1)
    page.wait_for_function("() => document.querySelector('.replay-panel summary').textContent === '2 of 2 shown'")
    page.get_by_label("Run").select_option(index=2)
    page.wait_for_selector("#replay .none:visible")
    assert "record.log: summary" in (page.locator("#replay .none").text_content() or "")
    assert not page.get_by_label("Moment").is_visible()


def test_hostile_names_are_only_names(result: Result, browser_page: Page, tmp_path: Path) -> None:
    shutil.copytree(result.run.path, tmp_path / "hostile")
    hostile = rename_hostile(RunDirectory.open(tmp_path / "hostile"))
    page = browser_page
    show(page, write(tmp_path, Result(hostile)))
    page.get_by_label("Time line by").select_option("query")
    named = []
    for user in range(3):
        page.get_by_label("Follow", exact=True).select_option(str(user))
        scrub(page, 13)
        said = words(page)
        named.append(said[1].split(" user is in cell")[0])
        assert said[3].startswith(f"{HOSTILE[0]} attack guesses")
        assert said[-1] == f"Shift “{HOSTILE[0]} shift” just now."
    assert sorted(named) == sorted(HOSTILE[:3])
    assert page.evaluate("window.hacked") is None
    assert page.locator("#replay img, #replay script").count() == 0


def test_two_hundred_users_play(browser_page: Page, tmp_path: Path) -> None:
    """All users and all layers are drawn in every frame; the frame rate is a row of the benchmark."""
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
    show(page, write(tmp_path, Result.open(tmp_path / "crowd")))
    page.get_by_label("Follow", exact=True).select_option("")
    assert re.match("200 of 200 users", words(page)[1])
    assert page.locator(".replay-layers input:checked").count() == 10
    before = int(str(page.locator(".map").get_attribute("data-frames")))
    page.locator(".replay-play").click()
    page.wait_for_function("before => Number(document.querySelector('.map').dataset.frames) > before + 5", arg=before)
