"""The table of errors at equal quality loss."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sim.cli.output.equal_loss import print_at_loss
from tests.cli.printed import HOSTILE_NAMES, table

Capture = pytest.CaptureFixture[str]


def ends(name: str, mean: float, low: float, high: float) -> dict[str, float]:
    return {name: mean, f"{name}_low": low, f"{name}_high": high, f"{name}_min": low, f"{name}_max": high}


def test_errors_at_equal_loss_are_printed(capsys: Capture) -> None:
    row = {
        "circumstances": "",
        "attack": "[red",
        "quality_loss_km": 1.0,
        "lppm": HOSTILE_NAMES[0],
        "against": HOSTILE_NAMES[0],
    }
    row |= {"reached": 5, "at_largest": 0, "at_smallest": 0, "users": 5, "of_users": 7}
    row |= ends("error_km", 0.5, 0.4, 0.6) | ends("difference_km", 0, 0, 0)
    row |= {"smoothed_error_km": np.nan, "entropy_bits": np.nan}
    other = row | {"lppm": HOSTILE_NAMES[2]} | ends("difference_km", -0.25, -0.5, 0.0)
    print_at_loss(pd.DataFrame([row, other]))
    printed = capsys.readouterr().out
    heading, *body = table(printed)
    assert heading == ["attack", "Q-bar", "LPPM", "P_AE", f"minus {HOSTILE_NAMES[0]}", "users"]
    assert body == [
        ["[red", "1", HOSTILE_NAMES[0], "0.500 ± 0.100", "", "5 of 7"],
        ["[red", "1", HOSTILE_NAMES[2], "0.500 ± 0.100", "-0.250 ± 0.250", "5 of 7"],
    ]
    assert "not recorded: error after smoothing" in " ".join(printed.split())
    few = other | {"users": 4, "error_km_min": 0.1, "error_km_max": 0.9}
    print_at_loss(pd.DataFrame([few | {"difference_km_min": -1.0, "difference_km_max": 0.5}]))
    assert table(capsys.readouterr().out)[1][3:5] == ["0.500 (0.100 to 0.900)", "-0.250 (-1.000 to 0.500)"]
    print_at_loss(pd.DataFrame([other | {"circumstances": "count 7"}]))
    heading, *body = table(capsys.readouterr().out)
    assert (heading[0], body[0][0]) == ("with", "count 7")
    short = {"reached": 2, "at_largest": 3, "smoothed_error_km": 0.45, "entropy_bits": 2.345}
    print_at_loss(pd.DataFrame([row, other | short]))
    printed = capsys.readouterr().out
    heading, *body = table(printed)
    assert heading[5:] == ["smoothed", "entropy", "users", "outside the curve"]
    assert body[0][5:] == ["", "", "5 of 7", ""]
    assert body[1][3:] == ["0.500* ± 0.100", "-0.250 ± 0.250", "0.450", "2.35", "5 of 7", "3 at the largest loss"]
    assert "* users outside a mechanism's curve have the value at its end" in " ".join(printed.split())
    assert "not recorded" not in printed
