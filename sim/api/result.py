"""A run in a notebook: its frames, figures, report and HTML representation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sim.analysis import result as analysis
from sim.api.progress import notebook_shell
from sim.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FigureKind = Literal[
    "tradeoff",
    "over_time",
    "efficiency",
    "adaptation",
    "tournament",
    "home_exposure",
    "located",
    "users",
    "profiles",
    "map",
]


class Result(analysis.Result):
    """A run, read from its directory: frames, figures and the report.

    `sim.run` returns one; ``sim.Result.open(path)`` opens a run directory, also one copied from another machine. In a
    notebook it is displayed as a table of quality loss and adversary error.

    Examples
    --------
    >>> import tempfile
    >>> import sim
    >>> users = {"count": 5, "queries": 10, "mobility": "favourites"}
    >>> scenario = sim.make_scenario(users=users, lppms=["SP-Exp"], attacks=["sporadic"], replications=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = sim.run(scenario, out=folder, figures=False)
    ...     summary = result.summary()
    ...     figure = result.figure("tradeoff")
    >>> summary[["lppm", "attack", "users", "queries"]].values.tolist()
    [['SP-Exp', 'sporadic', 5, 50]]
    >>> len(figure.axes)
    1
    """

    @classmethod
    def of(cls, result: analysis.Result) -> Result:
        """Return the same result with the methods of this class; tables already computed are kept."""
        own = cls(result.run)
        own._cache = result._cache
        return own

    def figure(
        self,
        kind: FigureKind = "tradeoff",
        *,
        width: float | Literal["column", "page"] = "page",
        lppms: Sequence[str] = (),
        attacks: Sequence[str] = (),
        users: Sequence[str] = (),
    ) -> Figure:
        """Draw a figure of the run.

        Parameters
        ----------
        kind
            ``"tradeoff"``: adversary error against quality loss. ``"over_time"``: both by query index.
            ``"efficiency"``: their ratio by query index. ``"adaptation"``: efficiency around a shift.
            ``"tournament"``: every LPPM against every attack. ``"home_exposure"``: homes known over days.
            ``"located"``: share of queries located within radii. ``"users"``: loss and error of each user.
            ``"profiles"``: distance of learned from true profiles. ``"map"``: true cells, reports and estimates of one
            user.
        width
            Width in inches, in [2.5, 20], or ``"column"`` or ``"page"`` of a paper (3.5 and 7.16 inches).
        lppms, attacks, users
            Only these. Default: all; of `users` and `map`, the first attack, of `map`, the first user.

        Returns
        -------
        matplotlib.figure.Figure
            Save it with ``figure.savefig("tradeoff.pdf")``.
        """
        from sim.plots.for_print import draw, width_in

        figure = draw(
            self.run, kind, width=width_in(str(width)), lppms=list(lppms), attacks=list(attacks), users=list(users)
        )
        _show_figures_inline()
        return figure

    def report(self, *, rewrite: bool = False) -> str:
        """Return the path, or URL, of the report; write it if it does not exist or on request.

        Parameters
        ----------
        rewrite
            Whether to write the report again even if it exists.

        Returns
        -------
        str
            Location of ``report.html``, one page without external files.
        """
        from sim import report
        from sim.storage.ro_crate import refresh_crate

        file = self.run.file(report.NAME)
        if rewrite or not file.exists():
            report.write(self)
            refresh_crate(self.run)
        return str(file)

    def __repr__(self) -> str:
        """Return the scenario, the size of the run and its directory in one line."""
        scenario = self.manifest.scenario
        sizes = {"LPPM": len(scenario.lppms), "attack": len(scenario.attacks), "sweep point": len(self.points())}
        counted = [f"{number} {unit}{'' if number == 1 else 's'}" for unit, number in sizes.items()]
        return f"<Result of {scenario.name!r}: {', '.join(counted)}, in {self.run}>"

    def _repr_html_(self) -> str:
        """Return the table of quality loss and adversary error with intervals, and where the report is."""
        from sim.api.notebook import result_html

        return result_html(self)


def compare(results: Sequence[analysis.Result], out: str | Path = "compare.html", *, overwrite: bool = False) -> Path:
    """Write one report of several runs, with comparisons paired by user.

    Parameters
    ----------
    results
        Two or more runs.
    out
        HTML file to write.
    overwrite
        Whether to replace an existing file.

    Returns
    -------
    Path
        The file.
    """
    from sim import report
    from sim.storage.atomic import atomic_file

    path = Path(out)
    if len(results) < 2:
        raise InputError(f"compare needs two or more results, got {len(results)}", code="too-few-runs")
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists: choose another name or pass overwrite=True", code="file-exists")
    content = report.page(list(results)).encode()
    with atomic_file(path) as file:
        file.write(content)
    return path


def _show_figures_inline() -> None:
    """Let a notebook display figures that were not made by pyplot."""
    shell = notebook_shell()
    if shell is None:
        return
    from importlib import import_module

    from matplotlib.figure import Figure

    try:
        shell.display_formatter.formatters["image/png"].lookup_by_type(Figure)
    except KeyError:
        import_module("IPython.core.pylabtools").select_figure_formats(shell, {"retina"})
