"""The command `protect`: a stream through a pipe, restarted, with the options of the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sim.cli import main
from tests.support import refused

GRID = "{kind: region, rows: 4, cols: 5, south: 37.6, north: 37.64, west: -122.5, east: -122.44}"
NEW = ("--lppm", "PEB-Exp", "--grid", GRID, "--set", "design.epsilon_per_km=2")
LINES = [json.dumps({"time": 60 * number, "lat": 37.61, "lon": -122.49}) for number in range(6)]


def protect(*arguments: str, lines: list[str] = LINES) -> Result:
    """Run the command with lines as its input."""
    return CliRunner().invoke(main, ["protect", *arguments], input="".join(f"{line}\n" for line in lines))


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_stream_is_protected_and_continued() -> None:
    first = protect(*NEW, "--state", "s", lines=LINES[:4])
    assert first.exit_code == 0, first.output
    answers = [json.loads(line) for line in first.stdout.splitlines()]
    assert [answer["status"] for answer in answers] == ["reported"] * 4
    again = protect("--state", "s")
    assert again.stdout.splitlines()[:4] == first.stdout.splitlines()
    assert "2 reported" in again.stderr
    assert "4 repeated" in again.stderr
    assert "4 answers" not in again.stderr


def test_invalid_lines_make_the_command_fail_at_the_end() -> None:
    result = protect(*NEW, "--state", "s", lines=[LINES[0], "{}", LINES[1]])
    assert result.exit_code == 1
    assert [json.loads(line)["status"] for line in result.stdout.splitlines()] == ["reported", "invalid", "reported"]
    assert "line 2" in result.stderr


def test_seed_is_possible_with_a_warning() -> None:
    runs = [protect(*NEW, "--state", name, "--seed", "4") for name in "ab"]
    assert runs[0].stdout == runs[1].stdout
    assert "for tests only" in runs[0].stderr
    assert "for tests only" in protect("--state", "a").stderr


def test_scenario_gives_world_mechanism_and_training() -> None:
    users = "users: {count: 2, queries: 6, mobility: favourites}\nattacks: []\n"
    lppms = "lppms: [{kind: MK-Exp, name: mine, design: {epsilon_per_km: 3.0}}, SP-Exp]\n"
    Path("a.yaml").write_text(
        f"world: {{grid: {GRID}}}\n{users}{lppms}training: {{o: {{kind: others, count: 3, queries: 9}}}}\n"
    )
    Path("b.yaml").write_text(
        f"world: {{grid: {GRID}}}\nusers: {{count: 2, queries: 6, past_queries: 3, mobility: favourites}}\n"
        f"attacks: []\n{lppms}training: {{o: own_past}}\n"
    )
    result = protect("--scenario", "a.yaml", "--lppm", "mine", "--state", "s")
    assert result.exit_code == 0, result.output
    assert "no counted training data" not in result.stderr
    header = json.loads(Path("s").read_bytes().splitlines()[0].rpartition(b" ")[0])
    assert header["setup"]["lppm"]["design"]["epsilon_per_km"] == 3.0
    assert header["training"]["n_visits"] == 27
    options = ("protect", "--state", "t", "--scenario")
    assert "[no-such-lppm]" in refused(*options, "a.yaml")
    assert "[no-such-lppm]" in refused(*options, "a.yaml", "--lppm", "other")
    assert "[training-of-simulated-user]" in refused(*options, "b.yaml", "--lppm", "mine")
    assert "exclude each other" in refused(*options, "a.yaml", "--grid", "san_francisco")
    Path("traces.csv").write_text("user,time,lat,lon\na,0,37.61,-122.49\na,60,37.62,-122.49\n")
    result = protect("--scenario", "b.yaml", "--lppm", "mine", "--state", "t", "--train", "traces.csv")
    assert result.exit_code == 0, result.output
    header = json.loads(Path("t").read_bytes().splitlines()[0].rpartition(b" ")[0])
    assert header["training"]["n_visits"] == 2


def test_wrong_requests_are_refused() -> None:
    assert "begin one, --lppm and --grid or --scenario must be given [missing-option]" in refused(
        "protect", "--state", "s"
    )
    assert "begin one, --grid or --scenario must be given" in refused("protect", "--state", "s", "--lppm", "SP-Exp")
    assert "begin one, --lppm must be given" in refused("protect", "--state", "s", "--grid", GRID)
    assert "[invalid-setting]" in refused("protect", *NEW, "--state", "s", "--set", "design")
    assert "epsilon_per_km" in refused("protect", *NEW, "--state", "s", "--set", "design.epsilon=1")
    assert "[learns-from-cells]" in refused("protect", "--lppm", "PEB-full-Exp", "--grid", GRID, "--state", "s")
    assert not Path("s").exists()


@pytest.mark.parametrize(
    ("options", "differs", "omit"),
    [
        (("--set", "design.epsilon_per_km=3"), "`design.epsilon_per_km` is 2.0 in the state, got 3.0.", "`--set`"),
        (("--lppm", "PEB-Exp"), "`design.epsilon_per_km` is 2.0 in the state", "`--lppm`"),
        (("--lppm", "PEB-LH", "--set", "design.remap=false"), '`design.kind` is "exponential"', "`--lppm` and `--set`"),
        (("--grid", "san_francisco"), '`world.grid.kind` is "region" in the state', "`--grid`"),
        (("--seed", "4"), "`seed` is not set in the state, got 4.", "`--seed`"),
        (("--outside", "nearest"), '`outside` is "refuse" in the state, got "nearest"', "`--outside`"),
        (("--markov-restart", "daily"), '`markov_restart` is "never" in the state', "`--markov-restart`"),
        (("--train", "traces.csv"), "the training data differ.", "`--train`"),
        (("--scenario", "other.yaml", "--lppm", "mine"), "`design.epsilon_per_km`", "`--scenario` and `--lppm`"),
        (("--scenario", "other.yaml", "--train", "traces.csv"), "; and 1 more.", "`--scenario` and `--train`"),
        (("--scenario", "other.yaml", "--outside", "nearest"), "; and 1 more.", "`--scenario` and `--outside`"),
    ],
    ids=str,
)
def test_mismatch_names_values_and_options_to_omit(options: tuple[str, ...], differs: str, omit: str) -> None:
    Path("traces.csv").write_text("user,time,lat,lon\na,0,37.61,-122.49\na,60,37.62,-122.49\n")
    Path("other.yaml").write_text(
        f"world: {{grid: {GRID}}}\nusers: {{count: 2, queries: 6, mobility: favourites}}\nattacks: []\n"
        "lppms: [{kind: PEB-Exp, name: mine, design: {epsilon_per_km: 3.0}}]\nseed: 8\n"
    )
    protect(*NEW, "--state", "s")
    message = refused("protect", "--state", "s", *options)
    assert "[state-mismatch]" in message
    assert differs in message
    assert f". Omit {omit} to continue it" in message


def test_custom_design_is_used_with_a_belief(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("night.py").write_text(
        "import numpy as np\nfrom sim import MatrixChannel\n\n\nclass Night:\n    uses_prior = False\n\n"
        "    def __init__(self, *, world):\n        self._channel = MatrixChannel(np.eye(world.n_cells))\n\n"
        "    def __call__(self, prior):\n        return self._channel\n"
    )
    monkeypatch.delitem(sys.modules, "night", raising=False)
    message = refused("protect", "--state", "s", "--lppm", "night:Night", "--allow-code", "--grid", GRID)
    assert "[complete-mechanism-in-stream]" in message
    entry = '{name: NAME, belief: fixed_profile, design: {kind: "night:Night"}}'
    assert f"`{entry}`" in message
    assert "`--scenario FILE --lppm NAME --allow-code`" in message
    Path("FILE").write_text(
        f"world: {{grid: {GRID}}}\nusers: {{count: 1, queries: 1, mobility: favourites}}\n"
        f"lppms: [{entry}]\nattacks: []\n"
    )
    result = protect("--state", "s", "--scenario", "FILE", "--lppm", "NAME", "--allow-code")
    assert result.exit_code == 0, result.output
    assert "6 reported" in result.stderr


def test_every_answer_leaves_the_process_before_the_next_query_arrives() -> None:
    command = [sys.executable, "-m", "sim.cli", "protect", *NEW, "--state", "s"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}) as process:  # type: ignore[call-overload]
        given = []
        for line in LINES[:3]:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            given.append(process.stdout.readline().decode().rstrip())
        process.send_signal(signal.SIGKILL)
    assert protect("--state", "s", lines=LINES[:3]).stdout.splitlines() == given
