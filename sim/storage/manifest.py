"""The manifest of a run: its scenario, the versions and files it was made with, and its progress.

`sim.storage.manifest_file` reads and writes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from sim.scenario.lppms import short_names
from sim.scenario.models import Scenario
from sim.scenario.reading.source import Source
from sim.scenario.reading.validation import validate
from sim.storage.errors import RunError
from sim.world import Locations, restore

FREE_KEYS = ("name", "description", "replications")
"""Keys of a scenario that do not affect the content of a part."""

_JSON_NAMES = {
    "dict": "an object",
    "model": "an object",
    "list": "a list",
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}


class DamagedManifest(ValueError):
    """A manifest that cannot be used; the message is the reason."""


class _Entry(BaseModel):
    """A typed part of the manifest; keys that later versions add are preserved."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", use_attribute_docstrings=True)


class RecordedWorld(_Entry):
    """A world and its sweep points."""

    points: list[int]
    grid: dict[str, Any] | None = None
    """Arguments of `sim.world.grid.Grid`; None for other locations."""
    locations: dict[str, Any] | None = None
    """Locations other than the cells of a grid, as `Locations.describe` returns them; None for a grid."""
    roads: dict[str, Any] | None = None
    """Counts, nodes and edges of the road graph, as `Roads.describe` returns them."""
    traces: dict[str, dict[str, Any]]
    """Counts of the rows and users read from each trace file, by its place in the scenario."""

    def restore_locations(self) -> Locations:
        """Return the locations of the world."""
        return restore(self.grid or self.locations or {})


class Repetition(_Entry):
    """The number of replications of an LPPM at a sweep point."""

    point: int
    lppm: str
    replications: int
    exact: bool
    """Whether the expected metrics are the same in every replication."""
    until_half_width_km: float | None = None
    half_widths_km: dict[str, float] = {}
    """Half-widths of the confidence intervals reached, by metric."""


class Note(_Entry):
    """Occurrences counted during the simulation of an LPPM at a sweep point."""

    point: int
    lppm: str
    lppm_fallbacks: int = 0
    """Reports without mass under the mechanism's belief."""
    attack_fallbacks: dict[str, int] = {}
    """Reports without mass under each attack's belief."""
    attack_dropped: dict[str, float] = {}
    """Probability of the states of the mechanism's secret that each attack dropped, the largest mean over reports and
    users of a simulation."""
    lppm_alarms: int = 0
    """Changes of behaviour that the mechanism detected in its released reports."""
    worst_gap: float | None = None
    """Largest certified gap of an estimated profile."""


class ExceededBudget(_Entry):
    """A quality budget that an LPPM exceeded at a sweep point."""

    point: int
    lppm: str
    asked_km: float
    realised_km: float
    low_km: float | None = None
    high_km: float | None = None
    """95 % confidence interval of the loss over users; None if it is unknown."""
    at: str = ""
    """The swept values of the point, in words."""


class Calibration(_Entry):
    """The strength of an LPPM at a sweep point that simulations found for a realised budget."""

    point: int
    lppm: str
    asked_km: float
    """The budget."""
    at: float | None
    """Share of the users whose mean loss may not exceed the budget; None: the mean over the users meets it."""
    parameter: str
    strength: float
    loss_km: float
    """Loss reached in the simulations of the search, with its 95 % confidence interval."""
    loss_km_low: float
    loss_km_high: float
    outcome: str
    """reached; nearest, for whole numbers and jumps; unreachable, if the largest possible loss is below the budget."""
    strengths_tried: int
    replications: int
    """Number of replications simulated for each strength."""
    users: int
    of_users: int
    """Number of users simulated for each strength, and of all users."""


class _ScenarioKeys(_Entry):
    """The keys that every recorded scenario has."""

    name: str
    lppms: list[dict[str, Any]]
    attacks: list[dict[str, Any]]
    record: dict[str, Any]
    replications: int | dict[str, Any]
    world: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Inputs that determine the content of a run's parts; runs with different identities never share a directory."""

    schema_version: int
    scenario: Mapping[str, Any]
    files: Mapping[str, str]
    kernels: str
    lppm_sim: str | None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Return the identity of a manifest's content, of this or another schema version."""
        return cls(
            schema_version=content["schema_version"],
            scenario=content.get("scenario") or {},
            files=content.get("files") or {},
            kernels=content.get("kernels", "plain"),
            lppm_sim=content.get("lppm_sim"),
        )

    @property
    def digest(self) -> str:
        """Digest of the identity."""
        scenario = {key: value for key, value in self.scenario.items() if key not in FREE_KEYS}
        inputs = [self.schema_version, scenario, self.files, self.kernels.split()[0], self.lppm_sim]
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


class RunManifest(_Entry):
    """Verified content of `manifest.json`. The file is written from `content`, which preserves the values read."""

    schema_version: int
    scenario_keys: _ScenarioKeys = Field(alias="scenario", repr=False)
    """Required keys of the scenario; they are verified even if its components are not installed."""
    folder: str
    """Base folder of the file names in the scenario."""
    digest: str
    seed: int
    files: dict[str, str]
    """SHA-256 of each input file and of the source of each custom component."""
    lppm_sim: str
    """Version of lppm-sim."""
    versions: dict[str, str]
    """Versions of Python and of the packages used."""
    kernels: str
    worlds: list[RecordedWorld]
    output_spaces: dict[str, Any]
    """Meaning of each LPPM's outputs, as `sim.lppm.outputs.read` reads it."""
    remarks: list[str] = []
    """Warnings about implausible parameters."""
    finished: bool
    parts: list[str]
    """Ids of all parts that are planned so far."""
    repetitions: list[Repetition]
    notes: list[Note] = []
    failures: list[dict[str, Any]] = []
    """Chunks that failed, each with its error and the command that repeats it."""
    tables: dict[str, str] = {}
    """SHA-256 of tables that other tables are derived from."""
    exceeded_budgets: list[ExceededBudget] = []
    calibrations: list[Calibration] = []
    """Strengths that replace realised budgets."""
    secrets: dict[str, str] = {}
    """Custom LPPMs whose outputs depend on a secret, with the approximation that adversaries make who track it; empty
    if exact."""
    short_names: dict[str, str] = {}
    """Short name of each LPPM that has one: swept designs and beliefs without a `kind` complete it."""

    _content: dict[str, Any] = PrivateAttr(default_factory=dict)
    _place: str = PrivateAttr(default="")

    @classmethod
    def of(cls, content: Mapping[str, Any], *, scenario: Scenario | None = None, place: str = "manifest.json") -> Self:
        """Return the manifest with this content; raises DamagedManifest.

        `scenario` is the validated scenario, if available; `place` is the file name in messages.
        """
        try:
            manifest = cls.model_validate(dict(content))
        except ValidationError as error:
            raise DamagedManifest(_first_fault(error)) from error
        manifest._content, manifest._place = dict(content), place
        if scenario is not None:
            manifest.__dict__["scenario"] = scenario  # where cached_property stores it
        return manifest

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario, validated once; input files need not exist and no code is imported."""
        return validate(Scenario, Source(name=self._place, data=scenario_data(self._content)))

    @property
    def recorded_scenario(self) -> dict[str, Any]:
        """The recorded scenario in canonical form; `scenario` is its model."""
        return dict(self._content["scenario"])

    @property
    def content(self) -> dict[str, Any]:
        """The JSON object, without its checksum."""
        return dict(self._content)

    @property
    def identity(self) -> RunIdentity:
        """The identity of the run."""
        return RunIdentity.of(self._content)

    @property
    def repeats_until_sharp(self) -> bool:
        """Whether the number of replications depends on the precision of the metrics, so that it may still increase."""
        return isinstance(self.scenario_keys.replications, dict)

    def updated(self, **changes: Any) -> Self:
        """Return the manifest with other values of some keys."""
        scenario = None if "scenario" in changes else self.__dict__.get("scenario")
        return type(self).of(self._content | changes, scenario=scenario, place=self._place)

    def with_scenario_of(self, other: RunManifest) -> Self:
        """Return this manifest with the validated scenario of another one, if both are equal."""
        if "scenario" in other.__dict__ and other.recorded_scenario == self.recorded_scenario:
            self.__dict__["scenario"] = other.scenario
        return self

    def world_of(self, point: int) -> RecordedWorld:
        """Return the world of a sweep point."""
        for world in self.worlds:
            if point in world.points:
                return world
        raise RunError(f"{self._place} has no world for point {point}: run the scenario again.", code="no-such-point")


def scenario_data(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario of a manifest as in a scenario file.

    The canonical form has all defaults, but `expected: true` is not recorded on large grids unless it is requested.
    """
    data = dict(content["scenario"])
    if isinstance(record := data.get("record"), dict) and record.get("expected") is True:
        data["record"] = {key: value for key, value in record.items() if key != "expected"}
    if data.get("sweep"):
        names = content.get("short_names") or {}
        data["lppms"] = [_with_short_name(lppm, names) for lppm in data["lppms"]]
    return data


def _with_short_name(lppm: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a recorded LPPM with its short name, which manifests of earlier versions have as its name at most."""
    kind = names.get(lppm["name"], lppm["name"])
    parts = short_names().get(kind)
    if parts is None or "lppm" in lppm:
        return dict(lppm)
    alike = all(parts[part]["kind"] == lppm[part]["kind"] for part in ("belief", "design"))
    return {"kind": kind, **lppm} if alike else dict(lppm)


@dataclass(frozen=True, slots=True)
class OtherSchema:
    """A manifest of another schema version: its parts cannot be read, but its identity can be compared."""

    content: dict[str, Any]

    @property
    def identity(self) -> RunIdentity:
        """The identity of the run."""
        return RunIdentity.of(self.content)


def _first_fault(error: ValidationError) -> str:
    """Describe the first value that is missing or has the wrong type."""
    details = error.errors(include_url=False)
    first = details[0]
    # The members of a union follow the path of its value.
    same = [detail for detail in details if detail["loc"][:2] == first["loc"][:2]] if _of_union(first) else [first]
    path = ".".join(map(str, first["loc"][: -1 if _of_union(first) else None]))
    if first["type"] == "missing":
        return f"`{path}` is missing"
    expected = " or ".join(_JSON_NAMES.get(detail["type"].removesuffix("_type"), detail["msg"]) for detail in same)
    return f"`{path}` must be {expected}, got {type(first['input']).__name__}"


def _of_union(detail: Mapping[str, Any]) -> bool:
    return detail["loc"][:2] == ("scenario", "replications") and len(detail["loc"]) > 2
