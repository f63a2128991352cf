"""The command `choose`: goals with units, wrong requests, and a choice from start to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.cli.quantity import DAYS, KM, SHARE, Quantity
from tests.support import SMALL, done, lppm_sim

GOAL = ("--max-loss", "500m")


@pytest.mark.parametrize(
    ("kind", "text", "number"),
    [
        (KM, "0.3km", 0.3),
        (KM, "300 m", 0.3),
        (KM, "1.5", 1.5),
        (SHARE, "95%", 0.95),
        (DAYS, "2w", 14.0),
        (DAYS, "30d", 30),
    ],
)
def test_quantities(kind: Quantity, text: str, number: float) -> None:
    assert kind.convert(text, None, None) == pytest.approx(number)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (*GOAL, "--min-error", "1km"),
        ("--max-loss", "0km"),
        ("--max-loss", "3 miles"),
        ("--min-error", "1km", "--at", "95%"),
        (*GOAL, "--at", "120%"),
        (*GOAL, "--data", "a.csv", "--scenario", "b.yaml"),
        (*GOAL, "--data", "missing.csv"),
        (*GOAL, "--lppm", "SP-Epx"),
    ],
)
def test_wrong_requests(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = lppm_sim("choose", *arguments)
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_choice_from_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    arguments = ("--scenario", "small.yaml", "--lppm", "Exp", "--lppm", "Drop", "--workers", "1", "--no-figures")
    text = done("choose", *GOAL, *arguments, "-o", "choice")
    assert "To lose 0.5 km on average, use" in text
    assert "Runner-up" in text
    assert {"scenario.yaml", "choice.json", "choice.html", "run", "search"} == {
        one.name for one in Path("choice").iterdir()
    }
    assert done("choose", *GOAL, *arguments, "-o", "choice") == text
