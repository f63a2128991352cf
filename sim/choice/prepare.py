"""Prepare a choice: check the goal, choose the users and the candidates, and name the folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.choice.candidates import names_of
from sim.choice.choose import scenario_of, with_candidates
from sim.choice.population import USERS, recorded, synthetic
from sim.choice.request import Request
from sim.errors import InputError
from sim.scenario.models import Scenario
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from sim.storage.load import load


@dataclass(frozen=True, slots=True)
class Prepared:
    """The scenario with the candidates, at strengths that are to be replaced."""

    scenario: Scenario
    remarks: tuple[str, ...]
    all_of_them: bool
    """Whether every suitable mechanism is a candidate."""

    def default_folder(self, request: Request) -> Path:
        """Return the folder of a choice without a given one, which depends on the request and the scenario."""
        text = repr((request, self.scenario.canonical()))
        return Path("outputs") / f"choice-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def request_of(
    *,
    max_loss_km: float | None,
    at: float | None,
    min_error_km: float | None,
    hide_home_days: float | None,
    within_km: float,
    for_users: float,
) -> Request:
    """Return the request for exactly one goal."""
    given = [goal for goal in (max_loss_km, min_error_km, hide_home_days) if goal is not None]
    if len(given) != 1:
        raise InputError(
            f"a choice needs one goal: a maximum loss, a minimum error or days to hide homes; found {len(given)}",
            code="wrong-goal",
        )
    if not given[0] > 0 or not within_km > 0:
        wrong = given[0] if not given[0] > 0 else within_km
        raise InputError(f"goals and radii must be positive, found {wrong:g}", code="wrong-goal")
    if at is not None and max_loss_km is None:
        raise InputError(
            "`at` belongs to a maximum loss; the share of users whose home is hidden is `for_users`", code="wrong-goal"
        )
    for share in (for_users, 0.5 if at is None else at):
        if not 0 < share < 1:
            raise InputError(f"shares of users must be between 0 and 1 (100 %), found {share:g}", code="wrong-goal")
    if max_loss_km is not None:
        return Request(kind="max-loss", target=max_loss_km, at=at)
    if min_error_km is not None:
        return Request(kind="min-error", target=min_error_km)
    return Request(kind="hide-home", target=given[0], within_km=within_km, share=for_users)


def prepared(
    request: Request,
    lppms: Sequence[str] = (),
    *,
    data: Path | None = None,
    scenario: Scenario | Path | None = None,
    users: int = USERS,
    cell_km: float | None = None,
    seed: int = 1,
) -> Prepared:
    """Return the candidates with the users of a trace file, a scenario, or a synthetic town."""
    names = names_of(lppms)
    everything = "all" in [name.lower() for name in lppms]
    if data is not None and scenario is not None:
        raise InputError("`data` and `scenario` exclude each other: both have users", code="exclusive-options")
    if scenario is not None:
        loaded = load(scenario, settings=[f"seed={seed}"]) if isinstance(scenario, Path) else scenario
        remark = f"users, training data and attacks of {scenario if isinstance(scenario, Path) else loaded.name}"
        return Prepared(with_candidates(loaded, names), (remark,), everything)
    if data is None:
        base = synthetic(request, users=users, cell_km=cell_km)
    else:
        base = recorded(data.resolve(), request, users=users, cell_km=cell_km)
    whole = scenario_of(base.data, request, names, seed=seed, folder=Path())
    return Prepared(whole, (*base.remarks, *_queries_used(whole)), everything)


def _queries_used(scenario: Scenario) -> Iterator[str]:
    """Yield a remark on the number of recorded queries that the comparison uses, if a limit leaves some out."""
    users = scenario.users
    if not users.mobility.recorded or users.queries is None:
        return
    unlimited = scenario.model_copy(update={"users": users.model_copy(update={"queries": None})})
    counts = [len(trace) for trace in Population(Setting(unlimited), 0).traces]
    used = sum(min(count, users.queries) for count in counts)
    if used < sum(counts):
        yield (
            f"{used:,} of {sum(counts):,} queries are used: the first {users.queries:,} of each user after the "
            "training data; `queries` in scenario.yaml sets another number"
        )
