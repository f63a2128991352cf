"""Lists of components and of their parameters, as frames."""

from __future__ import annotations

import pandas as pd

from sim.components.registry import CUSTOM, FAMILIES, registry
from sim.components.suggestions import suggestion
from sim.errors import InputError
from sim.scenario.lppms import short_names
from sim.scenario.reference import group_of, keys, listing, source_of


def list_components(family: str | None = None) -> pd.DataFrame:
    """Return all components, shipped and installed, as `lppm-sim list` prints them.

    Parameters
    ----------
    family
        Only this family, such as ``"design"``, ``"belief"``, ``"lppm"`` or ``"attack"``. Default: all.

    Returns
    -------
    DataFrame
        Columns ``family``, ``kind``, ``place`` (in a scenario), ``description``, ``group`` (such as ``"phones and
        apps"``, or empty) and ``source`` (of designs in a group).

    Examples
    --------
    >>> import sim
    >>> "PEB-Exp" in sim.list_components("lppm")["kind"].to_list()
    True
    """
    families = listing()
    if family is not None and family not in families:
        raise InputError(
            f"family must be one of {', '.join(families)}, got {family!r}{suggestion(family, families)}",
            code="unknown-family",
        )
    rows = [
        (name, kind, place, description, group_of(name, kind), source_of(name, kind))
        for name, (place, kinds) in families.items()
        if family in (None, name)
        for kind, description in kinds.items()
        if kind != CUSTOM
    ]
    return pd.DataFrame(rows, columns=["family", "kind", "place", "description", "group", "source"])


def list_parameters(kind: str, *, family: str | None = None) -> pd.DataFrame:
    """Return the parameters of a component.

    Parameters
    ----------
    kind
        Kind or short name, such as ``"exponential"``, ``"estimated_profile"`` or ``"PEB-Exp"``. For the
        short name of an LPPM, the parameters of its belief and of its design are returned.
    family
        Family of the component; needed only if several families have a component of this kind.

    Returns
    -------
    DataFrame
        Columns ``family``, ``parameter``, ``allowed``, ``default`` and ``meaning``.

    Examples
    --------
    >>> import sim
    >>> parameters = sim.list_parameters("PEB-Exp")
    >>> parameters.set_index("parameter").loc["epsilon_per_km", "family"]
    'design'
    """
    models = [(name, registry.kinds(name)[kind]) for name in FAMILIES if kind in registry.kinds(name)]
    if kind in short_names():
        parts = short_names()[kind]
        models += [(part, registry.kinds(part)[parts[part]["kind"]]) for part in ("belief", "design")]
    chosen = [(name, model) for name, model in models if family in (None, name)]
    if not chosen:
        known = list_components(family)["kind"].to_list()
        raise InputError(f"no component is called {kind!r}{suggestion(kind, known)}", code="unknown-kind")
    rows = [(name, key.name, key.allowed, key.default, key.meaning) for name, model in chosen for key in keys(model)]
    return pd.DataFrame(rows, columns=["family", "parameter", "allowed", "default", "meaning"])
