"""The benchmark: that it measures what it says, judges it rightly and tells it. How fast anything is, is not tested."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim import bench
from sim.belief import FixedProfile
from sim.bench import costs, limits, rows, timing
from sim.bench.people import DESIGNS, GAP, City, Contest, Run, timed_run
from sim.bench.timing import Samples, median_case, seconds_of, side_by_side, slowest_case
from sim.cli.benchmark_output import print_bench, print_costs
from sim.components.custom import listing
from sim.events import Guess, Report
from sim.inference.bayes import decide_many
from sim.interfaces import FloatArray
from sim.lppm.designs import Identity
from sim.lppm.mechanism import Mechanism
from tests.support import done, lppm_sim, refused

TINY = bench.Scale(
    shape=(3, 4),
    large_shape=(4, 5),
    queries=12,
    window=3,
    rounds=2,
    long_rounds=1,
    agents=3,
    agent_queries=5,
    em_samples=2,
    memory_users=3,
    lengths=(5, 8, 12),
    optimal_shape=(2, 3),
    chunks=4,
    sweep_users=1,
    sweep_replications=1,
    simulations=100,
)
NAMES = [row.name for row in bench.ROWS]
SWEEPS = {"simulation", "chunk-here", "chunk-workers", "chunk-dask", "workers", "driver"}
CHEAP = ("mk", "remap")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command do next to no work."""
    monkeypatch.setattr(bench, "QUICK", TINY)
    monkeypatch.setattr(bench, "FULL", replace(TINY, rounds=1))


def aim(monkeypatch: pytest.MonkeyPatch, **targets: float) -> None:
    """Set other targets; what is measured stays the same."""
    changed = [replace(row, target=targets.get(row.name, row.target)) for row in bench.ROWS]
    monkeypatch.setattr(bench, "ROWS", tuple(changed))


# What is measured ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", bench.ROWS, ids=NAMES)
def test_every_row_gives_figures(row: bench.Row) -> None:
    (outcome,) = bench.measure([row], TINY)
    if row.name == "qif" and outcome.met is None:
        pytest.skip(outcome.note)
    assert outcome.measured is not None
    assert outcome.limit is not None
    assert outcome.ratio is not None
    assert math.isfinite(outcome.measured)
    assert outcome.limit > 0
    if row.unit != "exponent":  # the cost of so few queries may well fall
        assert outcome.measured > 0
        assert outcome.ratio > 0
    upside_down = row.direction == "at_least"
    assert outcome.ratio == (outcome.limit / outcome.measured if upside_down else outcome.measured / outcome.limit)
    assert outcome.met == (outcome.ratio >= row.target if upside_down else outcome.ratio <= row.target)
    if row.name not in SWEEPS | {"memory", "optimal"}:
        assert outcome.samples.keys() == DESIGNS.keys()


def test_the_rows_are_the_targets_of_the_project() -> None:
    targets = {row.name: ("<=" if row.direction == "at_most" else ">=", row.target) for row in bench.ROWS}
    assert targets == {
        "peb": ("<=", 12),
        "peb-expected": ("<=", 24),
        "peb-large": ("<=", 12),
        "mk": ("<=", 12),
        "mk-expected": ("<=", 24),
        "peb-mk": ("<=", 3),
        "sp": ("<=", 10),
        "remap": (">=", 30),
        "peb-run": (">=", 100),
        "qif": (">=", 50),
        "optimal": ("<=", 1),
        "memory": ("<=", 1.2),
        "growth": ("<=", 1.1),
        "simulation": ("<=", 0.5),
        "chunk-here": ("<=", 0.05),
        "chunk-workers": ("<=", 0.05),
        "chunk-dask": ("<=", 0.05),
        "workers": (">=", 1.8),
        "driver": ("<=", 1.5),
    }


def test_the_work_is_what_the_targets_speak_of() -> None:
    for scale in (bench.FULL, bench.QUICK):
        assert (City(scale.shape).n_cells, scale.large_shape, scale.queries) == (250, (50, 50), 300)
        assert (scale.agents, scale.agent_queries) == (1000, 288)
        assert scale.designs == tuple(DESIGNS)
    assert bench.FULL.memory_users == 1000
    assert bench.FULL.simulations == 100_000
    assert bench.FULL.optimal_shape == (10, 10)
    assert bench.FULL.lengths[-1] == 3000
    assert bench.FULL.long_designs == tuple(DESIGNS)


def test_the_user_is_always_the_same() -> None:
    one, again = City((3, 4)), City((3, 4))
    assert one.trace("ann", 9).cells.tolist() == again.trace("ann", 9).cells.tolist()
    assert one.trace("ann", 30).cells.tolist() != one.trace("bob", 30).cells.tolist()
    np.testing.assert_array_equal(np.diff(one.trace("ann", 4).times_s), 300)


@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("model", ["peb", "markov"])
def test_a_run_stamps_every_query(model: str, expected: bool) -> None:
    city = City((3, 4))
    contest = Contest(city, 10)
    for design in city.designs(list(DESIGNS)).values():
        run = getattr(contest, model)(design, expected=expected)
        assert len(run.stamps_s) == 10
        assert list(run.stamps_s) == sorted(run.stamps_s)
        assert run.stamps_s[-1] - run.stamps_s[0] <= run.simulated_s < run.total_s
    if model == "peb":
        assert 0 < contest.worst_gap <= GAP


def test_the_cost_at_r_is_the_mean_before_it_and_a_share_of_the_log() -> None:
    run = Run(stamps_s=(1.0, 3.0, 6.0, 10.0), simulated_s=12.0, tabled_s=2.0)
    assert run.total_s == 14
    assert run.per_query_s(until=4, window=1) == 4 + 0.5
    assert run.per_query_s(until=4, window=3) == 3 + 0.5
    assert run.per_query_s(until=2, window=1) == 2 + 0.5


def test_a_run_is_one_of_the_simulator() -> None:
    """The adversary hears every report, in order of time and then of people."""
    city = City((3, 4))
    traces = [city.trace(name, 3) for name in ("ann", "bob")]
    heard: list[tuple[str, int, int]] = []

    class Listener:
        def observe(self, report: Report) -> Guess:
            heard.append((report.user, report.index, report.output))
            return Guess(report.user, report.index, report.output)

    mechanism = Mechanism(belief=FixedProfile(profile=np.full(12, 1 / 12)), design=Identity(n_cells=12))
    timed_run(city, traces, lambda _user: mechanism, Listener())
    assert heard == [(trace.user, i + 1, trace.cells[i]) for i in range(3) for trace in traces]


# Limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DESIGNS)
def test_the_textbook_remap_costs_what_a_sum_over_cells_says(name: str) -> None:
    city = City((3, 4))
    prior = np.random.default_rng(1).dirichlet(np.ones(12))
    channel, distance_km = city.base_matrix(name), city.distance.matrix_km
    np.testing.assert_allclose(channel.sum(axis=1), 1)
    cost = limits.textbook_cost(channel, prior, distance_km)
    output, guess = 7, 2
    assert cost[output, guess] == pytest.approx(
        sum(prior[x] * channel[x, output] * distance_km[x, guess] for x in range(12))
    )
    table = limits.textbook_remap(channel, prior, distance_km)
    ours = decide_many((prior[:, None] * channel).T, distance_km, None)
    each = np.arange(12)
    np.testing.assert_allclose(cost[each, table], cost[each, ours], atol=1e-15)


def test_a_remap_that_is_not_the_best_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def worse(channel: FloatArray, prior: FloatArray, distance_km: FloatArray) -> Any:
        return limits.textbook_cost(channel, prior, distance_km).argmax(axis=1)

    assert rows.measure_remap(TINY).fault == ""
    monkeypatch.setattr(limits, "textbook_remap", worse)
    assert "the remap is not optimal" in rows.measure_remap(TINY).fault


def test_an_estimate_that_is_not_certified_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows.measure_peb(TINY).fault == ""
    monkeypatch.setattr(rows, "GAP", 0.0)
    assert "the gap is not reached" in rows.measure_peb(TINY).fault


def test_a_gradient_pass_ends_in_a_number_per_cell() -> None:
    gradient = limits.gradient_pass(7, 5)()
    assert gradient.shape == (5,)
    assert gradient.mean() == pytest.approx(1)  # at the uniform profile the gradient's mean under it is 1
    assert limits.prediction(5)().shape == (5,)


def test_qif_is_skipped_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qif", None)
    (outcome,) = bench.measure([row for row in bench.ROWS if row.name == "qif"], TINY)
    assert (outcome.measured, outcome.ratio, outcome.met) == (None, None, None)
    assert outcome.note == "skipped: qif is not installed (pip install qif)"


# Judgement -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("direction", "measured", "ratio", "met"),
    [
        ("at_most", 20.0, 2.0, True),
        ("at_most", 30.0, 3.0, True),
        ("at_most", 30.1, 3.01, False),
        ("at_least", 2.0, 5.0, True),
        ("at_least", 10 / 3, 3.0, True),
        ("at_least", 5.0, 2.0, False),
    ],
)
def test_a_target_is_a_ceiling_or_a_floor(direction: Any, measured: float, ratio: float, met: bool) -> None:
    found = rows.Measurement(measured, 10.0)
    row = rows.Row("x", "what", "beside", direction, 3.0, "s", lambda _scale: found)
    assert row.ratio(found) == pytest.approx(ratio)
    assert row.met(found) is met
    assert row.met(replace(found, fault="wrong")) is False
    assert row.ratios(found) == [row.ratio(found)]
    rounds = Samples((measured, 20.0), (10.0, 10.0))
    assert row.ratios(replace(found, samples={"case": rounds})) == [
        row.ratio(found),
        2.0 if direction == "at_most" else 0.5,
    ]


def test_the_best_round_counts_and_then_the_median_or_the_worst_case() -> None:
    cases = {
        "a": Samples((5.0, 4.0), (1.0, 2.0)),
        "b": Samples((9.0, 6.0), (2.0, 3.0)),
        "c": Samples((30.0, 20.0), (10.0, 11.0)),
    }
    assert cases["a"].best == (4.0, 1.0)
    assert median_case(cases) == (6.0, 2.0)
    assert slowest_case(cases) == (4.0, 1.0)


def test_limit_and_thing_take_turns() -> None:
    turns: list[str] = []

    def noted(what: str, cost: float) -> float:
        turns.append(what)
        return cost + len(turns)

    samples = side_by_side(lambda: noted("thing", 10), lambda: noted("limit", 0), rounds=2)
    assert turns == ["limit", "thing", "limit", "thing"]
    assert samples == Samples(measured=(12, 14), limit=(1, 3))


def test_short_calls_are_timed_in_blocks() -> None:
    calls: list[None] = []
    cost_s = seconds_of(lambda: calls.append(None))
    assert len(calls) > 1
    assert cost_s > 0


# The command -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tiny")
def test_met_targets_end_with_0_and_missed_ones_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    aim(monkeypatch, mk=1e9, remap=1e-9)
    result = lppm_sim("bench", "--quick", *CHEAP)
    assert result.exit_code == 0
    assert result.stderr == "measuring mk: an MK query\nmeasuring remap: the remap of all outputs\n"
    for changed in ({"mk": 1e-9, "remap": 1e-9}, {"mk": 1e9, "remap": 1e9}):
        aim(monkeypatch, **changed)
        assert lppm_sim("bench", "--quick", *CHEAP).exit_code == 1


@pytest.mark.usefixtures("tiny")
def test_a_skipped_row_is_not_a_missed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qif", None)
    assert "skipped: qif is not installed (pip install qif)" in " ".join(done("bench", "--quick", "qif").split())


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("quick", [True, False])
def test_the_json_holds_the_table_the_machine_and_the_samples(quick: bool, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    lppm_sim("bench", *(["--quick"] if quick else []), "-o", out, *CHEAP)
    content = json.loads(out.read_text())
    assert content.keys() == {"schema_version", "machine", "quick", "rows"}
    assert content["quick"] is quick
    assert content["machine"]["numpy"] == np.__version__
    assert all(content["machine"].values())
    assert [row["name"] for row in content["rows"]] == list(CHEAP)
    for row in content["rows"]:
        assert {"what", "measured", "limit", "unit", "ratio", "target", "direction", "met", "note"} < row.keys()
        assert row["met"] is (row["ratio"] <= 12 if row["direction"] == "at_most" else row["ratio"] >= 30)
        low, high = row["ratio_range"]
        assert 0 < low <= high
        for samples in row["samples"].values():
            assert len(samples["measured"]) == len(samples["limit"]) == (2 if quick else 1)


@pytest.mark.usefixtures("tiny")
def test_a_file_is_not_overwritten_unless_asked_to(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    out.write_text("mine")
    assert "is there already" in refused("bench", "--quick", "-o", out, "mk")
    assert out.read_text() == "mine"
    lppm_sim("bench", "--quick", "-o", out, "--overwrite", "mk")
    assert json.loads(out.read_text())["rows"]
    assert "does not exist: nothing was measured" in refused("bench", "--quick", "-o", tmp_path / "no" / "x.json", "mk")


def test_an_unknown_row_suggests_the_nearest() -> None:
    said = " ".join(refused("bench", "peb-lagre").split())
    assert f"no row 'peb-lagre'. Did you mean 'peb-large'? Rows: {', '.join(NAMES)}" in said


def test_the_table_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    a = bench.Outcome("a", "what", "limit [of it]", "s", "at_most", 12, 3.36e-4, 2.8e-5, 12.0, True, "a note")
    b = replace(a, name="b", direction="at_least", target=30, measured=0.0015, limit=2.0, ratio=1333.3, met=False)
    c = replace(a, name="c", unit="bytes", target=1.2, measured=7.2e8, limit=6e8, ratio=1.2, note="")
    d = bench.Outcome("d", "what", "limit", "s", "at_least", 50, note="skipped: no such thing")
    outcomes = [a, b, c, d]
    print_bench(outcomes, bench.machine())
    out = capsys.readouterr().out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert cells == [
        ["a", "what", "336 us", "28 us", "12x", "<= 12x", "yes", "limit [of it]; a note"],
        ["b", "what", "1.5 ms", "2 s", "1,333x", ">= 30x", "no", "limit [of it]; a note"],
        ["c", "what", "720 MB", "600 MB", "1.2x", "<= 1.2x", "yes", "limit [of it]"],
        ["d", "what", "", "", "", ">= 50x", "skipped", "limit; skipped: no such thing"],
    ]
    assert f"numpy {np.__version__}" in out


def test_the_memory_of_a_process_that_started_another_is_not_counted() -> None:
    """A child of a large process tells its own memory, not its parent's."""
    script = (
        "import numpy as np; from sim.bench.memory import bytes_of_users\n"
        "held = np.ones(40_000_000)\n"
        "print(bytes_of_users(2, 4, (3, 4), 1e-6), held[0])"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=240
    ).stdout
    assert 0 < int(said.split()[0]) < 40_000_000 * 8 / 4


def test_several_threads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "8")
    assert "unset OPENBLAS_NUM_THREADS=8" in " ".join(refused("bench", "--quick", "mk").split())


# What parts cost -------------------------------------------------------------------------------------------------


def test_every_design_belief_and_attack_has_its_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "BLOCK_S", 1e-5)
    parts = costs.parts()
    for family in ("design", "belief", "attack"):
        kinds = {part.said["kind"] for part in parts.values() if part.family == family}
        assert kinds == listing()[family][1].keys() - {"module:Class"}
    found = costs.measure(list(parts.values()), cells=6, rounds=1, queries=20)
    assert [cost.part for cost in found] == list(parts.values())
    for cost in found:
        assert cost.figures
        assert all(figure > 0 for figure in cost.figures.values()), cost
        assert ("end" in cost.figures) == (cost.part.said["kind"].split("-")[0] in {"smoothing", "path"})
        budget = cost.part.family == "design" and cost.part.said["kind"] not in {"identity", "dummies"}
        assert ("budget" in cost.figures) == budget
    print_costs(found, 6, bench.machine())
    out = capsys.readouterr().out
    assert [name for name in parts if f"│ {name} " not in out] == []


def test_large_programs_are_solved_only_where_they_are_named() -> None:
    chosen = [part for part in costs.parts().values() if part.is_program]
    assert len(chosen) == 4
    for cost in costs.measure(chosen, cells=54):
        assert (cost.figures, cost.note) == ({}, "over 50 cells only if named")
    said = " ".join(
        done("bench", "--costs", "optimal_privacy-manhattan", "--cells", "54", "--solver", "simplex").split()
    )
    assert "54 cells" in said
    assert "│ optimal_privacy-manhattan │" in said


def test_costs_are_asked_for_in_words_that_go_together() -> None:
    assert "Did you mean 'planar_laplace'" in " ".join(refused("bench", "--costs", "planar_laplas").split())
    assert "found --quick or --out" in " ".join(refused("bench", "--costs", "--quick").split())
