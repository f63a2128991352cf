"""Suggestions for misspelt names: the allowed word that is most similar."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

CUTOFF = 0.6

SYNONYMS = {
    "alpha": "reveal_probability",
    "epsilon": "epsilon_per_km",
    "eps": "epsilon_per_km",
    "gamma": "fading",
    "budget": "quality_budget_km",
    "qmax": "quality_budget_km",
    "seeds": "seed",
    "repetitions": "replications",
    "repeats": "replications",
    "reps": "replications",
    "adversaries": "attacks",
    "mechanisms": "lppms",
    "population": "users",
}
"""Keys by symbols of the paper and common synonyms, in lower case without ``_`` and ``-``."""


def closest(word: str, allowed: Iterable[str], *, cutoff: float = CUTOFF) -> str | None:
    """Return the allowed word that is a synonym of this one or most similar to it, or None.

    Case, ``_`` and ``-`` are ignored. Words with a similarity below `cutoff`, in [0, 1], are not considered.

    >>> closest("Replicatons", ["replications", "seed"])
    'replications'
    >>> closest("sp_exp", ["SP-LH", "SP-Exp"])
    'SP-Exp'
    >>> closest("eps", ["epsilon_per_km", "remap"])
    'epsilon_per_km'
    >>> closest("alpha", ["kind", "reveal_probability"])
    'reveal_probability'
    >>> closest("horse", ["epsilon_per_km", "remap"]) is None
    True
    """
    by_core: dict[str, str] = {}
    for candidate in allowed:
        by_core.setdefault(_core(candidate), candidate)
    core = _core(word)
    if core in SYNONYMS and core not in by_core and _core(SYNONYMS[core]) in by_core:
        return by_core[_core(SYNONYMS[core])]
    similar = difflib.get_close_matches(core, by_core, n=1, cutoff=cutoff)
    if similar:
        return by_core[similar[0]]
    # Keys end in units, which users often omit; difflib does not match these.
    extended = [full for full in by_core if len(core) >= 3 and full.startswith(core)]
    return by_core[extended[0]] if len(extended) == 1 else None


def suggestion(word: object, allowed: Iterable[str], *, cutoff: float = CUTOFF) -> str:
    """Return `` (did you mean 'x'?)``, or an empty string if no allowed word is similar.

    >>> suggestion("sede", ["name", "seed"])
    " (did you mean 'seed'?)"
    """
    match = closest(word, allowed, cutoff=cutoff) if isinstance(word, str) else None
    return "" if match is None else f" (did you mean {match!r}?)"


def _core(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "").replace(" ", "")
