"""Headers, ids, values and file names from files are escaped: a terminal or a page does not interpret them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.escaping import escape, visible
from tests.support import lppm_sim

CODES = {"controls": "\x1b[2J\x1b]0;owned\x07\x9b31ma\x08b\x7f", "bidi": "\u202eevil\u2066"}
"""Characters that move the cursor, ring the bell, colour text or reverse its direction."""

WRITE = Callable[..., Path]


def harmless(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


def output(*words: str | Path) -> str:
    """Return the output of a command; require that it has no control characters."""
    result = lppm_sim(*words)
    assert harmless(result.output), [letter for letter in result.output if not harmless(letter)]
    return result.output


def test_unprintable_characters_are_escaped() -> None:
    assert visible("a\nb\x1b\x9b\u202e\ud800 ü") == "a\nb\\x1b\\x9b\\u202e\\ud800 ü"
    assert visible("a\nb", keep="") == "a\\nb"
    assert escape("[red]\x1b") == "\\[red]\\x1b"


@pytest.fixture(autouse=True)
def _one_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw figures in one format only; the printed output does not depend on it."""
    monkeypatch.setattr("sim.plots.style.METADATA", {"svg": {"Date": None}})


@pytest.fixture(params=list(CODES.values()), ids=list(CODES))
def code(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def scenario(write: WRITE, file: str, columns: str = "{}") -> Path:
    users = f"{{mobility: {{kind: replay, file: {json.dumps(file)}, columns: {columns}}}}}"
    return write(users=users, training="{}", lppms="[identity]", attacks="[sporadic]")


def rows(folder: Path, content: str, name: str = "t.csv") -> str:
    (folder / name).write_text(content, encoding="utf-8", newline="")
    return name


def test_headers_in_messages(code: str, write: WRITE, tmp_path: Path) -> None:
    quoted = f'"{code}"'
    path = scenario(write, rows(tmp_path, f"user,time_s,{quoted}\na,0,1\n"))
    for command in ("check", "run"):
        assert "t.csv" in output(command, path)
    named = scenario(write, rows(tmp_path, f"user,{quoted},cell\na,x,1\n"), f"{{time: {json.dumps(code)}}}")
    assert "found 'x'" in output("check", named)
    raw = tmp_path / "raw.csv"
    raw.write_text(f"user,time_s,lat,{code}\na,0,1,2\n", newline="")
    assert output("data", "import", "gowalla", raw, "-o", tmp_path / "x.parquet")
    assert output("data", "describe", raw)
    pq.write_table(pa.table({"user": ["a"], code: [1]}), tmp_path / "t.parquet")
    assert "[no-such-column]" in output("data", "describe", tmp_path / "t.parquet")


def test_values_in_messages(code: str, write: WRITE, tmp_path: Path) -> None:
    cell = f'"{code}"'
    path = scenario(write, rows(tmp_path, f"user,time_s,cell\na,{cell},{cell}\n"))
    for command in ("check", "run"):
        assert "t.csv" in output(command, path)
    raw = tmp_path / "raw.txt"
    raw.write_text(f"{code}\t{code}\t37.6\t-122.4\tp\n", newline="")
    assert "[invalid-row]" in output("data", "import", "gowalla", raw, "-o", tmp_path / "x.parquet")


def test_ids_in_messages_and_results(code: str, write: WRITE, tmp_path: Path) -> None:
    table = "".join(f'"{code}",{time},{time % 20}\n"b{code}",{time},3\n' for time in range(6))
    name = rows(tmp_path, "user,time_s,cell\n" + table)
    path = scenario(write, name)
    assert "is valid" in output("check", path)
    run = tmp_path / "out"
    assert "are in" in output("run", path, "-o", run)
    for command in (("summarize", "--metrics"), ("status",), ("report",)):
        assert output(*command, run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert harmless(page)
    users = f"{{past_queries: 99, mobility: {{kind: replay, file: {name}}}}}"
    assert "users" in output("check", write(path.read_text(), users=users))


def test_file_names_in_messages_and_results(code: str, write: WRITE, tmp_path: Path) -> None:
    name = rows(tmp_path, "user,time_s,cell\na,x,1\n", f"{code}.csv")
    for command in ("check", "run"):
        assert ".csv" in output(command, scenario(write, name))
    table = pd.DataFrame({"user": ["a"], "time_s": [0], "lat": [37.6], "lon": [-122.4]})
    table.to_csv(tmp_path / name, index=False)
    out = tmp_path / f"{code}.parquet"
    assert "imported  1 row of 1 user" in output("data", "import", "gowalla", tmp_path / name, "-o", out)
    assert "[file-exists]" in output("data", "import", "gowalla", tmp_path / name, "-o", out)
    assert "wrote " in output("data", "describe", out)
    assert "[file-not-found]" in output("data", "describe", tmp_path / f"{code}none")
    assert "[unsupported-file-type]" in output("data", "describe", out, "-o", tmp_path / f"{code}.x")
    assert output("check", tmp_path / f"{code}.yaml")
    assert output("new", tmp_path / f"{code}.yaml").startswith("wrote")
    assert " exists" in output("new", tmp_path / f"{code}.yaml")


def test_a_run_in_a_folder_with_such_a_name(code: str, write: WRITE, tmp_path: Path) -> None:
    run = tmp_path / f"out{code}"
    output("run", scenario(write, rows(tmp_path, "user,time_s,cell\na,0,1\na,1,2\n")), "-o", run, "--no-figures")
    for command in ("summarize", "status", "plot", "report"):
        output(command, run)
    output("export", run, "-o", tmp_path / f"{code}.csv")
