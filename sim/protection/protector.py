"""Protect a live stream: answer each query once, with a state that survives crashes.

A query is identified by its user and its sequence number, or its time if it has none. The answer is on the disk before
it is returned; the same query later gets the same answer. Beliefs that learn are restored by repeating the stored
answers, which determine them.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self

from sim.components.files import Place as Folders
from sim.errors import InputError, InvalidValue
from sim.interfaces import BeliefCapabilities, Design
from sim.lppm.mechanism import Mechanism
from sim.lppm.outputs import output_space
from sim.mobility.recorded.exact import LATEST_S
from sim.mobility.statistics import Statistics
from sim.protection import journal
from sim.protection.places import Place, cell_at, nearest_cell, reported_places
from sim.protection.setup import Setup, decode_statistics, encode_statistics, versions
from sim.protection.user import ProtectedUser
from sim.scenario.reading.python_source import PythonSource
from sim.scenario.reading.validation import validate
from sim.world import World

Status = Literal["reported", "nothing", "outside", "late"]


class Answer(NamedTuple):
    """Answer to a query. Send nothing but its places to a service."""

    status: Status
    """reported; nothing: the mechanism reports nothing; outside: the position is outside the region; late: the query is
    earlier than an answered one. Only `reported` has places."""
    output: int | None
    """Output of the mechanism; None if it drew none."""
    place: Place | None
    """Place to report in degrees, or the centre of a region to report."""
    cells: tuple[Place, ...]
    """Centres of all cells of a region or set to report; empty for a single place."""
    repeated: bool = False
    """Whether the query was answered before, and this is the stored answer."""


class _Parts(NamedTuple):
    setup: Setup
    statistics: Statistics
    world: World
    design: Design


def _parts(setup: Setup, statistics: Statistics, folders: Folders) -> _Parts:
    """Build what all users share, and one belief, so that a wrong configuration fails here."""
    setup.allow_code(folders)
    world = setup.build_world(folders)
    design = setup.build_design(world)
    setup.build_belief(world, statistics)
    return _Parts(setup, statistics, world, design)


class Protector:
    """Protect a live stream with a mechanism. `sim.protect` opens one; close it, or use it in a ``with`` statement.

    Attributes
    ----------
    setup
        Configuration of the stream.
    restored
        Number of answers that the state held when it was opened.
    moved
        Number of positions outside the region that were replaced by the nearest cell since then.
    """

    def __init__(self, state: journal.Journal, parts: _Parts) -> None:
        self.setup = parts.setup
        self.restored = len(state.records)
        self.moved = 0
        self._state = state
        self._world = parts.world
        self._design = parts.design
        self._space = output_space(parts.design, parts.world.n_cells)
        self._statistics = parts.statistics
        self._shared: Mechanism | None = None
        self._users: dict[str, ProtectedUser] = {}
        self._history: dict[str, list[journal.Record]] = {}
        for record in state.records:
            self._history.setdefault(record["user"], []).append(record)
        state.records.clear()

    @classmethod
    def create(cls, path: Path, setup: Setup, statistics: Statistics, folders: Folders) -> Self:
        """Begin a new state; raise an error if the file exists."""
        n_cells = setup.world.n_cells(setup.roads_seed, folders)
        if statistics.n_cells != n_cells:
            raise InputError(
                f"training must have the {n_cells} cells of the world, got {statistics.n_cells}", code="wrong-shape"
            )
        parts = _parts(setup, statistics, folders)  # before the file exists: a mechanism may be impossible to build
        where = folders.absolute()
        header = {
            "setup": setup.canonical(),
            "training": encode_statistics(statistics),
            "folder": str(where.folder),
            "data": None if where.data is None else str(where.data),
            "versions": versions(),
        }
        return cls(journal.create(path, header), parts)

    @classmethod
    def open(cls, path: Path, folders: Folders) -> Self:
        """Continue with the state of a file; `folders` grants access to custom components."""
        state = journal.open_journal(path)
        try:
            header = state.header
            data = None if header["data"] is None else Path(header["data"])
            where = Folders(Path(header["folder"]), data, folders.code)
            setup = validate(Setup, PythonSource(name=str(path), data=header["setup"]))
            return cls(state, _parts(setup, decode_statistics(header["training"]), where))
        except BaseException:
            state.close()
            raise

    def report(
        self, time_s: int, lat: float, lon: float, *, user: str = "user", seq: int | str | None = None
    ) -> Answer:
        """Answer a query; when this returns, the answer is on the disk.

        Parameters
        ----------
        time_s
            Time of the query in s, not before the user's last one.
        lat, lon
            True position in degrees.
        user
            Id of the user, each with their own mechanism.
        seq
            Sequence number of the query, unique for the user; default: the time identifies the query.

        Returns
        -------
        Answer
            The report, or the reason why there is none. A query that was answered before gets the same answer, whatever
            its position.
        """
        _require_position(time_s, lat, lon)
        own = self._user(user)
        key = f"t{time_s}" if seq is None else f"s{seq}"
        if key in own.answers:
            return self._answer(own.answers[key], repeated=True)
        if own.last_s is not None and time_s < own.last_s:
            return Answer("late", None, None, ())
        return self._answer(self._answered(own, key, time_s, self._cell(lat, lon)))

    def notes(self) -> list[str]:
        """Return what a user should know about the configuration."""
        notes = []
        if self.setup.noise_seed is not None:
            notes.append("the noise has a seed, so whoever knows it can undo the protection: for tests only")
        if not self._statistics.n_visits:
            notes.append("the mechanism has no counted training data: it starts from the given or the uniform profile")
        return notes

    def is_trained_on(self, statistics: Statistics) -> bool:
        """Return whether the mechanism was trained on the same statistics."""
        return encode_statistics(statistics) == encode_statistics(self._statistics)

    def changed_at(self) -> dict[str, int]:
        """Return the users whose restored belief differs in rounding, with the number of the first such report.

        The belief of a user is restored at their first new query. It can differ if another version of a library or
        another machine continues a state.
        """
        return {name: own.changed_at for name, own in self._users.items() if own.changed_at is not None}

    def close(self) -> None:
        """Close the state, so that another process can open it."""
        self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answered(self, own: ProtectedUser, key: str, time_s: int, cell: int) -> int | None:
        """Draw, store and learn the output of a new query, None outside the region."""
        drawn = None if cell < 0 else own.draw(time_s, cell, self.setup.noise_seed)
        record: journal.Record = {"user": own.name, "key": key, "time_s": time_s, "output": None}
        if drawn is not None:
            record |= {"output": drawn.output} | drawn.stored
        with self._state.appended(record):
            own.answered(record)
            if drawn is not None:
                own.learn(time_s, drawn)
        return None if drawn is None else drawn.output

    def _user(self, name: str) -> ProtectedUser:
        if name not in self._users:
            self._users[name] = ProtectedUser(name, self._mechanism, self._history.pop(name, []))
        return self._users[name]

    def _mechanism(self) -> Mechanism:
        """Return a mechanism for one user, or one for all users if its belief never learns."""
        if self._shared is not None:
            return self._shared
        belief = self.setup.build_belief(self._world, self._statistics)
        mechanism = Mechanism(belief=belief, design=self._design)
        if BeliefCapabilities.fixed.of(belief) and not mechanism.has_past:
            self._shared = mechanism
        return mechanism

    def _cell(self, lat: float, lon: float) -> int:
        cell = cell_at(self._world.locations, lat, lon)
        if cell < 0 and self.setup.outside == "nearest":
            self.moved += 1
            return nearest_cell(self._world.locations, lat, lon)
        return cell

    def _answer(self, output: int | None, *, repeated: bool = False) -> Answer:
        if output is None:
            return Answer("outside", None, None, (), repeated)
        status: Status = "nothing" if output == self._space.nothing else "reported"
        return Answer(status, output, *reported_places(output, self._space, self._world.locations), repeated)


def _require_position(time_s: int, lat: float, lon: float) -> None:
    """Raise `InvalidValue` if a time or position is impossible."""
    if not abs(time_s) <= LATEST_S:  # one time in milliseconds would make all later queries late
        raise InvalidValue(
            f"time must be seconds since 1970, not milliseconds or a smaller unit, in [-10^11, 10^11], got {time_s}",
            code="invalid-position",
        )
    for name, degrees, limit in (("lat", lat, 90), ("lon", lon, 180)):
        if not (math.isfinite(degrees) and abs(degrees) <= limit):
            raise InvalidValue(f"{name} must be in [-{limit}, {limit}] degrees, got {degrees}", code="invalid-position")
