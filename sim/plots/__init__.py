"""Figures of a run, in one style for screen and print.

Figures are matplotlib `Figure` objects without a window or global state. Names from scenarios or data are shown
literally; markup in them is not interpreted.
"""

from sim.analysis.time_series import middle_points
from sim.plots.adaptation import adaptation_figure
from sim.plots.answers import home_exposure_figure, located_figure
from sim.plots.marks import MOST_ROWS
from sim.plots.of_run import write_adaptation, write_answer_figures, write_figures
from sim.plots.over_time import over_time_figure
from sim.plots.style import (
    COLOURS,
    DIAGONAL,
    EFFICIENCY_LABEL,
    ERROR_LABEL,
    INK,
    LINES,
    MARKERS,
    QUALITY_LABEL,
    STYLE,
    Look,
    looks,
    pictures,
    save,
)
from sim.plots.tradeoff import tradeoff_figure

__all__ = [
    "COLOURS",
    "DIAGONAL",
    "EFFICIENCY_LABEL",
    "ERROR_LABEL",
    "INK",
    "LINES",
    "MARKERS",
    "MOST_ROWS",
    "QUALITY_LABEL",
    "STYLE",
    "Look",
    "adaptation_figure",
    "home_exposure_figure",
    "located_figure",
    "looks",
    "middle_points",
    "over_time_figure",
    "pictures",
    "save",
    "tradeoff_figure",
    "write_adaptation",
    "write_answer_figures",
    "write_figures",
]
