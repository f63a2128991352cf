"""Find the word that somebody meant."""

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
"""The paper's symbols and common words, in small letters without ``_`` and ``-``, with the keys they mean."""


def closest(word: str, allowed: Iterable[str], *, cutoff: float = CUTOFF) -> str | None:
    """Return the allowed word that means the same or is most like this one, or None.

    Case, ``_`` and ``-`` do not count. Words less alike than `cutoff`, from 0 to 1, are passed over.

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
    near = difflib.get_close_matches(core, by_core, n=1, cutoff=cutoff)
    if near:
        return by_core[near[0]]
    # Names end in units, which people leave out: too far off for difflib.
    begun = [full for full in by_core if len(core) >= 3 and full.startswith(core)]
    return by_core[begun[0]] if len(begun) == 1 else None


def suggestion(word: object, allowed: Iterable[str], *, cutoff: float = CUTOFF) -> str:
    """Return `` (did you mean 'x'?)``, or nothing where nothing is near.

    >>> suggestion("sede", ["name", "seed"])
    " (did you mean 'seed'?)"
    """
    meant = closest(word, allowed, cutoff=cutoff) if isinstance(word, str) else None
    return "" if meant is None else f" (did you mean {meant!r}?)"


def _core(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "").replace(" ", "")
