"""Choose a mechanism for a goal from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.api.progress import ProgressOption, chosen_progress
from sim.api.result import Result
from sim.choice.choose import choose as choose_mechanism
from sim.choice.choose import scenario_text
from sim.choice.population import USERS
from sim.choice.prepare import prepared, request_of
from sim.choice.ranking import Candidate, sentences
from sim.choice.write import PAGE, write_choice
from sim.execution.pool import to_stderr
from sim.scenario.models import Scenario

if TYPE_CHECKING:
    import pandas as pd

    from sim.choice import choose as choosing


@dataclass(frozen=True)
class Choice:
    """A mechanism chosen for a goal, the candidates it was compared with, and the files of the comparison.

    `sim.choose` returns one. In a notebook it is displayed as the conclusion, its warnings and the ranking.
    """

    best: Candidate
    """The choice: ``name``, ``parameter``, ``strength``; ``loss_km`` and ``error_km`` with their intervals."""
    runner_up: Candidate | None
    """The second candidate; None without a second candidate."""
    not_distinguishable: list[str]
    """Names of the candidates that are not significantly worse than the best."""
    sentences: list[str]
    """The conclusion in words: the choice, its price, its protection and the runner-up."""
    warnings: list[str]
    """Limits of the trust in the choice."""
    remarks: list[str]
    """How users and cells were chosen, and which candidates do not meet the goal exactly or at all."""
    scenario: Scenario
    """The candidates with their strengths: `sim.run` repeats the comparison."""
    result: Result
    """The run of the comparison."""
    folder: Path
    """Folder with ``scenario.yaml``, ``choice.json``, ``choice.html`` and ``run/``."""
    _choice: choosing.Choice

    @property
    def page(self) -> Path:
        """Return the path of the page, which needs no other files."""
        return self.folder / PAGE

    @property
    def scenario_text(self) -> str:
        """Return the scenario of the chosen mechanism alone as YAML, to save in the folder of the choice."""
        return scenario_text(self._choice, [self.best.name])

    def ranking(self) -> pd.DataFrame:
        """Return a row for each candidate, the best first.

        Returns
        -------
        pandas.DataFrame
            Columns ``lppm``, ``parameter``, ``strength``, ``outcome`` (``reached``, ``nearest``, ``unreachable``),
            ``realised`` (the metric of the goal), ``strongest`` (the attack), ``loss_95_km``, ``tie`` (not
            distinguishable from the best), and ``loss_km``, ``error_km``, ``hidden`` (a share, for
            hidden homes) and ``behind_km`` (paired difference to the best), each with the limits of a 95 % interval
            over users in ``..._low`` and ``..._high``; NaN where there is none.
        """
        import pandas as pd

        ties = set(self.not_distinguishable)
        return pd.DataFrame([_row(one, tie=one.name in ties) for one in self._choice.ranking.candidates])

    def __repr__(self) -> str:
        """Return the choice, its strength and the folder in one line."""
        return f"<Choice of {self.best.name} with {self.best.parameter} {self.best.strength:.4g}, in {self.folder}>"

    def _repr_html_(self) -> str:
        """Return warnings, the conclusion and the ranking."""
        from sim.api.notebook import choice_html

        return choice_html(self._choice)


def choose(
    *,
    max_loss_km: float | None = None,
    at: float | None = None,
    min_error_km: float | None = None,
    hide_home_days: float | None = None,
    within_km: float = 0.5,
    for_users: float = 0.5,
    lppms: Sequence[str] = (),
    data: str | Path | None = None,
    scenario: Scenario | str | Path | None = None,
    users: int = USERS,
    cell_km: float | None = None,
    seed: int = 1,
    workers: int | None = None,
    figures: bool = True,
    out: str | Path | None = None,
    progress: ProgressOption = None,
) -> Choice:
    """Choose a mechanism and its strength for a goal, as ``lppm-sim choose`` does.

    Each candidate is calibrated to the goal by simulations; then all are attacked and ranked by the strongest attack.
    The same call resumes an interrupted choice and returns a finished one without simulating.

    Parameters
    ----------
    max_loss_km
        Goal: protect most with at most this loss, in km.
    at
        Share of users for which the loss holds, such as 0.95. Default: on average.
    min_error_km
        Goal: lose least with this mean error of the strongest attack, in km.
    hide_home_days
        Goal: lose least and hide homes for this number of days.
    within_km, for_users
        A home is known within this radius; share of users whose home is to be hidden.
    lppms
        Short names of the candidates, or ``["all"]``. Default: a selection.
    data
        Trace file to replay (CSV, Parquet).
    scenario
        Scenario, or its file, with users, training data and attacks; its own seed holds unless it is a file.
    users
        Number of users of `data` or of the synthetic population, which is the default.
    cell_km
        Size of the cells. Default: half the distance of the goal, or what `users` and region allow.
    seed
        Seed of all random numbers.
    workers
        Number of worker processes. Default: this process alone. A script that uses more needs the usual
        ``if __name__ == "__main__":``.
    figures
        Whether to draw the figures and write the report of the run.
    out
        Folder. Default: ``outputs/choice-<digest>``.
    progress
        As in `sim.run`; False also omits the messages about calibrations.

    Returns
    -------
    Choice
        The choice, the ranking as a frame, the scenario that repeats the comparison, and the page.

    Examples
    --------
    >>> import tempfile
    >>> import sim
    >>> town = sim.make_scenario(
    ...     users={"count": 5, "queries": 10, "mobility": "favourites"}, lppms=["SP-Exp"], replications=1
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     choice = sim.choose(
    ...         max_loss_km=1.0, lppms=["SP-Exp", "Drop"], scenario=town, figures=False, out=folder, progress=False
    ...     )
    ...     ranking = choice.ranking()
    >>> bool(ranking["loss_km"].max() < 1.5), choice.best.name == ranking["lppm"].iloc[0]
    (True, True)
    """
    request = request_of(
        max_loss_km=max_loss_km,
        at=at,
        min_error_km=min_error_km,
        hide_home_days=hide_home_days,
        within_km=within_km,
        for_users=for_users,
    )
    compared = prepared(
        request,
        lppms,
        data=None if data is None else Path(data),
        scenario=Path(scenario) if isinstance(scenario, str) else scenario,
        users=users,
        cell_km=cell_km,
        seed=seed,
    )
    folder = compared.default_folder(request) if out is None else Path(out)
    with chosen_progress(progress, "choose") as display:
        finished = choose_mechanism(
            compared.scenario,
            request,
            folder,
            all_of_them=compared.all_of_them,
            remarks=compared.remarks,
            workers=workers,
            progress=display,
            figures=figures,
            notify=_nothing if progress is False else to_stderr,
        )
    write_choice(finished)
    return _of(finished)


def _of(finished: choosing.Choice) -> Choice:
    ranking = finished.ranking
    return Choice(
        best=ranking.best,
        runner_up=ranking.candidates[1] if len(ranking.candidates) > 1 else None,
        not_distinguishable=ranking.ties,
        sentences=list(sentences(ranking, finished.request)),
        warnings=list(finished.warnings),
        remarks=list(finished.remarks),
        scenario=finished.scenario,
        result=Result.of(finished.result),
        folder=finished.folder,
        _choice=finished,
    )


def _row(one: Candidate, *, tie: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "lppm": one.name,
        "parameter": one.parameter,
        "strength": one.strength,
        "outcome": one.outcome,
        "realised": one.realised,
        "strongest": one.strongest,
        "loss_95_km": one.loss_95_km,
        "tie": tie,
    }
    intervals = {"loss_km": one.loss_km, "error_km": one.error_km, "hidden": one.hidden, "behind_km": one.behind}
    for name, interval in intervals.items():
        for suffix, limit in (("", "value"), ("_low", "low"), ("_high", "high")):
            row[f"{name}{suffix}"] = float("nan") if interval is None else getattr(interval, limit)
    return row


def _nothing(_line: str) -> None:
    """Ignore a message."""
