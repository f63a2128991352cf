"""Small files in every format, in the form of the published data, with the rows that they contain."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[Any, ...]
"""User, Unix seconds, then latitude and longitude, or the cell."""


@dataclass(frozen=True)
class Sample:
    """A file or folder, and its rows in the order of a trace file."""

    write: Callable[[Path], Path]
    rows: list[Row]
    options: dict[str, Any] = field(default_factory=dict)
    invalid: int = 0
    first_invalid: str = ""
    """Beginning of the first message about an invalid row."""
    ignored: int = 0
    ambiguous: bool = False
    """Whether the format must be named."""


def _file(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


PLT = "\r\n".join(
    ["Geolife trajectory", "WGS 84", "Altitude is in Feet", "Reserved 3", "0,2,255,My Track,0,0,2,8421376", "0"]
)


def _geolife(folder: Path) -> Path:
    lines = {
        "000/Trajectory/20081023025304": [
            "39.984702,116.318417,0,492,39744.1201851852,2008-10-23,02:53:04",
            "39.984683,116.31845,0,492,39744.1202546296,2008-10-23,02:53:10",
            "400.16666,116.31845,0,492,39744.1202546296,2008-10-23,02:53:15",  # as in the published data
        ],
        "010/Trajectory/20070804033032": ["39.9,116.4,0,-777,39298.1462,2007-08-04,03:30:32"],
    }
    for name, own in lines.items():
        path = folder / "Data" / f"{name}.plt"
        path.parent.mkdir(parents=True)
        path.write_text(f"{PLT}\r\n" + "\r\n".join(own) + "\r\n", newline="")
    return folder / "Data"


def _tdrive(folder: Path) -> Path:
    path = folder / "release" / "taxi_log_2008_by_id"
    path.mkdir(parents=True)
    (path / "1.txt").write_text(
        "1,2008-02-02 15:36:08,116.51172,39.92123\n1,2008-02-02 15:46:08,116.51135,39.93883\n1,,116.5,39.9\n"
    )
    (path / "2.txt").write_text("2,2008-02-02 13:33:52,116.36422,39.88781\n")
    return path


PORTO = """"TRIP_ID","CALL_TYPE","ORIGIN_CALL","ORIGIN_STAND","TAXI_ID","TIMESTAMP","DAY_TYPE","MISSING_DATA","POLYLINE"
"1372636858620000589","C","","","20000589","1372636858","A","False","[[-8.618643,41.141412],[-8.618499,41.141376]]"
"1372637303620000596","B","","7","20000596","1372637303","A","True","[[-8.639847,41.159826],[-8.7,41.2]]"
"1372636951620000320","C","","","20000320","1372636951","A","False","[]"
"1372636951620000321","C","","","20000320","1372636951","A","False","[[-8.6"
"""

FOURSQUARE = (
    "470\t49bbd6c0f964a520f4531fe3\t4bf58dd8d48988d127951735\tArts & Crafts Store\t40.719810\t-74.002581\t-240\t"
    "Tue Apr 03 18:00:09 +0000 2012\n"
    "979\t4a43c0aef964a520c6a61fe3\t4bf58dd8d48988d1df941735\tCaf\xe9\t40.606800\t-74.044170\t-240\t"
    "Tue Apr 03 18:00:25 +0000 2012\n"
    "69\t4c5cc7b485a1e21e00d35711\t4bf58dd8d48988d103941735\tHome\t40.716162\t-73.883070\t-240\tApril 3\n"
)

GPX = """<?xml version="1.0" encoding="UTF-8"?>
<gpx version="1.1" creator="test" xmlns="http://www.topografix.com/GPX/1/1">
  <wpt lat="1" lon="2"><name>not a point of a track</name></wpt>
  <trk><name>Morning</name><trkseg>
    <trkpt lat="48.1" lon="11.5"><ele>500</ele><time>2024-05-01T06:00:00Z</time></trkpt>
    <trkpt lat="48.2" lon="11.6"><time>2024-05-01T08:00:01.5+02:00</time></trkpt>
    <trkpt lat="148.2" lon="11.6"><time>2024-05-01T06:00:02Z</time></trkpt>
    <trkpt lat="48.2" lon="11.6"><time>yesterday</time></trkpt>
  </trkseg></trk>
</gpx>
"""

GEOJSON = json.dumps(
    {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": [11.5, 48.1, 500]},
                "properties": {"user": 7, "time": "2024-05-01T06:00:00Z"},
            },
            {
                "type": "Feature",
                "geometry": {"type": "LineString", "coordinates": [[11.6, 48.2], [11.7, 48.3]]},
                "properties": {"user": "b", "coordTimes": ["2024-05-01T06:00:00Z", "2024-05-01T06:01:00Z"]},
            },
        ],
    },
    indent=1,
)

RECORDS = json.dumps(
    {
        "locations": [
            {"timestampMs": "1486110600090", "latitudeE7": 356617253, "longitudeE7": 1396787215, "accuracy": 8},
            {"latitudeE7": 356617327, "longitudeE7": 1396785506, "timestamp": "2017-02-03T08:31:35Z"},
            {"timestamp": "2017-02-03T08:31:35Z", "accuracy": 20},
            {"latitudeE7": 4294967296, "longitudeE7": 0, "timestamp": "2017-02-03T08:31:35Z"},
        ]
    },
    indent=1,
)
SEMANTIC = json.dumps(
    {
        "timelineObjects": [
            {
                "activitySegment": {
                    "startLocation": {"latitudeE7": 414083590, "longitudeE7": 21704229},
                    "endLocation": {"latitudeE7": 413961889, "longitudeE7": 21536695},
                    "duration": {"startTimestamp": "2022-03-03T12:22:24Z", "endTimestamp": "2022-03-03T12:43:34Z"},
                    "simplifiedRawPath": {
                        "points": [{"latE7": 414000000, "lngE7": 21600000, "timestamp": "2022-03-03T12:30:00Z"}]
                    },
                    "waypointPath": {"waypoints": [{"latE7": 414083590, "lngE7": 21704229}]},
                }
            },
            {
                "placeVisit": {
                    "location": {"latitudeE7": 413961889, "longitudeE7": 21536695, "name": "Home"},
                    "duration": {"startTimestampMs": "1646311414000", "endTimestampMs": "1646311415000"},
                }
            },
        ]
    }
)
ANDROID = json.dumps(
    {
        "semanticSegments": [
            {
                "startTime": "2024-01-01T08:00:00.000+01:00",
                "endTime": "2024-01-01T10:00:00.000+01:00",
                "timelinePath": [{"point": "48.1°, 11.5°", "time": "2024-01-01T08:30:00.000+01:00"}],
            },
            {
                "startTime": "2024-01-01T10:00:00.000+01:00",
                "endTime": "2024-01-01T11:00:00.000+01:00",
                "visit": {"topCandidate": {"placeLocation": {"latLng": "48.2°, 11.6°"}}},
            },
            {"startTime": "2024-01-01T10:00:00Z", "endTime": "2024-01-01T10:00:00Z", "timelineMemory": {}},
        ],
        "rawSignals": [
            {"position": {"LatLng": "-48.3°, -11.7°", "timestamp": "2024-01-01T12:00:00.000+01:00"}},
            {"wifiScan": {"deliveryTime": "2024-01-01T12:00:00.000+01:00"}},
        ],
        "userLocationProfile": {"frequentPlaces": []},
    },
    ensure_ascii=False,
)
IOS = json.dumps(
    [
        {
            "startTime": "2024-01-01T08:00:00Z",
            "endTime": "2024-01-01T09:00:00Z",
            "visit": {"topCandidate": {"placeLocation": "geo:48.1,11.5"}},
        },
        {
            "startTime": "2024-01-01T09:00:00Z",
            "endTime": "2024-01-01T09:30:00Z",
            "activity": {"start": "geo:48.1,11.5", "end": "geo:48.2,11.6"},
        },
        {
            "startTime": "2024-01-01T08:00:00Z",
            "endTime": "2024-01-01T10:00:00Z",
            "timelinePath": [{"point": "geo:48.15,11.55", "durationMinutesOffsetFromStartTime": "75"}],
        },
    ]
)
_OWN = {"_type": "location", "lat": 48.1, "lon": 11.5, "tst": 1714543200, "tid": "ab"}
OWNTRACKS_REC = (
    f"2024-05-01T06:00:00Z\t*                 \t{json.dumps(_OWN)}\n"
    '2024-05-01T06:01:00Z\tlwt               \t{"_type":"lwt","tst":1714543260}\n'
    "2024-05-01T06:02:00Z\t*                 \t{broken\n"
)
OWNTRACKS_API = json.dumps({"count": 1, "data": [_OWN | {"topic": "owntracks/ann/phone"}]})
OWNTRACKS_LINES = "\n".join(json.dumps(_OWN | {"tst": tst}) for tst in (1714543260, 1714543200))

MATSIM_NETWORK = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE network SYSTEM "http://www.matsim.org/files/dtd/network_v2.dtd">
<network>
  <attributes><attribute name="coordinateReferenceSystem" class="java.lang.String">EPSG:32632</attribute></attributes>
  <nodes>
    <node id="1" x="691000.0" y="5334000.0"/>
    <node id="2" x="692000.0" y="5334000.0"/>
    <node id="3" x="692000.0" y="5335000.0"/>
  </nodes>
  <links capperiod="01:00:00">
    <link id="a" from="1" to="2" length="1000.0" freespeed="13.9" capacity="600" permlanes="1" modes="car"/>
    <link id="b" from="2" to="3" length="1000.0" freespeed="13.9" capacity="600" permlanes="1" modes="car"/>
  </links>
</network>
"""
MATSIM_EVENTS = """<?xml version="1.0" encoding="utf-8"?>
<events version="1.0">
  <event time="21600.0" type="actend" person="p" link="a" actType="home"/>
  <event time="21600.0" type="departure" person="p" link="a" legMode="car"/>
  <event time="21610.0" type="PersonEntersVehicle" person="p" vehicle="v"/>
  <event time="21610.0" type="vehicle enters traffic" person="p" link="a" vehicle="v" networkMode="car"/>
  <event time="21620.0" type="left link" link="a" vehicle="v"/>
  <event time="21620.0" type="entered link" link="b" vehicle="v"/>
  <event time="21680.0" type="PersonLeavesVehicle" person="p" vehicle="v"/>
  <event time="21690.0" type="entered link" link="b" vehicle="v"/>
  <event time="21680.0" type="arrival" person="p" link="nowhere" legMode="car"/>
  <event time="06:01:30" type="actstart" person="p" x="692500.0" y="5335500.0" link="b" actType="work"/>
</events>
"""


def matsim(folder: Path) -> Path:
    """Write events and their network."""
    (folder / "network.xml.gz").write_bytes(gzip.compress(MATSIM_NETWORK.encode()))
    path = folder / "output_events.xml.gz"
    path.write_bytes(gzip.compress(MATSIM_EVENTS.encode()))
    return path


SUMO = """<?xml version="1.0" encoding="UTF-8"?>
<!-- generated by Eclipse SUMO
<sumoConfiguration><output><fcd-output.geo value="true"/></output></sumoConfiguration>
-->
<fcd-export>
    <timestep time="0.00">
        <vehicle id="0" x="11.500000" y="48.100000" angle="90.00" type="DEFAULT_VEHTYPE" speed="0.00" lane="a_0"/>
        <person id="p" x="11.600000" y="48.200000" angle="90.00" speed="0.00" edge="a"/>
    </timestep>
    <timestep time="1.50">
        <vehicle id="0" x="11.500100" y="48.100000" angle="90.00" type="DEFAULT_VEHTYPE" speed="5.00" lane="a_0"/>
        <vehicle id="1" y="48.100000"/>
    </timestep>
</fcd-export>
"""


def _parquet(folder: Path) -> Path:
    path = folder / "x.parquet"
    times = pa.array([1_714_543_200_500, 1_714_543_100_000, None], pa.timestamp("ms", "UTC"))
    columns: dict[str, Any] = {
        "device": [2.0, 2.0, 10.0],
        "at": times,
        "Latitude": [48.1, 48.2, 48.3],
        "Longitude": [11.5, 11.6, 11.7],
    }
    pq.write_table(pa.table(columns), path)
    return path


CSV = 'uid;"when";y;x;note\n"a";1714543200.5;48.1;11.5;"x; y"\na;1714543200.25;48.2;11.6;\nb;1714543200000;48.1;11.5;\n'

SAMPLES: dict[str, dict[str, Sample]] = {
    "geolife": {
        "plt": Sample(
            _geolife,
            [
                ("000", 1224730384, 39.984702, 116.318417),
                ("000", 1224730390, 39.984683, 116.31845),
                ("010", 1186198232, 39.9, 116.4),
            ],
            invalid=1,
            first_invalid="20081023025304.plt:9: lat must be degrees",
        ),
        "csv": Sample(
            _file(
                "geolife_sample.txt.gz",
                gzip.compress(b"lat,lng,datetime,uid\n39.984094,116.319236,2008-10-23 05:53:05,1\n"),
            ),
            [("1", 1224741185, 39.984094, 116.319236)],
            ambiguous=True,
        ),
    },
    "tdrive": {
        "folder": Sample(
            _tdrive,
            [
                ("1", 1201937768, 39.92123, 116.51172),
                ("1", 1201938368, 39.93883, 116.51135),
                ("2", 1201930432, 39.88781, 116.36422),
            ],
            invalid=1,
            first_invalid="1.txt:3: time_s must be",
        )
    },
    "porto": {
        "csv": Sample(
            _file("train.csv", PORTO),
            [("20000589", 1372636858, 41.141412, -8.618643), ("20000589", 1372636873, 41.141376, -8.618499)],
            invalid=1,
            first_invalid="train.csv:5: POLYLINE",
            ignored=2,
        )
    },
    "foursquare": {
        "tsv": Sample(
            _file("dataset_TSMC2014_NYC.txt", FOURSQUARE.encode("latin-1")),
            [("470", 1333476009, 40.71981, -74.002581), ("979", 1333476025, 40.6068, -74.04417)],
            invalid=1,
            first_invalid="dataset_TSMC2014_NYC.txt:3: time",
        )
    },
    "yjmob100k": {
        "csv": Sample(
            _file(
                "yjmob100k-dataset1.csv",
                "uid,d,t,x,y\n1,0,2,1,200\n1,0,1,200,1\n2,3,47,80,95\n2,3,48,1,1\n2,60,0,999,999\n",
            ),
            [("1", 1800, 39999), ("1", 3600, 0), ("2", 3 * 86400 + 47 * 1800, 105 * 200 + 79)],
            invalid=1,
            first_invalid="yjmob100k-dataset1.csv:5: must have",
            ignored=1,
        )
    },
    "gpx": {
        "track": Sample(
            _file("ann.gpx", GPX),
            [("ann", 1714543200, 48.1, 11.5), ("ann", 1714543201, 48.2, 11.6)],
            invalid=2,
            first_invalid="ann.gpx:7: lat, lon",
        )
    },
    "geojson": {
        "features": Sample(
            _file("x.geojson", GEOJSON),
            [("7", 1714543200, 48.1, 11.5), ("b", 1714543200, 48.2, 11.6), ("b", 1714543260, 48.3, 11.7)],
        )
    },
    "google-timeline": {
        "records": Sample(
            _file("Records.json", RECORDS),
            [("1", 1486110600, 35.6617253, 139.6787215), ("1", 1486110695, 35.6617327, 139.6785506)],
            invalid=1,
            first_invalid="Records.json:18: lat, lon",
            ignored=1,
        ),
        "semantic": Sample(
            _file("2022_MARCH.json", SEMANTIC),
            [
                ("1", 1646310144, 41.408359, 2.1704229),
                ("1", 1646310600, 41.4, 2.16),
                ("1", 1646311414, 41.3961889, 2.1536695),
                ("1", 1646311414, 41.3961889, 2.1536695),
                ("1", 1646311415, 41.3961889, 2.1536695),
            ],
            ignored=1,
        ),
        "android": Sample(
            _file("Timeline.json", ANDROID),
            [
                ("1", 1704094200, 48.1, 11.5),
                ("1", 1704099600, 48.2, 11.6),
                ("1", 1704103200, 48.2, 11.6),
                ("1", 1704106800, -48.3, -11.7),
            ],
            ignored=2,
        ),
        "ios": Sample(
            _file("location-history.json", IOS),
            [
                ("1", 1704096000, 48.1, 11.5),
                ("1", 1704099600, 48.1, 11.5),
                ("1", 1704099600, 48.1, 11.5),
                ("1", 1704100500, 48.15, 11.55),
                ("1", 1704101400, 48.2, 11.6),
            ],
        ),
    },
    "owntracks": {
        "rec": Sample(
            _file("rec/ann/phone/2024-05.rec", OWNTRACKS_REC),
            [("ann/phone", 1714543200, 48.1, 11.5)],
            invalid=1,
            first_invalid="2024-05.rec:3: must be time",
            ignored=1,
        ),
        "api": Sample(_file("locations.json", OWNTRACKS_API), [("ann/phone", 1714543200, 48.1, 11.5)]),
        "lines": Sample(
            _file("messages.json", OWNTRACKS_LINES),
            [("ab", 1714543200, 48.1, 11.5), ("ab", 1714543260, 48.1, 11.5)],
        ),
    },
    "sumo": {
        "geo": Sample(
            _file("fcd.xml", SUMO),
            [("0", 0, 48.1, 11.5), ("0", 1, 48.1, 11.5001), ("p", 0, 48.2, 11.6)],
            invalid=1,
            first_invalid="fcd.xml:12: vehicle must have",
        )
    },
    "columns": {
        "csv": Sample(
            _file("any.csv", CSV),
            [("a", 1714543200, 48.2, 11.6), ("a", 1714543200, 48.1, 11.5)],
            options={"columns": {"time": "when", "lat": "y", "lon": "x"}},
            invalid=1,
            first_invalid="any.csv:4: time_s must be in seconds, not milliseconds",
            ambiguous=True,
        ),
        "parquet": Sample(
            _parquet,
            [("2", 1714543100, 48.2, 11.6), ("2", 1714543200, 48.1, 11.5)],
            options={"columns": {"user": "device", "time": "at"}},
            invalid=1,
            first_invalid="x.parquet:3: at must be",
        ),
    },
}
"""Samples by format; MATSim has its own test."""
