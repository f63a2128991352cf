"""Where people go and when they query: replayed, drawn, or lived on the road graph.

The replay, which needs pandas, is imported when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.mobility.demand import EveryVisit, Periodic, Poisson
from sim.mobility.synthetic.favourites import Favourites
from sim.mobility.synthetic.lives import Commuters, Taxis
from sim.mobility.synthetic.markov import MarkovChain
from sim.mobility.traces import Life, Trace, live
from sim.mobility.training import Statistics, statistics

if TYPE_CHECKING:
    from sim.mobility.recorded.replay import Replay, Selection, write_csv

__all__ = [
    "Commuters",
    "EveryVisit",
    "Favourites",
    "Life",
    "MarkovChain",
    "Periodic",
    "Poisson",
    "Replay",
    "Selection",
    "Statistics",
    "Taxis",
    "Trace",
    "live",
    "statistics",
    "write_csv",
]


def __getattr__(name: str) -> Any:
    if name in {"Replay", "Selection", "write_csv"}:
        from sim.mobility.recorded import replay

        return getattr(replay, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
