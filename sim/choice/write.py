"""Write a choice: the scenario that reproduces it, the numbers as JSON, and a page."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

from sim.choice.chart import STYLE, chart
from sim.choice.choose import Choice, scenario_text
from sim.choice.ranking import sentences
from sim.choice.table import ranking_table
from sim.report.markup import Markup, bulleted, joined, tag, typeset
from sim.report.static_page import shown_text, static_page
from sim.report.tables import html_table
from sim.storage.atomic import atomic_file

SCENARIO, NUMBERS, PAGE = "scenario.yaml", "choice.json", "choice.html"


def write_choice(choice: Choice) -> None:
    """Write `scenario.yaml`, `choice.json` and `choice.html` into the folder of a choice."""
    for name, text in (
        (SCENARIO, scenario_text(choice)),
        (NUMBERS, json.dumps(described(choice), indent=2, allow_nan=False) + "\n"),
        (PAGE, page(choice)),
    ):
        with atomic_file(choice.folder / name) as file:
            file.write(text.encode())


def described(choice: Choice) -> dict[str, object]:
    """Return the choice as plain data."""
    request, ranking = choice.request, choice.ranking
    return {
        "lppm_sim": importlib.metadata.version("lppm-sim"),
        "goal": {
            "kind": request.kind,
            "target": request.target,
            "at": request.at,
            **({"within_km": request.within_km, "share": request.share} if request.kind == "hide-home" else {}),
        },
        "choice": ranking.best.name,
        "runner_up": ranking.candidates[1].name if len(ranking.candidates) > 1 else None,
        "not_distinguishable": ranking.ties,
        "users": ranking.users,
        "candidates": ranking.described(),
        "warnings": list(choice.warnings),
        "remarks": list(choice.remarks),
        "digest": choice.result.manifest.digest,
    }


def page(choice: Choice) -> str:
    """Return the page of a choice."""
    request, ranking = choice.request, choice.ranking
    warnings = bulleted([f"Warning: {text}" for text in choice.warnings], "notes")
    conclusion = tag("div", *(tag("p", typeset(line)) for line in sentences(ranking, request)), class_="sentences")
    ours = scenario_text(choice, [ranking.best.name])
    own = Path("run") / "report.html"
    links = [tag("a", "scenario.yaml", href=SCENARIO), ", ", tag("a", "choice.json", href=NUMBERS)]
    links += [", ", tag("a", "report of the run", href=own.as_posix())] if (choice.folder / own).exists() else []
    return static_page(
        f"Choice: {ranking.best.name}",
        f"Goal: {request.words}.",
        [
            ("Result", joined([warnings, conclusion, chart(ranking), html_table(ranking_table(ranking, request))])),
            ("Conditions", bulleted(choice.remarks or ["no remarks"], "notes")),
            (
                "Reproduce",
                joined(
                    [
                        tag("p", "Files: ", *links, ". ", tag("code", "lppm-sim run scenario.yaml"), " repeats all."),
                        tag("p", "The chosen mechanism alone, with these users and attacks:"),
                        shown_text(ours),
                    ]
                ),
            ),
            ("Limits", _limits()),
        ],
        style=STYLE,
    )


def _limits() -> Markup:
    return bulleted(
        [
            "The attacks know the mechanism and are optimal for their model of movement; other knowledge may help them "
            "more.",
            "The result holds for these users; other users lose more or less, and are protected more or less.",
            "An average error can hide reports of the true place: mechanisms with a high reveal_probability often send "
            "it. With record.posterior: true, the run shows the adversary's entropy.",
            "The strongest attack is the one with the smallest error in these simulations.",
        ],
        "notes",
    )
