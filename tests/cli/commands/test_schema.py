"""The command `schema`: shipped scenarios match the schema, invalid ones do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sim.scenario import models
from sim.scenario.reading.source import read
from tests.support import ROOT, done

SHIPPED = [*sorted((ROOT / "scenarios").rglob("*.yaml")), ROOT / "sim" / "scenario" / "template.yaml"]


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft202012Validator:
    content = json.loads(done("schema"))
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_scenarios_match_the_schema(path: Path, schema: jsonschema.Draft202012Validator) -> None:
    assert [error.message for error in schema.iter_errors(read(path).data)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"lppms": []},
        {"lppms": ["SP-Epx"]},
        {"replications": 0},
        {"replications": "3"},
        {"sede": 1},
        {"users": {"mobility": "favorites", "queries": 3}},
        {"users": {"mobility": {"kind": "favourites", "place": 3}, "queries": 3}},
        {"world": {"grid": {"kind": "rectangle", "rows": 4}}},
        {"lppms": [{"name": "x", "belief": "fixed_profile"}]},
        {"attacks": [{"kind": "sporadic", "knows": "everything"}]},
    ],
)
def test_invalid_scenarios_do_not_match_the_schema(
    change: dict[str, Any], schema: jsonschema.Draft202012Validator, small: Path
) -> None:
    data = read(small).data
    assert list(schema.iter_errors(data)) == []
    assert list(schema.iter_errors(data | change)) != []
    with pytest.raises(ValueError, match="validation error"):
        models.Scenario.model_validate(data | change)
