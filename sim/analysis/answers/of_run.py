"""Answers about a run: its tables, and notes on what limits them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from sim.analysis.answers.collect import Collected, Series, collect
from sim.analysis.answers.of_user import HABITS, OTHERS
from sim.analysis.answers.places import is_resolved, resolution_km
from sim.analysis.answers.questions import LINKED, Questions
from sim.analysis.answers.radii import radius_text
from sim.analysis.answers.table import answers_table, home_table
from sim.analysis.answers.weeks import MOST_LINKED
from sim.mobility.training.other_user import OtherUserParameters
from sim.scenario.models import Scenario
from sim.scenario.sweep import points
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory
from sim.world import Grid


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers about a run."""

    table: pd.DataFrame
    """One row per question, point, LPPM and attack (`sim.analysis.answers.table.answers_table`)."""
    home_exposure: pd.DataFrame
    """Share of users whose home is known, by day (`sim.analysis.answers.table.home_table`)."""
    notes: tuple[str, ...]
    """Limits of the answers, as sentences."""
    questions: Questions
    homes_note: str = ""
    """Number of users without queries at night, whose home is their most frequent place; empty if there are none."""


def answers(run: RunDirectory, questions: Questions) -> Answers:
    """Read the log of a run and return its answers.

    Raises NotApplicable for a summary, which has no cells.
    """
    collected = collect(run, questions)
    kinds = control_kinds(run.manifest())
    table = answers_table(collected, kinds)
    notes, about_homes = tuple(_notes(collected, table)), _homes_note(collected)
    return Answers(table, home_table(collected, kinds), notes, questions, about_homes)


def control_kinds(manifest: RunManifest) -> dict[Series, str]:
    """Return what the control attack of each series knows: as much as the adversary, without a report."""
    scenario = manifest.scenario
    if any(path.partition(".")[0] in ("attacks", "training") for path in scenario.sweep):
        by_point = {point.index: point.scenario for point in points(scenario)}
    else:
        by_point = {point: scenario for world in manifest.worlds for point in world.points}
    return {
        (point, lppm.name, attack.name): HABITS if _knows_habits(own, attack.name) else OTHERS
        for point, own in by_point.items()
        for lppm in own.lppms
        for attack in own.attacks
    }


def _knows_habits(scenario: Scenario, name: str) -> bool:
    """Return whether an adversary has a belief from the user's own statistics."""
    attack = next(own for own in scenario.attacks if own.name == name)
    training = scenario.training.get(scenario.training_set(attack.training) or "")
    of_another = attack.knows == "training" and isinstance(training, OtherUserParameters)
    return attack.has_prior and scenario.knows_by_name(attack) and not of_another


def _homes_note(collected: Collected) -> str:
    if not collected.timed or not collected.without_nights:
        return ""
    night = collected.questions.night
    return (
        f"Users without a query at night ({night.from_h:g} to {night.until_h:g} h at UTC{night.utc_offset_h:+g}): "
        f"{collected.without_nights:,} of {collected.n_users:,} users. Their home is not known from nights: the place "
        "of most queries at any hour is used instead."
    )


def _notes(collected: Collected, table: pd.DataFrame) -> Iterator[str]:
    resolution = max(map(resolution_km, collected.grids.values()))
    coarse = [radius for radius in collected.questions.radii_km if not is_resolved(radius, resolution)]
    if coarse:
        side = radius_text(float(f"{resolution:.3g}"))
        radii = ", ".join(map(radius_text, coarse))
        if all(isinstance(locations, Grid) for locations in collected.grids.values()):
            yield (
                f"Cells of {side} are coarser than {radii}: "
                "places are centres of cells, so within these radii means in the true cell, or in one whose centre is "
                "within the radius. Simulate a finer grid for these radii."
            )
        else:
            yield (
                f"Locations are {side} apart (median), more than {radii}: within these radii mostly means at the true "
                "location. Simulate more locations for these radii."
            )
    if not collected.timed:
        yield "The visits have an order but no times, so questions about homes and weeks have no answer."
    elif note := _homes_note(collected):
        yield note
    if collected.timed and LINKED not in set(table["question"]):
        yield "Weeks cannot be linked: fewer than two users have reports in a first and in a second week."
    if collected.weeks.is_sample:
        yield f"Weeks are linked within a sample of {MOST_LINKED} users; among more users, linkage is harder."
    if collected.n_users == 1:
        yield "The run has one user: control attacks, unicity and linkage need other users."
