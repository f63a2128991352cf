"""MATSim events: positions of persons when they act, depart, arrive and enter links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sim.datasets import projections
from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Ignored, Invalid, Options, Point
from sim.datasets.formats.planar import plane_of, projected
from sim.datasets.formats.sumo import simulated
from sim.datasets.lines import shown
from sim.errors import InputError, InvalidValue
from sim.mobility.recorded.streams import Elements

_OF_PERSON = ("actend", "actstart", "departure", "arrival")
_ENTERS = ("PersonEntersVehicle",)
_LEAVES = ("PersonLeavesVehicle",)
_IN_TRAFFIC = ("entered link",)

Position = tuple[float, float]


@dataclass(slots=True)
class Network:
    """Positions of links, and the coordinate reference system if the file states one."""

    start: dict[str, Position] = field(default_factory=dict)
    """Position of the node at which a link starts."""
    end: dict[str, Position] = field(default_factory=dict)
    """Position of the node at which a link ends, where activities take place."""
    crs: str | None = None


def recognises(head: Head) -> bool:
    """Return whether the root element is events."""
    return "<events" in head.text and "<event " in head.text


def read(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield the positions of persons, on the network given by `--network`."""
    if options.network is None:
        raise InputError(
            f"{raw.path}: events name links, not positions: give the network with --network NETWORK.xml.gz",
            code="network-missing",
        )
    network = read_network(options.network)
    stated = None
    if network.crs is not None and options.crs is None and options.origin is None:
        stated = projections.of_crs(network.crs)
    plane = plane_of(options, stated, missing=f"{options.network} states no coordinate reference system")
    return projected(_Events(network, options.start_s or 0).run(raw.chunks()), plane)


def read_network(path: Path) -> Network:
    """Read the positions of the links of a network."""
    network = Network()
    try:
        for line in _NetworkElements(network).run(RawFile(path).chunks()):
            raise InputError(f"{path}:{line}: a node must have id, x and y, a link id, from and to", code="invalid-row")
    except InvalidValue as error:
        raise InputError(f"{path}: {error}", code=error.code) from error
    if not network.start:
        raise InputError(f"{path} has no links: is it a network of MATSim?", code="wrong-format")
    return network


class _NetworkElements(Elements):
    """Nodes and links; emits the line of an invalid element."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network
        self._nodes: dict[str, Position] = {}
        self._attribute = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Store a node or a link."""
        self._attribute = attributes.get("name", "")
        try:
            if name == "node":
                self._nodes[attributes["id"]] = (float(attributes["x"]), float(attributes["y"]))
            elif name == "link":
                self._network.start[attributes["id"]] = self._nodes[attributes["from"]]
                self._network.end[attributes["id"]] = self._nodes[attributes["to"]]
        except (KeyError, ValueError):
            self.emit(self.line)

    def end(self, name: str, text: str) -> None:
        """Store the coordinate reference system."""
        if name == "attribute" and self._attribute == "coordinateReferenceSystem":
            self._network.crs = text.strip() or None


class _Events(Elements):
    """Positions of persons: activities are at the end of a link, or at their own x and y."""

    def __init__(self, network: Network, start_s: int) -> None:
        super().__init__()
        self._network, self._start_s = network, start_s
        self._aboard: dict[str, dict[str, None]] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Process an event."""
        if name != "event":
            return
        kind = attributes.get("type", "")
        person, vehicle = attributes.get("person"), attributes.get("vehicle")
        if kind in _OF_PERSON and person:
            self._add(kind, [person], attributes)
        elif kind in _IN_TRAFFIC:
            persons = [person] if person else list(self._aboard.get(vehicle or "", {}))
            self._add(kind, persons, attributes)
        else:
            if kind in _ENTERS and person and vehicle:
                self._aboard.setdefault(vehicle, {})[person] = None
            elif kind in _LEAVES and person and vehicle:
                self._aboard.get(vehicle, {}).pop(person, None)
            self.emit(Ignored("events of other types"))

    def _add(self, kind: str, persons: list[str], attributes: dict[str, str]) -> None:
        link = attributes.get("link", "")
        places = self._network.start if kind in _IN_TRAFFIC else self._network.end
        position = places.get(link)
        if kind not in _IN_TRAFFIC and "x" in attributes and "y" in attributes:
            x, y = attributes["x"], attributes["y"]
        elif position is None:
            self.emit(Invalid(self.line, f"link must be in the network, found {shown(link)}"))
            return
        else:
            x, y = str(position[0]), str(position[1])
        try:
            seconds, fraction = simulated(attributes.get("time", ""))
        except ValueError as error:
            self.emit(Invalid(self.line, str(error)))
            return
        if not persons:
            self.emit(Ignored("vehicles without persons"))
        for person in persons:
            self.emit(Point(self.line, person, (self._start_s + seconds, fraction), y, x))


MATSIM = Format(
    name="matsim",
    description="events of MATSim, output_events.xml.gz, with the network",
    source="https://www.matsim.org; Horni, Nagel, Axhausen 2016, The Multi-Agent Transport Simulation MATSim",
    checks="root element events; persons that act, depart, arrive or enter a link; links in --network",
    recognises=recognises,
    read=read,
    options=frozenset({"--network", "--crs", "--origin", "--start"}),
    time_note="time 0 is midnight of the simulated day, or --start",
    folder_hint="name the file output_events.xml.gz",
)
