"""City of the benchmark, its users and the timed simulation."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.people import DESIGNS, GAP, City, Contest, Run, timed_run
from sim.belief.fixed_profile import FixedProfile
from sim.events import Guess, Report
from sim.lppm.designs.identity import Identity
from sim.lppm.mechanism import Mechanism


def test_a_user_always_has_the_same_trace() -> None:
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


def test_the_cost_at_r_is_the_mean_of_the_last_queries_and_a_share_of_the_log() -> None:
    run = Run(stamps_s=(1.0, 3.0, 6.0, 10.0), simulated_s=12.0, tabled_s=2.0)
    assert run.total_s == 14
    assert run.per_query_s(until=4, window=1) == 4 + 0.5
    assert run.per_query_s(until=4, window=3) == 3 + 0.5
    assert run.per_query_s(until=2, window=1) == 2 + 0.5


def test_a_timed_run_uses_the_engine() -> None:
    """The adversary observes every report, in order of time and then of users."""
    city = City((3, 4))
    traces = [city.trace(name, 3) for name in ("ann", "bob")]
    observed: list[tuple[str, int, int]] = []

    class Listener:
        def observe(self, report: Report) -> Guess:
            observed.append((report.user, report.index, report.output))
            return Guess(report.user, report.index, report.output)

    mechanism = Mechanism(belief=FixedProfile(profile=np.full(12, 1 / 12)), design=Identity(n_cells=12))
    timed_run(city, traces, lambda _user: mechanism, Listener())
    assert observed == [(trace.user, i + 1, trace.cells[i]) for i in range(3) for trace in traces]
