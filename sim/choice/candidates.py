"""Mechanisms to choose from, by short name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from sim.errors import InputError, InvalidValue
from sim.lppm.designs.coin import CoinParameters
from sim.lppm.designs.optimal_privacy import OptimalPrivacyParameters
from sim.lppm.designs.optimal_quality import OptimalQualityParameters
from sim.lppm.parameters import DesignParameters, WorldSize
from sim.scenario.lppms import RECOMMENDED, LPPMSpec, short_names
from sim.scenario.models import Scenario

DEFAULT = (RECOMMENDED, "PEB-Exp", "PEB-LH", "SP-Exp", "MK-Exp", "PL", "Snap")
"""Candidates by default: learning, hardwired and memoryless mechanisms of different designs."""
_OTHER_NAMES = {"laplace": "PL", "exponential": "Exp"}
_LP_CELLS = 60
"""Largest number of cells for which mechanisms that solve linear programs are suitable."""


def names_of(given: Sequence[str]) -> list[str]:
    """Return the short names of the given candidates, `DEFAULT` without any; `all` stands for every suitable one.

    >>> names_of(["laplace", "peb-exp"])
    ['PL', 'PEB-Exp']
    """
    if not given:
        return list(DEFAULT)
    known = {name.lower(): name for name in short_names()} | _OTHER_NAMES
    names: list[str] = []
    for text in given:
        if text.lower() == "all":
            names += list(short_names())
        elif text.lower() in known:
            names.append(known[text.lower()])
        else:
            near = difflib.get_close_matches(text.lower(), known, n=1)
            suggestion = f" (did you mean {known[near[0]]!r}?)" if near else ""
            raise InputError(
                f"--lppm: unknown mechanism {text!r}{suggestion}; `lppm-sim list lppm` lists the short names",
                code="unknown-lppm",
            )
    return list(dict.fromkeys(names))


def suitable(names: Sequence[str], scenario: Scenario, *, all_of_them: bool) -> tuple[list[str], list[str]]:
    """Return the candidates that can be calibrated in a world, and a remark on each of the others.

    With `all_of_them`, mechanisms that are slow or misleading are left out too.
    """
    world = scenario.world
    size = WorldSize(n_cells=scenario.n_cells, quality=world.quality_distance.kind, privacy=world.privacy_distance.kind)
    good, remarks = [], []
    for name in names:
        spec = LPPMSpec.model_validate({"kind": name})
        reason = _unsuitable(spec, size) or (_unrecommended(spec.design, size) if all_of_them else "")
        if reason:
            remarks.append(f"{name} is left out: {reason}")
        else:
            good.append(name)
    if not good:
        raise InputError(f"no candidate is suitable: {'; '.join(remarks)}", code="no-candidate")
    return good, remarks


def _unsuitable(spec: LPPMSpec, size: WorldSize) -> str:
    if spec.design.strength_range is None:
        return "its design has no strength to calibrate"
    if spec.full or spec.learns_from != "reports":
        return "it learns from true cells, so no attack against it is optimal"
    try:
        spec.design.require_feasible(size)
    except InvalidValue as error:
        return str(error)
    return ""


def _unrecommended(design: DesignParameters, size: WorldSize) -> str:
    if isinstance(design, CoinParameters):
        return "a coin has a high average error but hides nothing when it reveals; name it to include it"
    slow: tuple[type[Any], ...] = (OptimalPrivacyParameters, OptimalQualityParameters)
    if isinstance(design, slow) and size.n_cells > _LP_CELLS:
        return f"linear programs on more than {_LP_CELLS} cells are slow; name it to include it"
    return ""
