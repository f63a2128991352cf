"""The scenario as a whole, as a pydantic model. Pure data: nothing is built here."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, PrivateAttr, field_validator, model_validator

from sim.attack.bayesian import AnyAttack, BayesianParameters
from sim.attack.identification import IdentificationParameters
from sim.attack.parameters import AttackContext, AttackParameters
from sim.components.custom import Custom
from sim.components.files import Place, files_of, parts_of
from sim.components.permission import CodeAccess
from sim.components.registry import ShortForm
from sim.components.spec import Count, Name, Positive, Spec
from sim.interfaces import OutputSpace
from sim.mobility.shifts.parameters import ShiftField
from sim.mobility.statistics import Statistics
from sim.mobility.training.parameters import AnyTraining
from sim.scenario.lppms import LPPMSpec
from sim.scenario.people import UsersSpec
from sim.scenario.record import RecordSpec
from sim.scenario.world import WorldSpec
from sim.world import World

MOST_POINTS = 10_000

_LEFT_OUT: dict[str, dict[str, Any]] = {
    "lppms": {"learns_from": "reports"},
    "attacks": {"decides": "optimal", "hindsight": None, "assumes": None},
    "record": {"posterior": False, "epsilon": "none"},
}
"""What is not written out in a scenario's canonical form where it is so."""


_NOWHERE = Place()


class RepeatUntil(Spec):
    """Repeat each mechanism at each point until its figures are sharp, instead of a fixed number of times."""

    until_half_width_km: Positive
    """Until Q-bar and every P_AE, means over the users, are within ± this: 95 % intervals over replications."""
    at_least: Annotated[int, Field(ge=2, le=1_000_000)] = 5
    """Not fewer replications than this: an interval from very few of them is not to be trusted."""
    at_most: Annotated[int, Field(ge=2, le=1_000_000)]
    """Not more than this, however wide the intervals still are; the end of the run tells which."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.at_most < self.at_least:
            unless = "" if "at_least" in self.model_fields_set else " unless said"
            raise ValueError(
                f"`at_most` must not be below `at_least`, which is {self.at_least}{unless}, found {self.at_most}"
            )
        return self


class Scenario(Spec):
    """One experiment: a world, users who move and query, mechanisms that protect them, adversaries, a sweep."""

    name: Name = "scenario"
    """How it is called; as its file unless said."""
    description: str = ""
    """What it shows, in a sentence."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Same seed, same results, to the bit."""
    replications: Count | RepeatUntil = 3
    """How often each simulation is repeated with new randomness, or until when. One with exact figures is run once."""
    names: Literal["known", "hidden"] = "known"
    """Whether adversaries see whose a report is, or a pseudonym that stays the same."""
    markov_restart: Literal["never", "daily"] = "never"
    """Whether Markov models start anew each day: daily for traces cut into days, never for check-ins."""
    world: WorldSpec = WorldSpec()
    """Where everything happens."""
    users: UsersSpec
    """The test population."""
    shifts: list[ShiftField] = []
    """Changes in their lives, applied in this order."""
    training: dict[Name, AnyTraining] = {}
    """Named training sets for mechanisms and weaker adversaries."""
    lppms: Annotated[list[Annotated[LPPMSpec, ShortForm()]], Field(min_length=1)]
    """The mechanisms to compare, each by a short name or as a mapping."""
    attacks: Annotated[list[AnyAttack], Field(validate_default=True)] = ["sporadic", "markov"]  # type: ignore[list-item]
    """The optimal sporadic and the optimal Markov attack, both with the test statistics, unless said."""
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """Values to try, by path, such as ``lppms.*.design.epsilon_per_km: [0.5, 1, 2]``; several paths multiply."""

    record: Annotated[RecordSpec, ShortForm(RecordSpec.short_key)] = RecordSpec()
    """What is kept of a run: the log alone, ``summary``, or a mapping."""

    @field_validator("sweep")
    @classmethod
    def _few_points(cls, sweep: dict[str, list[Any]]) -> dict[str, list[Any]]:
        if (points := math.prod(map(len, sweep.values()))) > MOST_POINTS:
            raise ValueError(f"a sweep must have at most {MOST_POINTS:,} combinations of values, found {points:,}")
        return sweep

    _place: Place = PrivateAttr(default_factory=lambda: _NOWHERE)  # a default would be copied deeply for each

    def locate(self, name: str) -> Path:
        """Return where a file that the scenario names is to be found."""
        return self._place.locate(name)

    def files(self) -> list[str]:
        """Return the names of all files that the scenario reads."""
        return sorted(set(files_of(self)))

    def own_components(self) -> list[str]:
        """Return every ``module:Class`` that the scenario names."""
        return sorted({part.kind for part in parts_of(self) if isinstance(part, Custom)})

    def at(self, folder: Path, data: Path | None = None, code: CodeAccess | None = None) -> Self:
        """Set the folder that file names are relative to, the data folder, and the access to custom components."""
        self._place = Place(folder, data, code or CodeAccess(beside=folder))
        self.allow_code_in(self)
        return self

    def beside(self, other: Scenario) -> Self:
        """Take the place of another scenario, from which the custom components here have their access already."""
        self._place = other.place
        return self

    def allow_code_in(self, *models: BaseModel) -> None:
        """Give the custom components of models, such as parts of this scenario, its access."""
        for part in (part for model in models for part in parts_of(model)):
            if isinstance(part, Custom):
                part.allow(self._place.code)

    def build_world(self) -> World:
        """Return the world."""
        return self.world.build(self.seed, self._place)

    def attack_context(
        self,
        world: World,
        known: Mapping[str, Statistics],
        in_force: Mapping[str, Sequence[tuple[int, Statistics]]] | None = None,
        space: OutputSpace | None = None,
    ) -> AttackContext:
        """Return what an attack of this scenario is built from."""
        return AttackContext(
            world=world,
            known=known,
            in_force=in_force or {},
            space=space,
            restart_s=self.restart_s,
            expected=self.record.expected,
            posterior=self.record.posterior,
        )

    @property
    def place(self) -> Place:
        """Where files and custom components are found."""
        return self._place

    @property
    def restart_s(self) -> int | None:
        """The length after which Markov models start anew, in seconds."""
        return 86_400 if self.markov_restart == "daily" else None

    def training_set(self, said: str | None) -> str | None:
        """Return the name of the training set that is meant: the one said, else the first, if there is any."""
        return said if said is not None else next(iter(self.training), None)

    def knows_by_name(self, attack: AttackParameters) -> bool:
        """Whether an adversary knows something else of each user, which she has to look up by name."""
        if attack.knows != "training":
            return True
        name = self.training_set(attack.training)
        return name is not None and self.training[name].by_user

    def attacks_on(self, lppm: LPPMSpec) -> list[AttackParameters]:
        """Return the attacks that can be computed against an LPPM: of the full type, those that need no channel."""
        return [attack for attack in self.attacks if not (lppm.full and attack.needs_channel)]

    def is_exact(self, lppm: LPPMSpec) -> bool:
        """Whether the expected figures of an LPPM are the same in every replication: then one is enough.

        So it is where people move alike each time and nothing shifts, the channel never changes and its outputs can be
        listed, and every estimate follows from the current report alone. One attack that filters the past makes the
        LPPM repeat with all of its attacks: beside that one, those with a fixed profile cost a look into a table. One's
        own components may do anything.
        """
        trained = [part for training in self.training.values() for part in parts_of(training)]
        return (
            self.record.expected
            and self.users.same_each_time
            and not self.shifts
            and not any(isinstance(part, Custom) for part in trained)
            and lppm.is_memoryless
            and not lppm.design.countless
            and all(attack.is_memoryless for attack in self.attacks)
        )

    def with_settings(self, settings: Mapping[str, Any]) -> Scenario:
        """Return the scenario with some values changed, validated like a file.

        >>> scenario = Scenario.model_validate({"users": {"mobility": "favourites", "queries": 9}, "lppms": ["SP-Exp"]})
        >>> scenario.with_settings({"replications": 10, "lppms.*.design.epsilon_per_km": 2.0}).replications
        10
        """
        from sim.scenario.rewriting import with_settings

        return with_settings(self, settings)

    def to_yaml(self) -> str:
        """Return the scenario as the text of a scenario file, without defaults.

        File names are relative to the folder that the scenario was loaded from.
        """
        from sim.scenario.rewriting import to_yaml

        return to_yaml(self)

    def __repr__(self) -> str:
        from sim.scenario.rewriting import one_line_summary

        return one_line_summary(self)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from sim.scenario.rewriting import to_html

        return to_html(self)

    def canonical(self, *, only: frozenset[str] | None = None) -> str:
        """Return the scenario as JSON with every default written out: equal texts mean equal experiments.

        The order of keys does not matter, so which training set is the first is written out as well. A short name
        is left out beside what it stands for, as are the keys of a summary where each query is recorded, shifts where
        there are none, and what is not recorded.
        """
        data = self.model_dump(mode="json", include=None if only is None else set(only))
        for part in {"lppms", "attacks"} & data.keys():
            for spec, item in zip(vars(self)[part], data[part], strict=True):
                if isinstance(spec, LPPMSpec | BayesianParameters):
                    del item["kind"]
                if isinstance(spec, IdentificationParameters):
                    item["kind"] = "identification"
                if isinstance(spec, LPPMSpec) or spec.knows == "training":
                    item["training"] = self.training_set(spec.training)
        for name in self.record.unused() if "record" in data else ():
            del data["record"][name]
        if not data.get("shifts", True):
            del data["shifts"]
        if data.get("names") == "known":
            del data["names"]
        for part, defaults in _LEFT_OUT.items():
            said = data.get(part, [])
            for item in said if isinstance(said, list) else [said]:
                for name in [name for name, default in defaults.items() if name in item and item[name] == default]:
                    del item[name]
        return json.dumps(data, sort_keys=True)

    @property
    def digest(self) -> str:
        """A fingerprint of what the scenario asks for, whatever it is called and however it is described."""
        asked = frozenset(type(self).model_fields) - {"name", "description"}
        return hashlib.sha256(self.canonical(only=asked).encode()).hexdigest()
