"""Reading scenario files: YAML 1.2 values, positions, and the faults of invalid files."""

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
from sim.components.wording import shown
from sim.lppm.designs.exponential import ExponentialParameters
from sim.lppm.designs.location_hiding import LocationHidingParameters
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import Fault, ScenarioError
from sim.scenario.reading.source import MAX_BYTES, parse_text, parse_value, read
from tests.support import assert_fault, assert_faults


def faults(text: str) -> list[Fault]:
    """Return the faults of a text, whether or not they prevent further reading."""
    try:
        return list(parse_text(text, "f").faults)
    except ScenarioError as error:
        return error.faults


def fault_of_file(path: Path) -> Fault:
    """Return the only fault of a file."""
    with pytest.raises(ScenarioError) as error:
        read(path)
    (fault,) = error.value.faults
    return fault


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


def test_the_rules_of_pyyaml_are_unchanged() -> None:
    parse_text("a: no", "f")
    assert yaml.safe_load("a: no") == {"a": False}


keys = st.text(max_size=20)  # YAML limits keys to 1,024 characters, including escapes
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
def test_json_is_read_as_by_the_json_module(data: dict[str, Any]) -> None:
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
def test_every_value_has_a_position(tmp_path: Path, newline: str, mark: str) -> None:
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


def test_a_missing_location_has_the_position_of_its_nearest_parent() -> None:
    source = parse_text(FILE, "f")
    assert source.position(("lppms", 1, "nope", "nope")) == (5, 5)
    assert source.position(("lppms", 7)) == source.position(("lppms",))
    assert source.position(("lppms", 0, "design"), of="key") == (4, 5)
    assert source.position(("nope", "nope"), of="key") == (2, 1)


def test_a_replaced_value_names_its_origin() -> None:
    source = parse_text(FILE, "f").overlay(("lppms", 0, "a"), 3, "--set x")
    assert source.data["lppms"][0] == {"kind": "SP-Exp", "a": 3}
    assert source.where(("lppms", 0, "a", "b")) == "--set x"
    assert source.where(("lppms", 0)) == "f:4:5"
    assert parse_text(FILE, "f").data["lppms"][0] == "SP-Exp"


def test_a_part_keeps_its_positions() -> None:
    part = parse_text(FILE, "f").below(("lppms", 1))
    assert part.data == {"kind": "b", "deep": [1, 22]}
    assert part.where(("deep", 1)) == "f:5:25"


def test_duplicate_keys_are_reported_with_both_positions() -> None:
    source = parse_text("a: 1\nb:\n  c: 1\n  d: 2\n  'c': 3\na: 2\n", "f")
    assert source.data == {"a": 1, "b": {"c": 1, "d": 2}}
    assert_faults(
        source.faults,
        ("f:5:3: b.c [duplicate-key]", "line 3, column 3"),
        ("f:6:1: a [duplicate-key]", "line 1, column 1"),
    )


@pytest.mark.parametrize(
    ("text", "place", "code", "words"),
    [
        ("a: 1\n3: 4\n", "f:2:1", "invalid-key", "3"),
        ("true: 4\n", "f:1:1", "invalid-key", "true"),
        ("a: {~: 4}\n", "f:1:5: a", "invalid-key", "(null)"),
        ("{{name}}: 1\n", "f:1:1", "invalid-key", "a mapping"),
        ("? [a]\n: 1\n", "f:1:3", "invalid-key", "a list"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "f:3:3: c", "unsupported-yaml", "<<"),
        ("a: !!python/object/apply:os.system [ls]\n", "f:1:4: a", "unsupported-yaml", "python/object/apply:os.system"),
        ("a: !!int '3'\n", "f:1:4: a", "unsupported-yaml", "2002:int"),
        ("a: ! x\n", "f:1:4: a", "unsupported-yaml", "'!'"),
        ("!x a: 1\n", "f:1:1", "unsupported-yaml", "'!x'"),
        ("a: " + "9" * 41, "f:1:4: a", "out-of-range", "40 digits"),
        ("a: 0x" + "f" * 5000, "f:1:4: a", "out-of-range", "40 digits"),
        ('a: "\\ud800"', "f:1:4: a", "invalid-character", ""),
        ('a: "\\0"', "f:1:4: a", "invalid-character", ""),
        ("a: 1\n\tb: 2\n", "f:2:1", "invalid-yaml", "a tab"),
        ("a:\n\t- 2\n", "f:2:1", "invalid-yaml", "a tab"),
        ("a: *nope\n", "f:1:4", "invalid-yaml", "'nope'"),
        ("a: @x\n", "f:1:4", "invalid-yaml", "need quotes"),
        ("a: &x 1\nb: &x 2\n", "f:2:4", "invalid-yaml", "duplicate anchor"),
        ("a: 1\n---\nb: 2\n", "f:2:1", "invalid-yaml", "second document"),
        ("a: &x [*x]\n", "f:1:4: a.0", "recursive-alias", ""),
        ("a: &x {b: {c: *x}}\n", "f:1:4: a.b.c", "recursive-alias", ""),
        ("a: 1\nb: \x01\n", "f:2:4", "invalid-character", "U+0001"),
        ("a: 1\nb: \0\n", "f:2:4", "invalid-character", "U+0000"),
        ('a: "\\UFFFFFFFF"', "f:1:", "invalid-yaml", ""),
        ('a: "\\U00110000"', "f:1:", "invalid-yaml", ""),
        ("%YAML 1." + "9" * 5000 + "\n---\na: 1", "f:1:", "invalid-yaml", ""),
        ("", "f:1:1", "empty-file", "`lppm-sim new`"),
        ("# only a comment\n", "f:1:1", "empty-file", "`lppm-sim new`"),
        ("--- ~", "f:1:1", "empty-file", "`lppm-sim new`"),
        ("[1, 2]", "f:1:1", "wrong-type", "[1, 2]"),
        ("\n  hello", "f:2:3", "wrong-type", "'hello'"),
        ("a: " + "[" * 100_000, "f:1:53", "too-large", "50 levels"),
        ("- " * 100_000, "f:1:101", "too-large", "50 levels"),
        ("a: " + "[" * 60 + "]" * 60, "f:1:53", "too-large", "50 levels"),
    ],
)
def test_an_invalid_file_is_refused_at_its_place(text: str, place: str, code: str, words: str) -> None:
    (fault,) = faults(text)
    assert str(fault).startswith(place)
    assert fault.code == code
    assert words in fault.message
    assert len(str(fault)) < 300


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        # wrong indentation
        ("u:\n  c: 2\n   q: 6\n", ("f:3:4: [invalid-yaml]", "3 spaces", "2 (line 2) or 0 (line 1)")),
        ("u:\n   c: 2\n  q: 6\n", ("f:3:3: [invalid-yaml]", "2 spaces", "3 (line 2) or 0 (line 1)")),
        ("u:\n   # x\n   c: 2\n\n  q: 6\n", ("f:5:3: [invalid-yaml]", "2 spaces", "3 (line 3) or 0 (line 1)")),
        ("u:\n  c: 2\n s: 1\n", ("f:3:2: [invalid-yaml]", "1 space", "2 (line 2) or 0 (line 1)")),
        ("s: 1\n n: x\n", ("f:2:2: [invalid-yaml]", "1 space", "0 (line 1)")),
        (" s: 1\nn: x\n", ("f:2:1: [invalid-yaml]", "0 spaces", "1 (line 1)")),
        ("a:\n  u:\n      c: 2\n    q: 6\n",
         ("f:4:5: [invalid-yaml]", "4 spaces", "6 (line 3), 2 (line 2) or 0 (line 1)")),
        ("u: {c: 2}\n  q: 3\n", ("f:2:3: [invalid-yaml]", "2 spaces", "0 (line 1)")),
        ("a: 'x'\n  b: 1\n", ("f:2:3: [invalid-yaml]", "2 spaces", "0 (line 1)")),
        ("l:\n  - k: a\n     n: b\n", ("f:3:6: [invalid-yaml]", "5 spaces", "4 (line 2) or 0 (line 1)")),
        ("l:\n  - k: a\n   n: b\n", ("f:3:4: [invalid-yaml]", "3 spaces", "4 (line 2) or 0 (line 1)")),
        ("l:\n  - k: a\n  n: b\n", ("f:3:3: [invalid-yaml]", "2 spaces", "4 (line 2) or 0 (line 1)")),
        ("l:\n  - a\n - b\n", ("f:3:2: [invalid-yaml]", "1 space", "2 (line 2)", "list item")),
        ("l:\n  - k: a\n    - k: b\n", ("f:3:5: [invalid-yaml]", "4 spaces", "2 (line 2)", "list item")),
        ("a: 1\n- b\n", ("f:2:1: [invalid-yaml]", "a list item (-) among keys")),
        ("- b\na: 1\n", ("f:2:1: [invalid-yaml]", "a key among list items (-)")),
        ("a: - b\n", ("f:1:4: [invalid-yaml]", "a list item (-) in the middle of a line")),
        # no colon, no space after it
        ("a: 1\nb\nc: 2", ("f:2:1: [invalid-yaml]", "`key: value`", "a ':' is missing")),
        ("n: x\nseed 1\nu: y\n", ("f:2:1: [invalid-yaml]", "`key: value`", "a ':' is missing")),
        ("users\n  c: 2\n", ("f:1:1: [invalid-yaml]", "`key: value`", "a ':' is missing")),
        ("u:\n  c: 3\n  q 6\nl: [a]\n", ("f:3:3: [invalid-yaml]", "`key: value`", "a ':' is missing")),
        ("seed:1\nn: x\n", ("f:1:1: [invalid-yaml]", "`key: value`", "a space is missing")),
        ("n: x\nseed:1\n", ("f:2:1: [invalid-yaml]", "`key: value`", "a space is missing")),
        ("u:\n  c:2\n  q: 6\n", ("f:2:3: [invalid-yaml]", "`key: value`", "a space is missing")),
        ("l:\n  - a\n  -b\n", ("f:3:3: [invalid-yaml]", "a space is missing")),
        ("seed:1", ("f:1:1: [wrong-type]", "'seed:1'", "put a space after the ':'")),
        ("a: b: c\n", ("f:1:5: [invalid-yaml]", "a second ': ' in this line")),
        # brackets
        ("a: [1, 2\n", ("f:1:4: [invalid-yaml]", "never closed")),
        ("a: [1, 2\nb: 3\n", ("f:1:4: [invalid-yaml]", "line 2", "]", "still open")),
        ("a: {b: 1\n    c: 2}\n", ("f:1:4: [invalid-yaml]", "line 2", "}", "still open")),
        ("a: {b: 1 c: 2}\n", ("f:1:11: [invalid-yaml]", "expected ',' or '}'", "column 4", "still open")),
        ("a: {b: [1}\n", ("f:1:10: [invalid-yaml]", "expected ',' or ']'", "column 8", "still open")),
        ("a: [1,\n", ("f:2:1: [invalid-yaml]", "where a value is expected")),
        ("a: ]\n", ("f:1:4: [invalid-yaml]", "']' where a value is expected")),
        ("a: [1]]\n", ("f:1:7: [invalid-yaml]", "a ']' without an opening bracket")),
        # quotes
        ("a: 'x\nb: 1\n", ("f:1:4: [invalid-yaml]", "never closed")),
        ('a: ["x, y]\n', ("f:1:5: [invalid-yaml]", "never closed")),
        ("a: 'it's'\n", ("f:1:8: [invalid-yaml]", "after the end of a value", "a quote missing")),
        ('a: "x\nb: "y"\n', ("f:2:5: [invalid-yaml]", "after the end of a value", "a quote missing")),
        ('a: "C:\\data"\n', ("f:1:8: [invalid-yaml]", "\\d", "single quotes")),
        ("s:\n  *.x: [1]\n", ("f:2:3: [invalid-yaml]", "starts with *", "needs quotes")),
        # tabs
        ("a:\n  b: 1\n  \tc: 1\n", ("f:3:3: [invalid-yaml]", "a tab, but YAML is indented with spaces only")),
    ],
)  # fmt: skip
def test_common_syntax_errors_are_explained(text: str, fault: tuple[str, ...]) -> None:
    assert_faults(faults(text), fault)


def test_an_empty_file_is_refused_with_the_required_keys() -> None:
    assert_faults(faults(""), ("f:1:1: [empty-file]", "users and lppms", "`lppm-sim new`"))


def test_forty_nine_levels_are_allowed() -> None:
    assert parse_text("a: " + "[" * 48 + "]" * 48, "f").data["a"]


def test_aliases_repeat_data_without_sharing_it() -> None:
    data = parse_text("a: &x {b: [1]}\nc: *x\n", "f").data
    assert data["a"] == data["c"] == {"b": [1]}
    assert data["a"]["b"] is not data["c"]["b"]


def test_a_fault_in_an_aliased_node_is_reported_once() -> None:
    assert len(faults("a: &x {b: 1, b: 2}\nc: *x\nd: *x\n")) == 1


def test_exponential_alias_expansion_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    (fault,) = faults("\n".join(lines))
    assert_fault(fault, "[too-large]", "100,000 values")


def test_a_chain_of_aliases_is_limited_in_depth() -> None:
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 80))]
    (fault,) = faults("\n".join(lines))
    assert_fault(fault, "[too-large]", "50 levels")


def test_too_many_values_are_refused_while_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.scenario.reading.yaml12.MAX_NODES", 20)
    (fault,) = faults("a: [" + "1, " * 60 + "1]")
    assert_fault(fault, "[too-large]", "values")
    assert faults("a: [" + "1, " * 10 + "1]") == []


def test_a_fault_that_stops_reading_is_reported_with_earlier_ones() -> None:
    assert len(faults("a: 1\na: 2\nb: &x [*x]")) == 2


def test_a_missing_file_suggests_a_similar_name(tmp_path: Path) -> None:
    (tmp_path / "commuters.yaml").write_text("a: 1")
    (tmp_path / "notes.txt").write_text("a: 1")
    assert_fault(fault_of_file(tmp_path / "comuters.yaml"), "[file-not-found]", "(did you mean 'commuters.yaml'?)")
    assert "(did you mean 'commuters.yaml'?)" in fault_of_file(tmp_path / "commuters.yml").message
    assert fault_of_file(tmp_path / "qqq.yaml").message.endswith(": commuters.yaml")
    assert f"{str(tmp_path / 'no')!r}" in fault_of_file(tmp_path / "no" / "x.yaml").message
    (tmp_path / "mine.yaml").write_text("a: 1")
    assert fault_of_file(tmp_path / "nosuch.yaml").message.endswith(": commuters.yaml, mine.yaml")
    assert fault_of_file(tmp_path / "nine.yaml").message.endswith("(did you mean 'mine.yaml'?)")


def test_paths_that_are_not_readable_files_are_refused(tmp_path: Path) -> None:
    assert fault_of_file(tmp_path).code == "is-a-folder"
    assert fault_of_file(Path("a\0b")).code == "file-error"
    assert fault_of_file(tmp_path / ("x" * 5000)).code == "file-error"
    (tmp_path / "a.yaml").write_text("a: 1")
    assert fault_of_file(tmp_path / "a.yaml" / "b.yaml").code == "file-error"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    assert_fault(fault_of_file(path), "[file-error]", "Permission denied")


@pytest.mark.parametrize(
    ("raw", "place", "words"),
    [
        (b"a: 1\nb: caf\xe9\n", ":2:7: [not-utf8]", "0xe9 at byte 11"),
        ("b: é".encode() + b"\xff", ":1:5: [not-utf8]", "0xff"),
        (b"a: 1\nPK\0\1", ":2:3: [not-utf8]", "NUL byte at byte 7"),
        ("a: 1".encode("utf-16"), ":1:1: [not-utf8]", "UTF-16 or UTF-32"),
        ("a: 1".encode("utf-16-be"), ":1:1: [not-utf8]", "NUL byte at byte 0"),
        (b"\xfe\xff" + "a: 1".encode("utf-16-be"), ":1:1: [not-utf8]", "UTF-16 or UTF-32"),
        ("a: 1".encode("utf-32"), ":1:1: [not-utf8]", "UTF-16 or UTF-32"),
        (b"a: 1\n" * (MAX_BYTES // 5 + 1), ": [too-large]", "1,000,000 bytes"),
    ],
)
def test_files_that_are_not_text_are_refused(tmp_path: Path, raw: bytes, place: str, words: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(raw)
    assert_faults([fault_of_file(path)], (f"{path}{place}", words))


def test_an_endless_file_is_refused() -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("no endless file here")
    assert fault_of_file(Path("/dev/zero")).code == "too-large"


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


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[1", "invalid-yaml"),
        ("a: b: c", "invalid-yaml"),
        ("!!x 3", "unsupported-yaml"),
        ("{a: 1, a: 2}", "duplicate-key"),
        ("\0", "invalid-character"),
        ("*", "invalid-yaml"),
        ("[" * 1000, "too-large"),
    ],
)
def test_invalid_values_of_settings_are_refused(text: str, code: str) -> None:
    with pytest.raises(ScenarioError, match=r"^--set(: a)?: ") as error:
        parse_value(text)
    assert error.value.codes == [code]
    assert shown(text) in str(error.value)


YAMLISH = st.lists(
    st.sampled_from(
        [*"ab[]{}:,-\n\t 1'\"&*!|>%?#<@`~\\\0\ufeff\u2028", "- ", ": ", "a: ", "\n  ", "&x ", "*x", "\\U00110000"]
    ),
    max_size=25,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=60) | YAMLISH | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    problems = list(map(str, faults(text)))
    assert all(line.isprintable() and line.startswith("f:") for line in problems)
    if not problems:
        assert isinstance(parse_text(text, "f").data, dict)


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(raw)
    with contextlib.suppress(ScenarioError):
        assert isinstance(read(path).data, dict)


@pytest.mark.parametrize(
    ("word", "expected"),
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
def test_closest(word: str, expected: str | None) -> None:
    assert closest(word, ["seed", "SP-Exp", "SP-LH", "epsilon_per_km"]) == expected
    assert closest(word, []) is None


KEYS = [*Scenario.model_fields, *ExponentialParameters.model_fields, *EstimatedProfileParameters.model_fields]
KEYS += LocationHidingParameters.model_fields


@pytest.mark.parametrize(
    ("words", "expected"),
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
def test_synonyms_suggest_the_keys(words: str, expected: str) -> None:
    for word in words.split():
        assert closest(word, KEYS) == expected
        assert closest(word, ["horse", word.upper()]) == word.upper(), "an existing key takes precedence"
        assert closest(word, ["horse"]) is None, "no suggestion if the key is not allowed"


def test_every_synonym_stands_for_a_key() -> None:
    assert set(SYNONYMS.values()) <= set(KEYS)
    assert all(word == word.lower() and word.isalpha() for word in SYNONYMS)
