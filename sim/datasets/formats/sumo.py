"""SUMO floating-car data: the positions of vehicles and persons in each time step (option --fcd-output)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sim.datasets import projections
from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Ignored, Invalid, Options, Point
from sim.datasets.formats.planar import plane_of, projected
from sim.datasets.lines import moment
from sim.datasets.projections import Plane
from sim.errors import InputError, InvalidValue
from sim.mobility.recorded.streams import Elements

_GEO = re.compile(rb'<fcd-output\.geo value="(true|1|t|yes|on)"')
_DIGITS = re.compile(r"(\d+):(\d\d):(\d\d):(\d\d(\.\d+)?)|(\d+):(\d\d):(\d\d(\.\d+)?)")


def recognises(head: Head) -> bool:
    """Return whether the root element is fcd-export."""
    return "<fcd-export" in head.text


def read(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield the positions of vehicles and persons.

    SUMO writes its options as a comment, from which positions in degrees are recognised.
    """
    stated: Plane | None = None
    if _GEO.search(next(RawFile(raw.path).chunks(), b"")):
        stated = projections.degrees()
    elif options.network is not None:
        stated = plane_of_network(options.network)
    plane = plane_of(
        options,
        stated,
        missing=f"{raw.path}: positions are in m on the plane of the network: give its file with --network NET.net.xml,"
        " or run SUMO with --fcd-output.geo",
    )
    return projected(_Steps(options.start_s or 0).run(raw.chunks()), plane)


def plane_of_network(path: Path) -> Plane:
    """Return the projection that a network file states."""
    try:
        locations = list(_Location().run(RawFile(path).chunks()))
    except InvalidValue as error:
        raise InputError(f"{path}: {error}", code=error.code) from error
    if not locations:
        raise InputError(f"{path} has no element location: is it a network of SUMO?", code="wrong-format")
    text, offset = locations[0].get("projParameter", "!"), locations[0].get("netOffset", "0,0")
    try:
        x, y = (float(number) for number in offset.split(","))
    except ValueError as error:
        raise InputError(f"{path}: netOffset must be two numbers, found {offset!r}", code="invalid-row") from error
    plane = projections.of_proj(text, (x, y))
    if plane is None:
        raise InputError(
            f"{path}: the projection {text!r} is not supported, expected +proj=utm or +proj=eqc: run SUMO with "
            "--fcd-output.geo, or place the plane with --origin LAT,LON",
            code="unsupported-crs",
        )
    return plane


class _Location(Elements):
    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Emit the attributes of the element location."""
        if name == "location":
            self.emit(attributes)


class _Steps(Elements):
    """Positions of all time steps; x is stored as lon, y as lat."""

    def __init__(self, start_s: int) -> None:
        super().__init__()
        self._start_s = start_s
        self._time: tuple[int, float] | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Emit the position of a vehicle or person."""
        if name == "timestep":
            try:
                seconds, fraction = simulated(attributes.get("time", ""))
                self._time = (self._start_s + seconds, fraction)
            except ValueError as error:
                self._time = None
                self.emit(Invalid(self.line, str(error)))
        elif name in ("vehicle", "person"):
            if self._time is None:
                self.emit(Invalid(self.line, f"{name} must be in a timestep with a time"))
            elif "x" not in attributes or not attributes.get("id"):
                self.emit(Invalid(self.line, f"{name} must have id, x and y"))
            else:
                y, x = attributes.get("y"), attributes["x"]
                self.emit(Point(self.line, attributes["id"], self._time, y, x))
        elif name == "container":
            self.emit(Ignored("containers"))


def simulated(text: str) -> tuple[int, float]:
    """Return a time of a simulation, in s or as [days:]hours:minutes:seconds (option --human-readable-time).

    >>> simulated("3.5"), simulated("1:00:00:02")
    ((3, 0.5), (86402, 0.0))
    """
    match = _DIGITS.fullmatch(text)
    if match is None:
        return moment(text, "time")
    *larger, seconds = text.split(":")
    days, hours, minutes = (int(part) for part in ["0", *larger][-3:])
    whole, fraction = moment(seconds, "time")
    return days * 86_400 + hours * 3600 + minutes * 60 + whole, fraction


SUMO = Format(
    name="sumo",
    description="floating-car data of SUMO (--fcd-output), best with --fcd-output.geo",
    source="https://sumo.dlr.de/docs/Simulation/Output/FCDOutput.html",
    checks="root element fcd-export; id, x and y of vehicles and persons in each timestep",
    recognises=recognises,
    read=read,
    options=frozenset({"--network", "--crs", "--origin", "--start"}),
    time_note="time 0 is the begin of the simulation, or --start",
    folder_hint="name the file of --fcd-output",
)
