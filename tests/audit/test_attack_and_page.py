"""Attacks with the fitted channel, and the page and JSON of an audit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from sim.audit.answers import answers
from sim.audit.attack import attack, likelihoods
from sim.audit.attack_grid import grid_of
from sim.audit.displacement import Sample
from sim.audit.matching import Matching
from sim.audit.moves import Moves
from sim.audit.page import page
from sim.audit.pairs import Pairs
from sim.audit.record import as_json, audit
from sim.audit.selection import identify
from sim.cli import main
from sim.interfaces import FloatArray
from tests.audit.mechanisms import gaussian, identity, laplace
from tests.audit.movement import people
from tests.support import HOSTILE


def _pairs(sample: Sample, names: tuple[str, ...]) -> Pairs:
    n = len(sample)
    return Pairs(sample, names, timed=True, matching=Matching(n, n, n, 0, 0, 0))


def _sample(users: int = 5, pairs: int = 300) -> Sample:
    rng = np.random.default_rng(6)
    return laplace(300)(people(rng, users=users, pairs=pairs), rng)


def test_identity_is_located_by_every_attack() -> None:
    rng = np.random.default_rng(6)
    sample = identity(people(rng, users=5, pairs=300), rng)
    result = attack(sample, identify(sample))
    assert result is not None
    within = {one.attack: one.value for one in answers(result) if one.metric == "within" and one.radius_m == 500}
    assert within["report taken literally"] == 1
    assert within["markov, own past"] > 0.8 > within["no report"]


def test_likelihoods_are_those_of_the_noise() -> None:
    rng = np.random.default_rng(6)
    sample = gaussian(200)(people(rng, users=3, pairs=120), rng)
    fit = identify(sample).fit
    grid = grid_of(sample, np.ones(120, dtype=bool))
    target = sample.rows(np.arange(40))
    table, group = likelihoods(fit, target, grid)
    x, y = grid.plane.to_m(target.sent_lat, target.sent_lon)
    sigma = fit.estimates[0].value
    checked = 0
    for row in range(40):
        away = np.hypot(grid.x_m - x[row], grid.y_m - y[row])
        expected = np.exp(-(away**2) / (2 * sigma**2))
        near = np.argsort(away)[1:]  # the nearest place is evaluated at the report
        near = near[away[near] < 2.5 * sigma]
        ratio = table[group[row]][near] / expected[near]
        checked += near.size
        assert near.size == 0 or np.abs(np.log(ratio / ratio[0])).max() < 0.1
    assert checked > 40


def test_transitions_equal_the_matrix() -> None:
    profile = np.array([0.5, 0.3, 0.2])
    moves = Moves(np.array([0, 0, 1]), np.array([1, 1, 2]), np.array([2.0, 1.0, 0.0]), profile)
    counts: FloatArray = np.array([[0, 2, 0], [0, 0, 1], [0, 0, 0.0]])
    matrix = (counts + 2 * profile) / (counts.sum(axis=1, keepdims=True) + 2)
    posterior = np.array([0.2, 0.7, 0.1])
    assert moves.predict(posterior) == pytest.approx(posterior @ matrix)


def test_past_and_target_are_separate_halves() -> None:
    sample = _sample()
    result = attack(sample, identify(sample))
    assert result is not None
    assert len(result.sample) == 150
    for user in range(5):
        own = sample.time_s[sample.user == user]
        assert result.sample.time_s[result.sample.user == user].min() > np.median(own)


def test_page_escapes_names_and_has_no_script() -> None:
    result = audit(_pairs(_sample(), HOSTILE), [HOSTILE[0]])
    content = page(result)
    assert "<script" not in content
    assert "<img" not in content
    assert "script-src &#x27;none&#x27;" in content
    assert len(re.findall("<svg", content)) == 4


def test_few_users_have_wide_intervals() -> None:
    result = audit(_pairs(_sample(users=2, pairs=100), ("a", "b")), ["a.csv"])
    shares = [one for one in result.answers if one.metric == "within"]
    assert all(one.high - one.low > 0.6 for one in shares)
    assert any("little is known" in note for note in result.notes)


def test_json_is_complete_and_finite() -> None:
    content = as_json(audit(_pairs(_sample(), tuple("abcde")), ["a.csv", "b.csv"]))
    text = json.dumps(content, allow_nan=False)
    assert json.loads(text)["kind"] == "planar_laplace"
    assert content["parameters"][0]["low"] < 300 < content["parameters"][0]["high"]
    assert sum(map(sum, content["kernel"]["counts"])) + content["kernel"]["beyond"] == 300


def test_command_writes_page_and_json(tmp_path: Path) -> None:
    sample = _sample(users=2, pairs=60)
    frame = pd.DataFrame({"user": sample.user, "time": sample.time_s, "lat": sample.lat, "lon": sample.lon})
    both = frame.assign(sent_lat=sample.sent_lat, sent_lon=sample.sent_lon)
    both.to_csv(tmp_path / "both.csv", index=False)
    arguments = ["audit", str(tmp_path / "both.csv"), "-o", str(tmp_path / "audit.html")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    for text in ("The strongest attack", "have no positions at night"):
        assert (text in done.output) == (text in (tmp_path / "audit.html").read_text())
    assert "The strongest attack" in done.output
    assert json.loads((tmp_path / "audit.json").read_text())["rows"]["pairs"] == 60
    assert (tmp_path / "audit.html").read_text().startswith("<!doctype html>")
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 2
    assert "[file-exists]" in again.output
