"""The pydantic model of a scenario. It holds data only: other modules build worlds and components from it."""

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
from sim.errors import InvalidValue
from sim.interfaces import OutputSpace
from sim.mobility.shifts.parameters import ShiftField
from sim.mobility.statistics import Statistics
from sim.mobility.training.parameters import AnyTraining
from sim.scenario.lppms import LPPMSpec
from sim.scenario.people import UsersSpec
from sim.scenario.record import EXPECTED_CELLS, RecordSpec
from sim.scenario.world import WorldSpec
from sim.world import Locations, World

MOST_POINTS = 10_000

_LEFT_OUT: dict[str, dict[str, Any]] = {
    "lppms": {"learns_from": "reports"},
    "attacks": {"decides": "optimal", "hindsight": None, "assumes": None, "ignores_memory": False},
    "record": {"posterior": False, "epsilon": "none"},
    "world": {"services": {}},
}
"""Values that the canonical form omits, so that scenarios written before these keys existed keep their digest."""


_NOWHERE = Place()


class RepeatUntil(Spec):
    """Repeat each mechanism at each point until its metrics are precise enough, instead of a fixed number of times."""

    until_half_width_km: Positive
    """Target precision in km: stop when the 95 % confidence intervals over replications of the mean quality loss and of
    every mean adversary error (means over the users) have at most this half-width."""
    at_least: Annotated[int, Field(ge=2, le=1_000_000)] = 5
    """Smallest number of replications; confidence intervals from very few replications are unreliable."""
    at_most: Annotated[int, Field(ge=2, le=1_000_000)]
    """Largest number of replications, even if the intervals are still wider; the final message of the run lists such
    cases."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.at_most < self.at_least:
            default = "" if "at_least" in self.model_fields_set else " by default"
            message = f"`at_most` must be at least `at_least`, which is {self.at_least}{default}, found {self.at_most}"
            raise InvalidValue(message, code="out-of-range")
        return self


class Scenario(Spec):
    """One experiment: a world, users who move and query, mechanisms that protect them, adversaries, a sweep."""

    name: Name = "scenario"
    """Scenario name; default: the stem of the file name."""
    description: str = ""
    """Description of the experiment in a sentence; it does not affect the results."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of all random numbers; the same seed gives bit-identical results, whatever the number of workers."""
    replications: Count | RepeatUntil = 3
    """Number of times each simulation is repeated with other random numbers, or a mapping with the precision to reach;
    a simulation whose expected metrics are exact runs once."""
    names: Literal["known", "hidden"] = "known"
    """Identities that the adversaries see: known, the user's name with each report; hidden, a pseudonym, the same for
    all reports of a user."""
    markov_restart: Literal["never", "daily"] = "never"
    """Restart of Markov models: daily, each day begins at the start profile (traces split into days); never, one
    sequence per user (check-ins)."""
    world: WorldSpec = WorldSpec()
    """Cells, roads and distances."""
    users: UsersSpec
    """Test population: the users who are protected and attacked."""
    shifts: list[ShiftField] = []
    """Changes of the users' behaviour during the simulation, applied in this order; default: none."""
    training: dict[Name, AnyTraining] = {}
    """Training sets by name, for mechanisms and for adversaries with `knows: training`; default: none."""
    lppms: Annotated[list[Annotated[LPPMSpec, ShortForm()]], Field(min_length=1)]
    """Mechanisms to compare, each a short name such as PEB-Exp or a mapping."""
    attacks: Annotated[list[AnyAttack], Field(validate_default=True)] = ["sporadic", "markov"]  # type: ignore[list-item]
    """Adversaries, each a short name or a mapping; all observe the same reports. Default: the optimal sporadic and the
    optimal Markov attack, which both know the user's test statistics."""
    sweep: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    """Values to try, by path, such as ``lppms.*.design.epsilon_per_km: [0.5, 1, 2]``; every combination of the values
    of all paths is simulated. A value may be a mapping, such as a ``design`` with a pair of parameters. Default: no
    sweep."""

    record: Annotated[RecordSpec, ShortForm(RecordSpec.short_key)] = RecordSpec()
    """Data to record: ``queries``, ``summary``, or a mapping with further options."""

    @field_validator("sweep")
    @classmethod
    def _few_points(cls, sweep: dict[str, list[Any]]) -> dict[str, list[Any]]:
        if (points := math.prod(map(len, sweep.values()))) > MOST_POINTS:
            message = f"a sweep must have at most {MOST_POINTS:,} combinations of values, found {points:,}"
            raise InvalidValue(message, code="too-many-points")
        return sweep

    _place: Place = PrivateAttr(default_factory=lambda: _NOWHERE)  # pydantic would deep-copy a plain default

    def locate(self, name: str) -> Path:
        """Return the path of a file named in the scenario."""
        return self._place.locate(name)

    def files(self) -> list[str]:
        """Return the names of all input files, as written in the scenario."""
        return sorted(set(files_of(self)))

    def own_components(self) -> list[str]:
        """Return the names ``module:Class`` of all custom components."""
        return sorted({part.kind for part in parts_of(self) if isinstance(part, Custom)})

    def at(self, folder: Path, data: Path | None = None, code: CodeAccess | None = None) -> Self:
        """Set the folder that file names are relative to, the data folder, and the access to custom components."""
        self._place = Place(folder, data, code or CodeAccess(beside=folder))
        self.allow_code_in(self)
        return self

    def beside(self, other: Scenario) -> Self:
        """Use the folders of another scenario, whose access the custom components already have."""
        self._place = other.place
        return self

    def allow_code_in(self, *models: BaseModel) -> None:
        """Grant the scenario's access to the custom components in models, such as parts of this scenario."""
        for part in (part for model in models for part in parts_of(model)):
            if isinstance(part, Custom):
                part.allow(self._place.code)

    def build_world(self) -> World:
        """Return a new world with the grid, roads and distances of this scenario."""
        return self.world.build(self.seed, self._place)

    def attack_context(
        self,
        world: World,
        known: Mapping[str, Statistics],
        in_force: Mapping[str, Sequence[tuple[int, Statistics]]] | None = None,
        space: OutputSpace | None = None,
    ) -> AttackContext:
        """Return the context that the attacks of this scenario are built with.

        `known` and `in_force` map users to the statistics that adversaries have of them, over all queries and from
        query numbers on.
        """
        return AttackContext(
            world=world,
            known=known,
            in_force=in_force or {},
            space=space,
            restart_s=self.restart_s,
            expected=self.records_expected,
            posterior=self.record.posterior,
        )

    @property
    def place(self) -> Place:
        """Folders of input files and access to custom components."""
        return self._place

    @property
    def restart_s(self) -> int | None:
        """Interval in seconds after which Markov models restart, or None."""
        return 86_400 if self.markov_restart == "daily" else None

    def training_set(self, name: str | None) -> str | None:
        """Return the name of a training set; None stands for the first one, if there is one."""
        return name if name is not None else next(iter(self.training), None)

    def training_sets_used(self) -> set[str]:
        """Return the names of the training sets that mechanisms and adversaries have, with the parts of combined ones.

        A combined training set has parts that are not combined.
        """
        known = [lppm.training for lppm in self.lppms]
        known += [attack.training for attack in self.attacks if attack.knows == "training"]
        names = {name for name in map(self.training_set, known) if name is not None}
        return names | {part for name in names for part in self.training[name].parts}

    def knows_by_name(self, attack: AttackParameters) -> bool:
        """Return whether an adversary has statistics per user, which they must look up by the user's name."""
        if attack.knows != "training":
            return True
        name = self.training_set(attack.training)
        return name is not None and self.training[name].by_user

    def attacks_on(self, lppm: LPPMSpec, *, has_secret: bool = False) -> list[AttackParameters]:
        """Return the attacks that apply to an LPPM.

        These are all, but for the full type those that need no channel, and with a secret those that can treat it.
        Shipped designs declare a secret; `has_secret` is true for custom components that have one once they are built
        (`sim.execution.secrets`).
        """
        secret = lppm.has_memory or has_secret
        return [
            attack
            for attack in self.attacks
            if not (lppm.full and attack.needs_channel) and not (secret and attack.memory == "unsupported")
        ]

    @property
    def n_cells(self) -> int:
        """Number of locations of the world."""
        return self.world.n_cells(self.seed, self.place)

    def build_locations(self) -> Locations:
        """Return the locations of the world."""
        return self.world.build_locations(self.seed, self.place)

    @property
    def records_expected(self) -> bool:
        """Return whether expected metrics are recorded: not on grids with more than `EXPECTED_CELLS` cells."""
        return self.record.expected and self.n_cells <= EXPECTED_CELLS

    @property
    def everybody_needed_by(self) -> str:
        """The parts of the scenario that need all users in one simulation, without blocks of users; or empty.

        Hidden names need everybody, because the order of pseudonyms determines that of simultaneous reports.
        """
        if self.names == "hidden":
            return "`names: hidden`"
        attacks = [attack.name for attack in self.attacks if attack.needs_everybody]
        return f"attack{'s' if len(attacks) > 1 else ''} {', '.join(attacks)}" if attacks else ""

    def is_exact(self, lppm: LPPMSpec) -> bool:
        """Return whether the expected metrics of an LPPM are equal in every replication, so that one is enough.

        This holds if the users move identically in every replication and do not shift, the channel never changes and
        its outputs can be enumerated, and every estimate depends on the current report only. One attack that filters
        past reports makes the LPPM repeat with all of its attacks; the additional cost of the memoryless ones is a
        table lookup. Custom components are assumed to vary.
        """
        trained = [part for training in self.training.values() for part in parts_of(training)]
        return (
            self.records_expected
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
        """Return the scenario as JSON with all defaults: equal texts mean equal experiments.

        Keys are sorted, so components name their training set even if it is the default, the first one. Short names
        are omitted in favour of their expansion, and the size of cells in favour of their numbers. Unused options are
        omitted too: the summary window with a log of queries, an empty list of shifts, and optional data that are not
        recorded.
        """
        data = self.model_dump(mode="json", include=None if only is None else set(only))
        if "world" in data:
            data["world"] |= self.world.canonical_locations()
            del data["world"]["locations" if self.world.locations is None else "grid"]
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
            items = data.get(part, [])
            for item in items if isinstance(items, list) else [items]:
                for name in [name for name, default in defaults.items() if name in item and item[name] == default]:
                    del item[name]
        return json.dumps(data, sort_keys=True)

    @property
    def digest(self) -> str:
        """SHA-256 digest of the canonical form without name and description: it identifies the experiment."""
        hashed = frozenset(type(self).model_fields) - {"name", "description"}
        return hashlib.sha256(self.canonical(only=hashed).encode()).hexdigest()
