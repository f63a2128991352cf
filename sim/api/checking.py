"""Contract checks of components, also of classes defined in a notebook."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sim.checks import check, check_made, family_of
from sim.checks.bench import Bench


def check_component(component: str | type[Any], *, family: str | None = None, **parameters: Any) -> pd.DataFrame:
    """Apply the contract checks of its family to a component, in a small world of 3 x 4 cells.

    Parameters
    ----------
    component
        Custom class, or a kind, or ``module:Class``, whose code is then run.
    family
        ``"mobility"``, ``"demand"``, ``"belief"``, ``"design"`` or ``"attack"``. Default: by the methods of the class.
    **parameters
        Parameters of the component, as in a scenario file.

    Returns
    -------
    DataFrame
        A row per check: ``check``, ``passed`` and ``problem`` (empty if passed).

    Examples
    --------
    >>> import sim
    >>> bool(sim.check_component("exponential", epsilon_per_km=1.0)["passed"].all())
    True
    """
    if isinstance(component, str):
        results = check(component, family=family, parameters=parameters)
    else:
        bench = Bench()
        chosen = family or family_of(component, component.__qualname__)
        arguments = bench.given(chosen) | parameters
        results = check_made(chosen, lambda: component(**arguments), bench)
    rows = [(result.check, result.problem is None, result.problem or "") for result in results]
    return pd.DataFrame(rows, columns=["check", "passed", "problem"])
