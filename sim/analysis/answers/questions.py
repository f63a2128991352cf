"""The questions that the answers are about, and the parameters that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.analysis.answers.home_exposure import Night
from sim.analysis.answers.radii import RADII_KM
from sim.analysis.answers.reidentified_places import COUNTS
from sim.errors import InvalidValue
from sim.storage.event_schema import POSTERIOR_WITHIN_KM

LOCATED, POSTERIOR, REPORTS, HOME = "located", "posterior", "reports", "home"
POSTERIOR_WITHIN = "posterior_within"
PLACES, SINGLED_OUT, LINKED = "places", "singled_out", "linked"
NIGHT = Night()
MOST_RADII = 20
MOST_PLACES = 100


@dataclass(frozen=True, slots=True)
class Questions:
    """Radii in km, numbers of places, and the hours of the night."""

    radii_km: tuple[float, ...] = RADII_KM
    counts: tuple[int, ...] = COUNTS
    night: Night = NIGHT

    def __post_init__(self) -> None:
        for radius in self.radii_km:
            if not 0 < radius < float("inf"):
                raise InvalidValue(f"radius must be in (0, inf) km, got {radius}", code="invalid-radius")
        for count in self.counts:
            if not 1 <= count <= MOST_PLACES:
                raise InvalidValue(
                    f"number of places must be in [1, {MOST_PLACES}], got {count}", code="invalid-number-of-places"
                )
        if not self.radii_km or not self.counts or len(self.radii_km) > MOST_RADII:
            raise InvalidValue(
                f"answers need 1 to {MOST_RADII} radii and at least one number of places, got {len(self.radii_km)} and "
                f"{len(self.counts)}",
                code="invalid-radius",
            )

    @classmethod
    def of(cls, radii_km: Sequence[float] = (), counts: Sequence[int] = (), night: Night | None = None) -> Questions:
        """Return questions with distinct sorted values; empty sequences stand for the defaults."""
        radii = tuple(sorted(set(map(float, radii_km)))) or RADII_KM
        return cls(radii, tuple(sorted(set(counts))) or COUNTS, night or NIGHT)


def key(question: str, radius_km: float | None = None, count: int | None = None) -> str:
    """Return the name of a column with the success of an attack.

    >>> key("places", 0.5, 2), key("located", 2.0)
    ('places@0.5@2', 'located@2.0@')
    """
    return f"{question}@{'' if radius_km is None else radius_km}@{'' if count is None else count}"


def paired(questions: Questions, *, posterior: bool) -> list[tuple[str, float | None, int | None]]:
    """Return the questions whose success is a share of each user, paired with that of control attacks.

    Each has a radius and a number of places. `posterior`: whether the posterior was recorded.
    """
    own: list[tuple[str, float | None, int | None]] = [(LOCATED, radius, None) for radius in questions.radii_km]
    if posterior:
        own += [(POSTERIOR, None, None), *((POSTERIOR_WITHIN, radius, None) for radius in recorded_radii(questions))]
    return own + [(PLACES, radius, count) for radius in questions.radii_km for count in questions.counts]


def recorded_radii(questions: Questions) -> list[float]:
    """Return the radii for which the log has the posterior mass."""
    return [radius for radius in questions.radii_km if radius in POSTERIOR_WITHIN_KM]
