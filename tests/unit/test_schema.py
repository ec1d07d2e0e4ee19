"""The JSON Schemas admit the files that specsim reads and refuse what is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from specsim.catalog import library
from specsim.catalog.cards import RECORDS
from specsim.catalog.schema import json_schema

CORPUS = Path(__file__).parents[1] / "corpus"
SHIPPED = [(kind, library.find(kind, name)) for kind in RECORDS for name in library.names(kind)]
VALID = [(path.stem.partition("-")[0], path) for path in sorted((CORPUS / "valid").glob("*.yaml"))]
# Of the invalid files, some that a schema can tell; units of the wrong sort are among them, contradictions are not.
REFUSED = [
    "hardware-bandwidth-in-memory-unit", "hardware-bandwidth-without-unit", "hardware-efficiency-above-1",
    "hardware-unknown-field", "hardware-without-memory", "model-layers-zero", "model-unknown-norm",
    "model-without-layers", "runtime-memory-utilization-90", "runtime-overhead-without-unit",
    "scenario-acceptance-rate-above-1", "scenario-acceptance-true", "scenario-axis-nested",
    "scenario-costs-ratio-in-quotes", "scenario-draft-is-a-list", "scenario-hardware-field-without-unit",
    "scenario-kv-precision-unknown", "scenario-tensor-parallel-in-quotes", "scenario-unknown-field",
    "scenario-without-grid",
]  # fmt: skip


def faults(kind, path):
    """What the schema of a kind finds wrong in a file."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [error.message for error in Draft202012Validator(json_schema(RECORDS[kind])).iter_errors(document)]


@pytest.mark.parametrize("kind", RECORDS)
def test_a_schema_is_one(kind):
    Draft202012Validator.check_schema(json_schema(RECORDS[kind]))


@pytest.mark.parametrize(
    ("kind", "path"),
    [(kind, path) for kind, path in [*SHIPPED, *VALID] if kind in RECORDS],
    ids=lambda value: value.stem if isinstance(value, Path) else value,
)
def test_a_file_that_is_read_fits(kind, path):
    assert faults(kind, path) == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_refused_does_not_fit(name):
    assert faults(name.partition("-")[0], CORPUS / "invalid" / f"{name}.yaml")
