"""Reading scenario files: YAML 1.2 values, places, and every way in which a file can be wrong."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.belief.estimated_profile import EstimatedProfileParameters
from sim.components.suggestions import SYNONYMS, closest
from sim.lppm.designs.exponential import ExponentialParameters
from sim.lppm.designs.location_hiding import LocationHidingParameters
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import ScenarioError
from sim.scenario.reading.source import MAX_BYTES, parse_text, parse_value, read


def refusal(text: str) -> list[str]:
    """Return the faults of a text, be they fatal or not."""
    try:
        source = parse_text(text, "f")
    except ScenarioError as error:
        return [str(fault) for fault in error.faults]
    return [str(fault) for fault in source.faults]


def refusal_of_file(path: Path) -> str:
    with pytest.raises(ScenarioError) as caught:
        read(path)
    assert len(caught.value.faults) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, word) for word in ("no", "yes", "on", "off", "y", "tRue", "12:30:00", "2020-01-01", "1_000", "=")],
        *[(word, word) for word in ("0b1", "0o8", "-0x1", "1e", ".", "e5", "+", "nan", "inf", ".INf", "1.2.3", "-.")],
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[(word, None) for word in ("", "~", "null", "Null", "NULL")],
        *[("7", 7), ("-7", -7), ("+7", 7), ("007", 7), ("0o17", 15), ("0xfF", 255), ("0", 0)],
        *[("1e-3", 1e-3), ("1E5", 1e5), (".5", 0.5), ("-.5e+1", -5.0), ("1.", 1.0), ("3.25", 3.25), ("1e3", 1000.0)],
        *[(".inf", math.inf), ("-.Inf", -math.inf), ("+.INF", math.inf)],
        *[("'1e-3'", "1e-3"), ('"no"', "no"), ("'~'", "~"), ('"true"', "true"), ("|-\n  12", "12")],
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    read_back = parse_text(f"a: {text}\n", "f").data["a"]
    assert read_back == value
    assert type(read_back) is type(value)


def test_nan_is_read() -> None:
    assert all(math.isnan(x) for x in parse_text("a: [.nan, .NaN, .NAN]", "f").data["a"])


def test_pyyaml_itself_is_left_alone() -> None:
    parse_text("a: no", "f")
    assert yaml.safe_load("a: no") == {"a": False}


keys = st.text(max_size=20)  # YAML itself ends a key at 1,024 characters, escapes counted
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(keys, json_values, max_size=4))
def test_json_is_read_as_json_reads_it(data: dict[str, Any]) -> None:
    text = json.dumps(data)
    if "\\u0000" in text:
        return
    assert parse_text(text, "f").data == data


FILE = """\
# a comment
name: x
lppms:
  - SP-Exp
  - {kind: b, deep: [1, 22]}
empty:
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_every_value_knows_its_place(tmp_path: Path, newline: str, mark: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_bytes((mark + FILE.replace("\n", newline)).encode())
    source = read(path)
    assert source.name == str(path)
    assert source.data == {"name": "x", "lppms": ["SP-Exp", {"kind": "b", "deep": [1, 22]}], "empty": None}
    assert source.position(()) == (2, 1)
    assert source.position(("name",)) == (2, 7)
    assert source.position(("name",), of="key") == (2, 1)
    assert source.position(("lppms", 0)) == (4, 5)
    assert source.position(("lppms", 1, "deep"), of="key") == (5, 15)
    assert source.position(("lppms", 1, "deep", 1)) == (5, 25)
    assert source.position(("lppms", 1, "deep", 1), of="key") == (5, 25), "a list element has no key"
    assert source.where(("lppms", 1, "deep", 1)) == f"{path}:5:25"


def test_a_place_that_is_not_there_is_that_of_the_nearest_above() -> None:
    source = parse_text(FILE, "f")
    assert source.position(("lppms", 1, "nope", "nope")) == (5, 5)
    assert source.position(("lppms", 7)) == source.position(("lppms",))
    assert source.position(("lppms", 0, "design"), of="key") == (4, 5)
    assert source.position(("nope", "nope"), of="key") == (2, 1)


def test_a_replaced_value_names_who_replaced_it() -> None:
    source = parse_text(FILE, "f").overlay(("lppms", 0, "a"), 3, "--set x")
    assert source.data["lppms"][0] == {"kind": "SP-Exp", "a": 3}
    assert source.where(("lppms", 0, "a", "b")) == "--set x"
    assert source.where(("lppms", 0)) == "f:4:5"
    assert parse_text(FILE, "f").data["lppms"][0] == "SP-Exp"


def test_a_part_keeps_its_places() -> None:
    part = parse_text(FILE, "f").below(("lppms", 1))
    assert part.data == {"kind": "b", "deep": [1, 22]}
    assert part.where(("deep", 1)) == "f:5:25"


def test_duplicate_keys_are_named_with_both_places() -> None:
    source = parse_text("a: 1\nb:\n  c: 1\n  d: 2\n  'c': 3\na: 2\n", "f")
    assert source.data == {"a": 1, "b": {"c": 1, "d": 2}}
    assert list(map(str, source.faults)) == [
        "f:5:3: b.c: this key is given twice: first in line 3, column 3",
        "f:6:1: a: this key is given twice: first in line 1, column 1",
    ]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\n3: 4\n", "f:2:1", "keys are text, found 3"),
        ("true: 4\n", "f:1:1", "keys are text, found true"),
        ("a: {~: 4}\n", "f:1:5: a", "keys are text, found nothing (null)"),
        ("{{name}}: 1\n", "f:1:1", "found a mapping as a key"),
        ("? [a]\n: 1\n", "f:1:3", "found a list as a key"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "f:3:3: c", "merge keys (<<) are not supported"),
        ("a: !!python/object/apply:os.system [ls]\n", "f:1:4: a", "python/object/apply:os.system"),
        ("a: !!int '3'\n", "f:1:4: a", "found the tag"),
        ("a: ! x\n", "f:1:4: a", "found the tag '!'"),
        ("!x a: 1\n", "f:1:1", "found the tag '!x'"),
        ("a: " + "9" * 41, "f:1:4: a", "a whole number of more than 40 digits"),
        ("a: 0x" + "f" * 5000, "f:1:4: a", "a whole number of more than 40 digits"),
        ('a: "\\ud800"', "f:1:4: a", "no character"),
        ('a: "\\0"', "f:1:4: a", "no character"),
        ("a: 1\n\tb: 2\n", "f:2:1", "found a tab"),
        ("a:\n\t- 2\n", "f:2:1", "found a tab"),
        ("a: *nope\n", "f:1:4", "found undefined alias 'nope'; does a text need quotes here?"),
        ("a: @x\n", "f:1:4", "does a text need quotes here?"),
        ("a: &x 1\nb: &x 2\n", "f:2:4", "duplicate anchor"),
        ("a: 1\n---\nb: 2\n", "f:2:1", "second document"),
        ("a: &x [*x]\n", "f:1:4: a.0", "an alias (*name) stands inside what it names"),
        ("a: &x {b: {c: *x}}\n", "f:1:4: a.b.c", "an alias (*name) stands inside what it names"),
        ("a: 1\nb: \x01\n", "f:2:4", "U+0001"),
        ("a: 1\nb: \0\n", "f:2:4", "U+0000"),
        ('a: "\\UFFFFFFFF"', "f:1:", "not valid YAML"),
        ('a: "\\U00110000"', "f:1:", "not valid YAML"),
        ("%YAML 1." + "9" * 5000 + "\n---\na: 1", "f:1:", "not valid YAML"),
        ("", "f:1:1", "`lppm-sim new`"),
        ("# only a comment\n", "f:1:1", "`lppm-sim new`"),
        ("--- ~", "f:1:1", "`lppm-sim new`"),
        ("[1, 2]", "f:1:1", "a scenario is a mapping (key: value), found [1, 2]"),
        ("\n  hello", "f:2:3", "a scenario is a mapping (key: value), found 'hello'"),
        ("a: " + "[" * 100_000, "f:1:53", "nested too deep"),
        ("- " * 100_000, "f:1:101", "nested too deep"),
        ("a: " + "[" * 60 + "]" * 60, "f:1:53", "nested too deep"),
    ],
)
def test_a_wrong_file_is_refused_at_its_place(text: str, place: str, words: str) -> None:
    (fault,) = refusal(text)
    assert fault.startswith(place)
    assert words in fault
    assert len(fault) < 300


LEVELS = "this line is indented by {} but the keys above it by {}".format
ITEMS = "this line is indented by {} but the list items above it by {}".format
NO_KEY = "this line is no `key: value`: "
MORE = "found more after the end of a value; is a quote missing or one too many, or does all of it need quotes?"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        # indented too far, or not far enough
        ("u:\n  c: 2\n   q: 6\n", f"3:4: {LEVELS('3 spaces,', '2 (line 2) or 0 (line 1)')}"),
        ("u:\n   c: 2\n  q: 6\n", f"3:3: {LEVELS('2 spaces,', '3 (line 2) or 0 (line 1)')}"),
        ("u:\n   # x\n   c: 2\n\n  q: 6\n", f"5:3: {LEVELS('2 spaces,', '3 (line 3) or 0 (line 1)')}"),
        ("u:\n  c: 2\n s: 1\n", f"3:2: {LEVELS('1 space,', '2 (line 2) or 0 (line 1)')}"),
        ("s: 1\n n: x\n", f"2:2: {LEVELS('1 space,', '0 (line 1)')}"),
        (" s: 1\nn: x\n", f"2:1: {LEVELS('0 spaces,', '1 (line 1)')}"),
        ("a:\n  u:\n      c: 2\n    q: 6\n", f"4:5: {LEVELS('4 spaces,', '6 (line 3), 2 (line 2) or 0 (line 1)')}"),
        ("u: {c: 2}\n  q: 3\n", f"2:3: {LEVELS('2 spaces,', '0 (line 1)')}"),
        ("a: 'x'\n  b: 1\n", f"2:3: {LEVELS('2 spaces,', '0 (line 1)')}"),
        ("l:\n  - k: a\n     n: b\n", f"3:6: {LEVELS('5 spaces,', '4 (line 2) or 0 (line 1)')}"),
        ("l:\n  - k: a\n   n: b\n", f"3:4: {LEVELS('3 spaces,', '4 (line 2) or 0 (line 1)')}"),
        ("l:\n  - k: a\n  n: b\n", f"3:3: {LEVELS('2 spaces,', '4 (line 2) or 0 (line 1)')}"),
        ("l:\n  - a\n - b\n", f"3:2: {ITEMS('1 space,', '2 (line 2)')}"),
        ("l:\n  - k: a\n    - k: b\n", f"3:5: {ITEMS('4 spaces,', '2 (line 2)')}"),
        ("a: 1\n- b\n", "2:1: found a list item (-) among keys; is this line indented as it should be?"),
        ("- b\na: 1\n", "2:1: found a key among list items (-); is this line indented as it should be?"),
        ("a: - b\n", "1:4: found a list item (-) in the middle of a line; give it a line of its own"),
        # no colon, no space after it
        ("a: 1\nb\nc: 2", f"2:1: {NO_KEY}a ':' is missing"),
        ("n: x\nseed 1\nu: y\n", f"2:1: {NO_KEY}a ':' is missing"),
        ("users\n  c: 2\n", f"1:1: {NO_KEY}a ':' is missing"),
        ("u:\n  c: 3\n  q 6\nl: [a]\n", f"3:3: {NO_KEY}a ':' is missing"),
        ("seed:1\nn: x\n", f"1:1: {NO_KEY}a space is missing after the ':'"),
        ("n: x\nseed:1\n", f"2:1: {NO_KEY}a space is missing after the ':'"),
        ("u:\n  c:2\n  q: 6\n", f"2:3: {NO_KEY}a space is missing after the ':'"),
        ("l:\n  - a\n  -b\n", "3:3: a space is missing after the '-'"),
        ("seed:1", "1:1: a scenario is a mapping (key: value), found 'seed:1' at the top level; put a space after "
         "the ':'"),
        ("a: b: c\n", "1:5: found a second ': ' in this line; does a text need quotes?"),
        # brackets
        ("a: [1, 2\n", "1:4: this '[' is never closed"),
        ("a: [1, 2\nb: 3\n", "1:4: this '[' is still open in line 2: is a ']' or a ',' missing?"),
        ("a: {b: 1\n    c: 2}\n", "1:4: this '{' is still open in line 2: is a '}' or a ',' missing?"),
        ("a: {b: 1 c: 2}\n", "1:11: expected ',' or '}' here: the '{' of column 4 is still open"),
        ("a: {b: [1}\n", "1:10: expected ',' or ']' here: the '[' of column 8 is still open"),
        ("a: [1,\n", "2:1: not valid YAML: the text ends where a value is expected; is a bracket not closed?"),
        ("a: ]\n", "1:4: not valid YAML: found ']' where a value is expected; does a text need quotes here?"),
        ("a: [1]]\n", "1:7: found a ']' that nothing opened"),
        # quotes
        ("a: 'x\nb: 1\n", "1:4: this quote (') is never closed"),
        ('a: ["x, y]\n', '1:5: this quote (") is never closed'),
        ("a: 'it's'\n", f"1:8: {MORE}"),
        ('a: "x\nb: "y"\n', f"2:5: {MORE}"),
        ('a: "C:\\data"\n', "1:8: \\d means nothing in double quotes; write the text in single quotes"),
        ("s:\n  *.x: [1]\n", "2:3: a text that begins with * needs quotes"),
        # tabs
        ("a:\n  b: 1\n  \tc: 1\n", "3:3: found a tab, but YAML is indented with spaces only"),
    ],
)  # fmt: skip
def test_the_common_slips_are_told_in_plain_words(text: str, fault: str) -> None:
    assert refusal(text) == [f"f:{fault}"]


def test_an_empty_file_is_told_what_is_needed() -> None:
    assert refusal("") == [
        "f:1:1: the file is empty, but a scenario needs at least users and lppms; "
        "`lppm-sim new` writes a template to start from"
    ]


def test_forty_nine_levels_are_fine() -> None:
    assert parse_text("a: " + "[" * 48 + "]" * 48, "f").data["a"]


def test_aliases_repeat_data_without_sharing_it() -> None:
    data = parse_text("a: &x {b: [1]}\nc: *x\n", "f").data
    assert data["a"] == data["c"] == {"b": [1]}
    assert data["a"]["b"] is not data["c"]["b"]


def test_a_fault_in_what_an_alias_repeats_is_told_once() -> None:
    assert len(refusal("a: &x {b: 1, b: 2}\nc: *x\nd: *x\n")) == 1


def test_a_billion_laughs_are_not_laughed() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (fault,) = refusal("\n".join(lines))
    assert "too much data: allowed are 100,000 values" in fault


def test_a_chain_of_aliases_cannot_nest_too_deep() -> None:
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 80))]
    (fault,) = refusal("\n".join(lines))
    assert "nested too deep" in fault


def test_too_many_values_are_refused_while_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.scenario.reading.yaml12.MAX_NODES", 20)
    (fault,) = refusal("a: [" + "1, " * 60 + "1]")
    assert "too much data" in fault
    assert refusal("a: [" + "1, " * 10 + "1]") == []


def test_faults_without_end_come_with_those_before() -> None:
    assert len(refusal("a: 1\na: 2\nb: &x [*x]")) == 2


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "commuters.yaml").write_text("a: 1")
    (tmp_path / "notes.txt").write_text("a: 1")
    assert "no such file (did you mean 'commuters.yaml'?)" in refusal_of_file(tmp_path / "comuters.yaml")
    assert "(did you mean 'commuters.yaml'?)" in refusal_of_file(tmp_path / "commuters.yml")
    assert "beside it: commuters.yaml" in refusal_of_file(tmp_path / "qqq.yaml")
    assert "is not there either" in refusal_of_file(tmp_path / "no" / "x.yaml")
    (tmp_path / "mine.yaml").write_text("a: 1")
    assert refusal_of_file(tmp_path / "nosuch.yaml").endswith("no such file; beside it: commuters.yaml, mine.yaml")
    assert refusal_of_file(tmp_path / "nine.yaml").endswith("no such file (did you mean 'mine.yaml'?)")


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    assert "this is a folder" in refusal_of_file(tmp_path)
    assert "no file name" in refusal_of_file(Path("a\0b"))
    assert "cannot be read" in refusal_of_file(tmp_path / ("x" * 5000))
    (tmp_path / "a.yaml").write_text("a: 1")
    assert "cannot be read" in refusal_of_file(tmp_path / "a.yaml" / "b.yaml")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    assert "Permission denied" in refusal_of_file(path)


@pytest.mark.parametrize(
    ("raw", "place", "words"),
    [
        (b"a: 1\nb: caf\xe9\n", ":2:7", "not UTF-8 text: found byte 0xe9 at byte 11"),
        ("b: é".encode() + b"\xff", ":1:5", "not UTF-8 text"),
        (b"a: 1\nPK\0\1", ":2:3", "not a text file: found a NUL byte at byte 7"),
        ("a: 1".encode("utf-16"), ":1:1", "save it as UTF-8"),
        ("a: 1".encode("utf-16-be"), ":1:1", "NUL byte at byte 0"),
        (b"\xfe\xff" + "a: 1".encode("utf-16-be"), ":1:1", "save it as UTF-8"),
        ("a: 1".encode("utf-32"), ":1:1", "save it as UTF-8"),
        (b"a: 1\n" * (MAX_BYTES // 5 + 1), "", "allowed are 1,000,000 bytes"),
    ],
)
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, raw: bytes, place: str, words: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(raw)
    said = refusal_of_file(path)
    assert said.startswith(f"{path}{place}: ")
    assert words in said


def test_an_endless_file_is_refused() -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("no endless file here")
    assert "too large" in refusal_of_file(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-3", 0.001),
        ("no", "no"),
        ("", None),
        ("[1, a]", [1, "a"]),
        ("{kind: x, n: 2}", {"kind": "x", "n": 2}),
    ],
)
def test_values_of_settings_are_read_as_in_a_file(text: str, value: Any) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize("text", ["[1", "a: b: c", "!!x 3", "{a: 1, a: 2}", "\0", "*", "[" * 1000])
def test_wrong_values_of_settings_are_refused(text: str) -> None:
    with pytest.raises(ScenarioError, match=r"^--set(: a)?: the value .* cannot be read: "):
        parse_value(text)


YAMLISH = st.lists(
    st.sampled_from(
        [*"ab[]{}:,-\n\t 1'\"&*!|>%?#<@`~\\\0\ufeff\u2028", "- ", ": ", "a: ", "\n  ", "&x ", "*x", "\\U00110000"]
    ),
    max_size=25,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=60) | YAMLISH | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    said = refusal(text)
    assert all(line.isprintable() and line.startswith("f:") for line in said)
    if not said:
        assert isinstance(parse_text(text, "f").data, dict)


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(raw)
    with contextlib.suppress(ScenarioError):
        assert isinstance(read(path).data, dict)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("Seed", "seed"),
        ("sp_exp", "SP-Exp"),
        ("SPEXP", "SP-Exp"),
        ("epsilon", "epsilon_per_km"),
        ("eps", "epsilon_per_km"),
        ("ep", None),
        ("horse", None),
        ("", None),
    ],
)
def test_closest(word: str, meant: str | None) -> None:
    assert closest(word, ["seed", "SP-Exp", "SP-LH", "epsilon_per_km"]) == meant
    assert closest(word, []) is None


KEYS = [*Scenario.model_fields, *ExponentialParameters.model_fields, *EstimatedProfileParameters.model_fields]
KEYS += LocationHidingParameters.model_fields


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("alpha Alpha", "reveal_probability"),
        ("epsilon eps EPS", "epsilon_per_km"),
        ("gamma", "fading"),
        ("budget q_max qmax Q-max", "quality_budget_km"),
        ("seeds", "seed"),
        ("repetitions repeats reps", "replications"),
        ("adversaries", "attacks"),
        ("mechanisms", "lppms"),
        ("population", "users"),
    ],
)
def test_common_words_find_our_keys(words: str, meant: str) -> None:
    for word in words.split():
        assert closest(word, KEYS) == meant
        assert closest(word, ["horse", word.upper()]) == word.upper(), "what is there is meant"
        assert closest(word, ["horse"]) is None, "only where the key is allowed"


def test_every_synonym_leads_to_a_key() -> None:
    assert set(SYNONYMS.values()) <= set(KEYS)
    assert all(word == word.lower() and word.isalpha() for word in SYNONYMS)
