"""Report: its numbers are those of the log, names are text, and the file makes no requests."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim import report
from sim.analysis.result import Result
from sim.report.replay import replays
from sim.report.study import Study
from sim.scenario.models import Scenario
from sim.storage.run_directory import RunDirectory
from tests.support import HOSTILE, MakeScenario, done, refused, rename_hostile


class Reader(HTMLParser):
    """Parser of a page: its elements, and the text of each by tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[tuple[str, list[str]]] = []
        self.feed(page)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append((tag, []))

    def handle_endtag(self, tag: str) -> None:
        name, pieces = self._open.pop()
        assert name == tag
        self.texts.setdefault(tag, []).append("".join(pieces))

    def handle_data(self, data: str) -> None:
        for _, pieces in self._open:
            pieces.append(data)


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    data: dict[str, Any] = json.loads(match[1])
    return data


def section(page: str, name: str) -> str:
    """Return one section of a page."""
    return page.partition(f'<section id="{name}">')[2].partition("</section>")[0]


def unpacked(packed: dict[str, str]) -> Any:
    kind = {"u": "u", "i": "i", "f": "f"}[packed["type"][0]] + str(int(packed["type"][1:]) // 8)
    return np.frombuffer(zlib.decompress(base64.b64decode(packed["packed"])), f"<{kind}")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    scenario = {
        "name": "small",
        "seed": 3,
        "replications": 2,
        "world": {
            "grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0},
            "roads": "lattice",
        },
        "users": {"count": 3, "queries": 25, "mobility": {"kind": "favourites", "places": 4}},
        "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
        "lppms": ["SP-Exp", "PEB-LH"],
        "attacks": ["sporadic", "markov"],
        "sweep": {"lppms.*.design.epsilon_per_km": [0.5, 2]},
        "shifts": [{"kind": "new_places", "at_query": 13}],
        "record": {"snapshots": [1, 10, 20]},
    }
    out = tmp_path_factory.mktemp("report") / "run"
    return sim.run(Scenario.model_validate(scenario), out=out, figures=False, chunk_queries=1)


@pytest.fixture(scope="module")
def page(result: Result) -> str:
    return report.page([result])


@pytest.fixture(scope="module")
def data(page: str) -> dict[str, Any]:
    return data_of(page)


# ------------------------------------------------------------------------------------------------------- numbers


def test_curves_equal_the_summary(result: Result, data: dict[str, Any]) -> None:
    assert [entry["name"] for entry in data["series"]] == ["SP-Exp", "PEB-LH"]
    chart, summary = data["charts"]["tradeoff"], result.summary()
    assert [panel["title"] for panel in chart["panels"]] == ["against sporadic", "against markov"]
    for panel, attack in zip(chart["panels"], ["sporadic", "markov"], strict=True):
        for curve in panel["curves"]:
            name = data["series"][curve["series"]]["name"]
            own = summary[(summary["lppm"] == name) & (summary["attack"] == attack)]
            own = own.sort_values("expected_quality_loss_km")
            for key, column in {
                "x": "quality_loss_km",
                "y": "adversary_error_km",
            }.items():
                assert curve[key] == pytest.approx(own[f"expected_{column}"].tolist(), rel=1e-4)
            # Three users are too few for intervals and are drawn individually.
            assert [curve[key] for key in ("x_low", "x_high", "low", "high")] == [None] * 4
            users = result.totals().users
            users = users[(users["lppm"] == name) & (users["attack"] == attack)]
            users = users.sort_values("expected_quality_loss_km")
            for line, (_, of_user) in zip(curve["each"], users.groupby("user"), strict=True):
                assert line["x"] == pytest.approx(of_user["expected_quality_loss_km"].tolist(), rel=1e-4)
                assert line["y"] == pytest.approx(of_user["expected_adversary_error_km"].tolist(), rel=1e-4)
    assert chart["note"] == "thin lines or small marks: individual users (no intervals for fewer than 5 users)"
    swept = next(curve for curve in chart["panels"][0]["curves"] if curve["name"] == "SP-Exp")
    assert swept["at"] == ["epsilon_per_km 2", "epsilon_per_km 0.5"]


def test_time_series_equal_the_tables_and_mark_the_shift(result: Result, data: dict[str, Any]) -> None:
    loss, error, efficiency = data["charts"]["time"]
    over_time = result.over_time()
    own = over_time[(over_time["lppm"] == "SP-Exp") & (over_time["attack"] == "markov") & (over_time["point"] == 0)]
    for chart, column in ((loss, "expected_quality_loss_km"), (error, "expected_adversary_error_km")):
        curve = next(curve for curve in chart["panels"][-1]["curves"] if curve["name"] == "SP-Exp")
        assert curve["y"] == pytest.approx(own[column].tolist(), rel=1e-4)
        assert curve["x"] == ((own["first_index"] + own["last_index"]) / 2).tolist()
    assert [len(chart["panels"]) for chart in (loss, error, efficiency)] == [1, 2, 2]
    assert efficiency["y"]["unit"] == ""
    for chart in (loss, error, efficiency):
        assert [(mark["x"], mark["name"], mark["ends"]) for mark in chart["marks"]] == [(13.0, "new_places", False)]


def test_each_user_has_a_panel(result: Result, data: dict[str, Any]) -> None:
    choices = data["charts"]["users"]
    assert [(choice["measure"].split()[0], choice["attack"]) for choice in choices] == [
        ("adversary", "sporadic"),
        ("adversary", "markov"),
        ("quality", ""),
    ]
    users = sorted(set(result.totals().users["user"]))
    for choice in choices:
        assert [panel["title"] for panel in choice["chart"]["panels"]] == users
    events = result.events()
    rows = events[(events["user"] == users[1]) & (events["lppm"] == "SP-Exp") & (events["attack"] == "markov")]
    rows = rows[(rows["event"] == "query") & (rows["point"] == 0)]
    mean = rows[rows["index"] <= 2]["expected_adversary_error_km"].mean()
    curve = next(c for c in choices[1]["chart"]["panels"][1]["curves"] if c["name"] == "SP-Exp")
    assert curve["y"][0] == pytest.approx(mean, rel=1e-4)


def test_beliefs_have_a_chart(data: dict[str, Any]) -> None:
    (chart,) = data["charts"]["profiles"]
    curves = {curve["name"]: curve for curve in chart["panels"][0]["curves"]}
    assert curves["PEB-LH"]["x"] == [1, 10, 20]
    assert all(0 < y < 1 for y in curves["PEB-LH"]["y"])


# -------------------------------------------------------------------------------------------------------- replay


def test_replay_has_the_first_replication_at_the_middle_point(result: Result, data: dict[str, Any]) -> None:
    (replay,) = data["replay"]
    events = result.events()
    rows = events[(events["replication"] == 0) & (events["event"] == "query")]
    users = replay["users"]
    assert sorted(users) == sorted(set(rows["user"]))
    for one, lppm in zip(replay["lppms"], ["SP-Exp", "PEB-LH"], strict=True):
        own = rows[(rows["lppm"] == lppm) & (rows["point"] == rows.loc[rows["lppm"] == lppm, "point"].min())]
        assert one["at"] == ("epsilon_per_km 0.5" if lppm == "SP-Exp" else "")
        for attack in ("sporadic", "markov"):
            of_attack = own[own["attack"] == attack].set_index("user").loc[users]
            (estimate,) = (entry["cell"] for entry in one["estimates"] if entry["attack"] == attack)
            assert unpacked(estimate).tolist() == of_attack["estimate"].tolist()
            assert unpacked(one["output"]).tolist() == of_attack["output"].tolist()
            assert unpacked(replay["cell"]).tolist() == of_attack["cell"].tolist()
            assert unpacked(replay["time_s"]).tolist() == of_attack["time_s"].tolist()
    assert replay["queries"] == [25] * 3
    assert replay["note"] == ""
    assert [(shift["user"], shift["index"]) for shift in replay["shifts"]] == [(0, 13), (1, 13), (2, 13)]


def test_map_has_the_roads_and_the_beliefs(result: Result, data: dict[str, Any]) -> None:
    (replay,) = data["replay"]
    roads, drawn = result.manifest.worlds[0].roads, replay["world"]["roads"]
    assert roads is not None
    places = list(zip(unpacked(drawn["x_m"]).tolist(), unpacked(drawn["y_m"]).tolist(), strict=True))
    ends = zip(unpacked(drawn["from"]).tolist(), unpacked(drawn["to"]).tolist(), strict=True)
    true_places = list(zip(roads["x_m"], roads["y_m"], strict=True))
    true_ends = zip(roads["edge_from"], roads["edge_to"], strict=True)
    assert {frozenset((places[a], places[b])) for a, b in ends} == {
        frozenset((true_places[a], true_places[b])) for a, b in true_ends
    }
    beliefs = replay["lppms"][1]["beliefs"]
    assert (beliefs["user"], beliefs["index"]) == ([0, 0, 0, 1, 1, 1, 2, 2, 2], [1, 10, 20] * 3)
    shades = unpacked(beliefs["value"]).reshape(9, 20)
    (part,) = [part for part in result.run.parts() if part.startswith("0000-0000") and result.run.snapshots(part)]
    recorded = result.run.snapshots(part)
    for row, (user, index) in enumerate(zip(beliefs["user"], beliefs["index"], strict=True)):
        same = (
            (recorded["lppm"] == "PEB-LH") & (recorded["user"] == replay["users"][user]) & (recorded["index"] == index)
        )
        (truth,) = recorded["profile"][same & (recorded["replication"] == 0)]
        assert (shades[row] / 255) ** 2 * beliefs["top"][row] == pytest.approx(truth, abs=truth.max() / 128)


def test_users_that_exceed_the_size_limit_are_omitted_and_reported(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = {"count": 12, "queries": 200, "mobility": {"kind": "favourites", "places": 4}}
    study = Study([sim.run(make_scenario(users=users), out=tmp_path / "run", figures=False)])
    (whole,) = replays(study, 10**6)
    assert len(whole["users"]) == 12
    letters = len(json.dumps(whole))
    (half,) = replays(study, letters // 2)
    assert 3 <= len(half["users"]) < 12
    assert half["queries"] == [200] * len(half["users"])
    assert f"{len(half['users'])} of 12 users" in half["note"]
    assert len(json.dumps(half)) <= letters // 2 + 200
    (little,) = replays(study, 2_000)
    assert len(little["users"]) == 1
    kept = little["queries"][0]
    assert 1 < kept < 200
    assert f"first {kept} queries" in little["note"]
    assert unpacked(little["cell"]).tolist() == unpacked(whole["cell"])[:kept].tolist()


def test_page_size_is_limited(result: Result, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["sim.report.page"], "MOST_LETTERS", len(page) - 600)
    smaller = report.page([result])
    assert len(smaller) <= len(page) - 600 + 200
    assert "5 MB" in data_of(smaller)["replay"][0]["note"]


def test_no_query_is_lost_if_replications_differ_in_length(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = {"count": 3, "days": 3, "mobility": "commuters", "demand": {"kind": "poisson", "per_hour": 0.5}}
    world = {"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0}, "roads": "lattice"}
    scenario = make_scenario(users=users, world=world, replications=4, training={"none": "nothing"}, lppms=["SP-LH"])
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    (replay,) = replays(Study([result]), 10**6)
    events = result.events()
    rows = events[(events["replication"] == 0) & (events["attack"] == "markov")]
    lengths = rows.groupby("user").size()
    assert len(set(events[events["attack"] == "markov"].groupby(["replication", "user"]).size())) > 3
    assert replay["queries"] == lengths[replay["users"]].tolist()
    assert replay["note"] == ""


def test_run_without_its_first_replication_has_a_page(result: Result, tmp_path: Path) -> None:
    torn = RunDirectory.open(shutil.copytree(result.path, tmp_path / "run"))
    for part in torn.parts():
        if part.split("-")[1] == "0000":
            torn.part_path(part).unlink()
    page = report.page([Result(torn)])
    assert "not finished yet" in data_of(page)["replay"][0]["none"]
    assert data_of(page)["charts"]["tradeoff"]["panels"]


def test_summarized_log_has_no_replay_and_the_page_gives_the_reason(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    scenario = make_scenario(record={"log": "summary", "window": 5})
    page = report.page([sim.run(scenario, out=tmp_path / "run", figures=False)])
    assert "none" in data_of(page)["replay"][0]
    reader = Reader(page)
    assert any("record.log" in line for line in reader.texts["p"])
    assert any("the recorded beliefs cannot be compared" in line for line in reader.texts["p"])
    assert not any("no belief snapshots" in line for line in reader.texts["p"])
    assert ("div", {"class": "map"}) not in reader.tags


# ---------------------------------------------------------------------------------------------------------- page


def test_names_are_text_whatever_they_contain(result: Result, tmp_path: Path) -> None:
    stranger = RunDirectory.open(shutil.copytree(result.path, tmp_path / "run"))
    stranger = rename_hostile(stranger)
    page = report.page([Result(stranger)])
    reader = Reader(page)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert not {"img", "svg", "iframe", "link", "object"} & {tag for tag, _ in reader.tags}
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    assert "\u202e" not in page
    assert reader.texts["h1"] == [HOSTILE[0]]
    data = data_of(page)
    assert [entry["name"] for entry in data["series"]] == [f"{name} lppm" for name in HOSTILE[:2]]
    assert sorted(data["replay"][0]["users"]) == sorted(f"{name} user" for name in HOSTILE[:3])
    assert data["replay"][0]["shifts"][0]["name"] == f"{HOSTILE[0]} shift"
    assert any(f"Against {HOSTILE[1]} attack" in line for line in reader.texts["p"])


def test_policy_allows_only_this_style_and_script(page: str) -> None:
    (policy,) = [a["content"] for tag, a in Reader(page).tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert "connect-src" not in policy
    assert policy.startswith("default-src 'none'; ")
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        match = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert match is not None
        digest = base64.b64encode(hashlib.sha256(match[1].encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_page_has_the_configuration(result: Result, page: str) -> None:
    text = " ".join(line for lines in Reader(page).texts.values() for line in lines)
    manifest = result.manifest
    for entry in (manifest.digest, f"lppm-sim run {result.path}/manifest.json", "numpy", "epsilon_per_km"):
        assert entry in text


def test_same_run_gives_the_same_page(result: Result, page: str) -> None:
    assert page == report.page([Result.open(result.path)])


def test_run_without_attacks_or_beliefs_has_a_page(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(attacks=[], lppms=["identity"], record={"snapshots": []})
    page = report.page([sim.run(scenario, out=tmp_path / "run", figures=False)])
    lines = Reader(page).texts["p"]
    assert any("has no attack" in line for line in lines)
    assert any("do not depend on a belief" in line for line in lines)


@pytest.mark.parametrize("log", ["queries", "summary"])
def test_run_without_snapshots_says_so(log: str, make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(record={"log": log, "snapshots": []})
    page = report.page([sim.run(scenario, out=tmp_path / "run", figures=False)])
    assert any("no belief snapshots (set record.snapshots)" in line for line in Reader(page).texts["p"])


# ------------------------------------------------------------------------------------------------------- commands


def test_every_run_writes_its_report(small: Path) -> None:
    done("run", small, "-o", "with")
    page = Path("with/report.html").read_bytes()
    done("run", small, "-o", "without", "--no-figures")
    assert not Path("without/report.html").exists()
    assert "without/report.html" in done("report", "without")
    assert Path("without/report.html").read_bytes() == page.replace(b"with/manifest", b"without/manifest")
    assert "does not exist" in refused("report", "nowhere")


def test_runs_are_compared_side_by_side(small: Path) -> None:
    for name, seed in (("one", 3), ("two", 4)):
        done("run", small, "--seed", str(seed), "-o", name, "--no-figures")
    done("compare", "one", "two")
    page = Path("compare.html").read_text(encoding="utf-8")
    data = data_of(page)
    assert [entry["name"] for entry in data["series"]] == [
        f"{lppm} ({run})" for run in ("one", "two") for lppm in ("SP-Exp", "PEB-Exp", "identity")
    ]
    first, second = (data["series"][i]["look"] for i in (0, 3))
    assert first[:2] == second[:2]
    assert first[2] != second[2]
    assert [one["run"] for one in data["replay"]] == ["one", "two"]
    tables = [Result.open(name).summary() for name in ("one", "two")]
    curves = data["charts"]["tradeoff"]["panels"][0]["curves"]
    for table, curve in zip(tables, (curves[0], curves[3]), strict=True):
        own = table[(table["lppm"] == "SP-Exp") & (table["attack"] == "sporadic")]
        assert sorted(curve["y"]) == pytest.approx(sorted(own["expected_adversary_error_km"]), rel=1e-4)
    reader = Reader(page)
    assert "seed" in reader.texts["th"]
    assert not any("(one)" in line and "(two)" in line for line in reader.texts["p"])
    assert any("(one | two)" in line for line in reader.texts["li"])
    assert "compare.html" in refused("compare", "one", "two")
    assert refused("compare", "one")
    assert refused("compare", "one", "./one", "-o", "other.html")
    assert ".html" in refused("compare", "one", "two", "-o", "x.pdf")
    done("compare", "one", "two", "--overwrite")


def test_runs_with_the_same_metrics_show_no_lead(small: Path) -> None:
    done("run", small, "-o", "one", "--no-figures")
    done("run", small, "-o", "two", "--no-figures")
    done("compare", "one", "two")
    lines = [line for line in Reader(Path("compare.html").read_text(encoding="utf-8")).texts["p"] if "Against" in line]
    assert lines
    assert all("users are too few for a significance test" in line for line in lines)
    assert any(
        "scenarios of these runs are identical" in line for line in Reader(Path("compare.html").read_text()).texts["p"]
    )


def test_table_equals_the_summary(result: Result, page: str) -> None:
    reader = Reader(section(page, "answer"))
    cells = [a["data-value"] for tag, a in reader.tags if tag == "td" and "data-value" in a]
    shown = np.array([float(value or "nan") for value in cells]).reshape(-1, 4)
    summary = result.summary().set_index(["lppm", "point", "attack"])
    expected = [("SP-Exp", 0, 0.5), ("SP-Exp", 1, 2.0), ("PEB-LH", 0, np.nan)]
    for row, (lppm, point, epsilon) in zip(shown, expected, strict=True):
        loss = summary["expected_quality_loss_km"][lppm, point, "markov"]
        errors = [summary["expected_adversary_error_km"][lppm, point, attack] for attack in ("sporadic", "markov")]
        assert row.tolist() == pytest.approx([epsilon, loss, *errors], rel=1e-5, nan_ok=True)


def test_part_written_while_the_page_is_rendered_is_ignored(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory.open(shutil.copytree(result.path, tmp_path / "run"))
    late = [run.part_path(part) for part in run.parts() if part.startswith("0001-")]
    contents = [part.read_bytes() for part in late]
    for part in late:
        part.unlink()
    expected = report.page([Result(run)])
    read = Result.totals

    def slowly(self: Result) -> Any:
        totals = read(self)
        for part, content in zip(late, contents, strict=True):
            part.write_bytes(content)
        return totals

    monkeypatch.setattr(Result, "totals", slowly)
    assert report.page([Result(run)]) == expected
    assert report.page([Result(run)]) != expected


def test_runs_with_different_numbers_of_users_are_compared_over_common_users(small: Path) -> None:
    done("run", small, "-o", "three", "--no-figures")
    done("run", small, "--set", "users.count=2", "-o", "two", "--no-figures")
    done("compare", "three", "two")
    reader = Reader(Path("compare.html").read_text(encoding="utf-8"))
    assert "three, two: compared over the 2 users common to all of them." in reader.texts["li"]
    assert not any("different users" in line for line in reader.texts["li"])
    verdicts = [line for line in reader.texts["p"] if line.startswith("Against")]
    assert verdicts
    assert all("(three)" in line and "(two)" in line for line in verdicts)


def test_adaptation_table_equals_the_analysis(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = {"count": 4, "queries": 130, "mobility": {"kind": "favourites", "places": 4}}
    shifts = [{"kind": "relocate", "at_query": 61}]
    result = sim.run(make_scenario(users=users, shifts=shifts), out=tmp_path / "run", figures=False)
    reader = Reader(section(report.page([result]), "time"))
    rows = [line.split("±") for line in reader.texts["tr"]]
    summary = result.adaptation().summary
    assert summary["pooled_censored"].any()
    for row in summary.to_dict("records"):
        own = [cells for cells in rows if cells[0].startswith(row["lppm"] + row["attack"])]
        assert len(own) == 1
        sign = "> " if row["pooled_censored"] else ""
        ending = f"{row['censored']} of {row['users']}{sign}{row['pooled_queries_to_recover']:.0f}"
        assert own[0][-1].endswith(ending)
        assert f"{row['efficiency_before']:.3f}" in own[0][0]
    (chart,) = data_of(report.page([result]))["charts"]["adaptation"]
    curve = chart["panels"][0]["curves"][0]
    assert curve["y"][curve["y"].index(None) + 1] is not None
    assert [mark["x"] for mark in chart["marks"]] == [0.0]


def test_shifts_are_marked_at_the_drawn_sweep_point(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(
        shifts=[{"kind": "new_places", "at_query": 13}], sweep={"shifts.new_places.at_query": [9, 13, 20]}
    )
    data = data_of(report.page([sim.run(scenario, out=tmp_path / "run", figures=False)]))
    for chart in data["charts"]["time"]:
        assert [mark["x"] for mark in chart["marks"]] == [13.0]
    assert {shift["index"] for shift in data["replay"][0]["shifts"]} == {13}


def test_losses_of_services_are_computed_with_the_run(make_scenario: MakeScenario, tmp_path: Path) -> None:
    (tmp_path / "cafes.csv").write_text("lat,lon\n37.75,-122.45\n37.70,-122.42\n37.60,-122.48\n")
    world = {"services": {"cafes": {"kind": "nearest_points", "file": str(tmp_path / "cafes.csv"), "k": 1}}}
    folder = tmp_path / "run"
    sim.run(make_scenario(world=world), out=folder)
    written = pd.read_csv(folder / "services.csv")
    assert written["loss"].tolist() == pytest.approx(Result.open(folder).services().table["loss"].tolist())
    page = (folder / "report.html").read_text()
    assert "Loss of the users of services" in page
