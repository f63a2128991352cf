"""Axes of the figure of a trace file: dates, and numbers of users."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from sim.datasets import picture
from sim.datasets.describing import describe
from sim.datasets.trace_file import Traces


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Return the list to which each figure is added when it is saved."""
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *args: Any, **options: Any) -> None:
        save(figure, *args, **options)
        figures.append(figure)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def traces(start: str, days: int, *, users: int) -> Traces:
    """Return a row per user and day in one small area."""
    when = np.datetime64(start, "s").astype(np.int64) + 86_400 * np.repeat(np.arange(days), users)
    user = np.tile(np.arange(users), days)
    order = np.argsort(user, kind="stable")
    lat = np.asarray(45.7 + 0.001 * (order % 50), dtype=np.float64)
    lon = np.asarray(4.8 + 0.001 * (order % 40), dtype=np.float64)
    names = tuple(f"u{number}" for number in range(users))
    return Traces(names, user[order], when[order], True, lat, lon, others={}, notes={})


@pytest.mark.parametrize(
    ("start", "days"), [("2024-03-18", 14), ("2023-12-20", 30), ("2024-03-31", 1), ("2024-01-01", 60)]
)
def test_dates_are_evenly_spaced_across_months(drawn: list[Figure], start: str, days: int) -> None:
    rows = traces(start, days, users=3)
    picture.picture(rows, describe(rows), title="t")
    (panel,) = [axes for part in drawn[-1].subfigs for axes in part.axes if "over time" in axes.get_title()]
    ticks = panel.get_xticks()
    assert len(set(np.diff(ticks))) <= 1
    assert len(ticks) <= 5
    first = date.fromisoformat(start)
    assert ticks[0] == np.datetime64(start).astype(np.int64)
    assert panel.get_xticklabels()[0].get_text() == f"{first.day} {first:%b}"
    assert str(first.year) in panel.get_xlabel()


@pytest.mark.parametrize("users", [1, 3, 19, 50])
def test_numbers_of_users_are_whole_numbers(drawn: list[Figure], users: int) -> None:
    rows = traces("2024-03-18", 20, users=users)
    picture.picture(rows, describe(rows), title="t")
    (panel,) = [axes for part in drawn[-1].subfigs for axes in part.axes if axes.get_title() == "rows per user"]
    texts = [label.get_text() for label in [*panel.get_yticklabels(), *panel.get_yticklabels(minor=True)]]
    assert all(text.replace(",", "").isdigit() for text in texts if text)
    assert len(set(texts)) > 1
