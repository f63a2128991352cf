"""Find the word that somebody meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed word most like this one, or None; case, ``_`` and ``-`` do not count.

    >>> closest("Replicatons", ["replications", "seed"])
    'replications'
    >>> closest("sp_exp", ["SP-LH", "SP-Exp"])
    'SP-Exp'
    >>> closest("eps", ["epsilon_per_km", "remap"])
    'epsilon_per_km'
    >>> closest("horse", ["epsilon_per_km", "remap"]) is None
    True
    """
    by_core: dict[str, str] = {}
    for candidate in allowed:
        by_core.setdefault(_core(candidate), candidate)
    core = _core(word)
    near = difflib.get_close_matches(core, by_core, n=1, cutoff=0.6)
    if near:
        return by_core[near[0]]
    # Names end in units, which people leave out: too far off for difflib.
    begun = [full for full in by_core if len(core) >= 3 and full.startswith(core)]
    return by_core[begun[0]] if len(begun) == 1 else None


def suggestion(word: object, allowed: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)``, or nothing where nothing is near.

    >>> suggestion("sede", ["name", "seed"])
    " (did you mean 'seed'?)"
    """
    meant = closest(word, allowed) if isinstance(word, str) else None
    return "" if meant is None else f" (did you mean {meant!r}?)"


def _core(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "").replace(" ", "")
