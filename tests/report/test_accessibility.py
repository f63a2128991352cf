"""Accessibility of the report, the comparison and the live view: no violations found by axe-core, in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sim.report.live.server import served
from sim.simulation.progress import Silent

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
SHOW_ALL = """() => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const box of document.querySelectorAll(".wide")) {
    Object.assign(box.style, { background: "none", maxHeight: "none", overflow: "visible" });
  }
}"""
"""Open all details, and remove the gradient at the edges of tables, on which contrast cannot be computed."""


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, chromium: Browser) -> Iterator[Page]:
    """Return an empty page with a colour scheme."""
    context = chromium.new_context(color_scheme=request.param, reduced_motion="reduce", locale="en-GB")
    yield context.new_page()
    context.close()


def violations(page: Page, part: str = "html") -> list[str]:
    """Return the violations found by axe-core in a part of the page, with the elements, after checking that it ran."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="no axe-core: make .venv/ready-to-develop"
    )
    results: dict[str, Any] = axe.Axe().run(page, part, {"runOnly": {"type": "tag", "values": TAGS}}).response
    assert "color-contrast" in {rule["id"] for rule in results["passes"]}
    uncertain = [node["html"] for rule in results["incomplete"] for node in rule["nodes"] if "<td" in node["html"][:3]]
    assert all("Infinity" in cell for cell in uncertain), "the contrast of table cells is checked"
    return [f"{rule['id']}: {node['html'][:200]}" for rule in results["violations"] for node in rule["nodes"]]


@pytest.mark.parametrize("report", ["tournament_report", "comparison"])
def test_reports_have_no_violations(page: Page, report: str, request: pytest.FixtureRequest) -> None:
    file: Path = request.getfixturevalue(report)
    page.goto(file.as_uri())
    page.wait_for_selector(".map[data-frames]")
    page.evaluate(SHOW_ALL)
    assert violations(page) == []
    page.locator("[data-chart=time] .legend button").first.click()
    assert violations(page, "[data-chart=time] .legend") == []
    page.locator("[data-chart=time] .plot").first.focus()
    page.keyboard.press("End")
    page.locator(".tip").wait_for()
    assert violations(page, ".tip") == []


def test_live_pages_have_no_violations(page: Page, tmp_path: Path) -> None:
    with served("small", tmp_path / "run", Silent()) as server:
        page.goto(server.address)
        page.locator(".live p[aria-hidden]", has_text="starting").wait_for()
        assert violations(page) == []
        server.progress.start(100, chunks=1, skipped=0)
        server.progress.advance(40)
        page.locator(".live p[aria-hidden]", has_text="40 of 100").wait_for()
        assert violations(page) == []
        server.progress.end("1 of 2 chunks failed")
        page.locator(".live.failed").wait_for()
        assert violations(page) == []


def test_low_contrast_and_missing_labels_are_found(page: Page, small_report: Path) -> None:
    """The check itself must be able to fail."""
    page.goto(small_report.as_uri())
    page.wait_for_selector(".map[data-frames]")
    page.evaluate(SHOW_ALL)
    page.evaluate("document.querySelector('h2').style.color = 'rgb(128, 128, 128)'")
    page.evaluate("document.querySelector('h2').style.background = 'rgb(140, 140, 140)'")
    page.evaluate("document.querySelector('#replay-speed').labels[0].remove()")
    assert {line.split(":")[0] for line in violations(page)} == {"color-contrast", "select-name"}


def test_all_controls_are_reachable_by_keyboard_with_a_visible_focus(page: Page, small_report: Path) -> None:
    page.goto(small_report.as_uri())
    page.wait_for_selector(".map[data-frames]")
    controls = page.locator("nav a, button:visible, select:visible, summary:visible, input:visible").count()
    reached: set[str] = set()
    for _ in range(2 * controls):
        page.keyboard.press("Tab")
        state = page.evaluate(
            """() => {
              const node = document.activeElement;
              const style = getComputedStyle(node);
              const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
              const text = node.outerHTML.slice(0, 200) + node.textContent.slice(0, 80);
              return [node === document.body ? "" : text, outlined];
            }"""
        )
        if not state[0]:
            break
        assert state[1], f"no visible focus: {state[0]}"
        reached.add(state[0])
    for control in (
        "#answer",
        "aria-pressed",
        'role="application"',
        'type="range"',
        "replay-speed",
        "Complete scenario",
    ):
        assert any(control in one for one in reached), control
