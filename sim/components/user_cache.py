"""The user's cache folder, which the environment variable LPPM_SIM_CACHE replaces or disables (`off`)."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "LPPM_SIM_CACHE"


def cache_folder(name: str) -> Path | None:
    """Return the folder of a cache; None if caches are disabled or the user has no home folder.

    LPPM_SIM_CACHE names one folder for all caches.
    """
    if setting := os.environ.get(VARIABLE, ""):
        return None if setting == "off" else Path(setting)
    from platformdirs import user_cache_path  # slow to import

    try:
        return user_cache_path("lppm-sim", appauthor=False) / name
    except RuntimeError:  # the user has no home folder
        return None
