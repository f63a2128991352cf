"""Exported roads in the real SUMO, whose floating-car data are imported. Needs `pip install eclipse-sumo`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from sim.datasets.formats.base import Options
from sim.datasets.importing import import_traces
from sim.world.grid import Grid
from tests.support import done

SCENARIO = {
    "name": "town",
    "world": {"grid": "san_francisco", "roads": {"kind": "lattice", "spacing_km": 1.0}},
    "users": {"mobility": "commuters", "count": 2, "queries": 3},
    "lppms": ["SP-Exp"],
}


def program(name: str) -> str:
    """Return the path of a program of SUMO, or skip the test."""
    folders = [Path(sys.executable).parent]
    if spec := importlib.util.find_spec("sumo"):
        folders += [Path(path) / "bin" for path in spec.submodule_search_locations or []]
    if home := os.environ.get("SUMO_HOME"):
        folders += [Path(home) / "bin", Path(home).parent.parent.parent.parent / "bin"]
    path = shutil.which(name, path=os.pathsep.join(map(str, [*folders, *os.get_exec_path()])))
    if path is None:
        pytest.skip(f"{name} of SUMO is not installed: pip install eclipse-sumo (500 MB)")
    return path


def run(*words: str | Path) -> None:
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr


@pytest.fixture
def network(tmp_path: Path) -> Path:
    netconvert = program("netconvert")
    (tmp_path / "town.yaml").write_text(yaml.safe_dump(SCENARIO))
    assert "netconvert" in done("roads", "export", tmp_path / "town.yaml", "-o", tmp_path / "town")
    net = tmp_path / "town.net.xml"
    run(netconvert, "-n", tmp_path / "town.nod.xml", "-e", tmp_path / "town.edg.xml", "-o", net,
        "--offset.disable-normalization", "true")  # fmt: skip
    return net


@pytest.mark.slow
def test_floating_car_data_return_to_the_grid(network: Path, tmp_path: Path) -> None:
    edges = [line.split('"')[1] for line in (tmp_path / "town.edg.xml").read_text().splitlines() if "<edge " in line]
    trips = "".join(
        f'<trip id="car{number}" depart="{number}" from="{edges[number]}" to="{edges[-1 - 7 * number]}"/>'
        for number in range(5)
    )
    (tmp_path / "trips.xml").write_text(f"<routes>{trips}</routes>")
    for name, geo in (("geo", "true"), ("metres", "false")):
        run(program("sumo"), "-n", network, "-r", tmp_path / "trips.xml", "--fcd-output", tmp_path / f"{name}.xml",
            "--fcd-output.geo", geo, "-e", "300", "--no-step-log", "true")  # fmt: skip
        options = Options() if geo == "true" else Options(network=network)
        import_traces(None, [tmp_path / f"{name}.xml"], tmp_path / f"{name}.parquet", region=None, options=options)
    degrees, metres = (pq.read_table(tmp_path / f"{name}.parquet").to_pandas() for name in ("geo", "metres"))
    assert len(degrees) > 1000
    assert set(degrees["user"]) == {f"car{number}" for number in range(5)}
    assert degrees[["user", "time_s"]].equals(metres[["user", "time_s"]])
    grid = Grid.san_francisco()
    both = [np.array(grid.to_km(frame["lat"], frame["lon"])) for frame in (degrees, metres)]
    assert np.abs(both[0] - both[1]).max() < 2e-4  # SUMO writes 6 digits of degrees
    assert (grid.cell_of(degrees["lat"], degrees["lon"]) >= 0).all()
    km = both[1].T
    steps = np.linalg.norm(np.diff(km, axis=0), axis=1)[
        degrees["user"].to_numpy()[1:] == degrees["user"].to_numpy()[:-1]
    ]
    assert 0 < steps.max() < 0.05  # less than 50 m in a second
