"""Empty cards: each reads as a card, and none of the fields that its kind may have is left out or made up."""

from __future__ import annotations

import dataclasses
import re
from typing import get_args

import pytest

from specsim.catalog import library
from specsim.catalog.cards import RECORDS, card
from specsim.catalog.resolve import read_scenario
from specsim.catalog.schema import json_schema
from specsim.catalog.validate import written_fields
from specsim.specs.card import Card
from specsim.specs.fields import Kind, Tagged
from specsim.specs.head import HEADS


def names_of(annotation, seen=frozenset()):
    """Names of all fields of a record, of the records inside it, and of all forms of a union; not of cards inside."""
    metadata = getattr(annotation, "__metadata__", ())
    if any(isinstance(mark, Kind) for mark in metadata):
        return
    tagged = next((mark for mark in metadata if isinstance(mark, Tagged)), None)
    for part in tagged.records if tagged is not None else (annotation, *get_args(annotation)):
        if dataclasses.is_dataclass(part) and part not in seen and not (seen and issubclass(part, Card)):
            for field in written_fields(part):
                yield field.written
                yield from names_of(field.annotation, seen | {part})
        elif part is not annotation:
            yield from names_of(part, seen or {Card})


def written(text):
    """Every word before a colon in a template, comments included."""
    return set(re.findall(r"([a-z_0-9]+):", text))


@pytest.mark.parametrize("kind", RECORDS)
def test_every_field_of_a_kind_stands_in_its_template(kind):
    text = library.template(kind)
    if kind == "scenario":
        # Forms of acceptance are described where acceptance is.
        wanted = {
            "hardware",
            "node",
            "runtime",
            "target",
            "draft",
            "drafts",
            "acceptance",
            "costs",
            "extrapolate",
            "grid",
        }
        wanted |= {"precision", "kv_precision", "tensor_parallel", "pipeline_parallel", "expert_parallel"}
        wanted |= {"attention_data_parallel", "offloaded", "source_tokens", "draft_cost_ratio", "verify_cost_ratio"}
        wanted |= {"plain_step", "plain_step_at", "repair", "overhead", "draft_operations_ratio", "batch_size", "gamma"}
        assert wanted <= written(text)
        return
    wanted = set(names_of(RECORDS[kind]))
    if kind == "head":
        # Attention and feed-forward part are described in the template of a model.
        wanted = {field.written for record in HEADS for field in written_fields(record)}
    assert wanted <= written(text), wanted - written(text)


@pytest.mark.parametrize("kind", RECORDS)
def test_a_template_reads_as_what_it_is_for(kind, tmp_path):
    path = tmp_path / f"{kind}.yaml"
    path.write_text(library.template(kind), encoding="utf-8")
    if kind == "scenario":
        assert len(read_scenario(path).scenarios) == 1
    else:
        assert card(kind, str(path)).name == f"my-{kind if kind != 'hardware' else 'accelerator'}"


@pytest.mark.parametrize("kind", ["hardware", "node", "kernels", "model", "head", "runtime"])
def test_a_template_reads_with_every_comment_that_is_a_line_of_its_own(kind, tmp_path):
    """Comments that hold a field are right too: each is put in place of what it may replace."""
    text = library.template(kind)
    fields = json_schema(RECORDS[kind]).get("properties") or {}
    for match in re.finditer(r"^# ([a-z_0-9]+): [^\n]*[^,\n]$", text, re.MULTILINE):
        name = match[1]
        if name in fields and match[0].count("{") == match[0].count("}") and name not in CONTRADICT:
            kept = "\n".join(line for line in text.splitlines() if not line.startswith(f"{name}:"))
            path = tmp_path / "card.yaml"
            path.write_text(kept + "\n" + match[0].removeprefix("# ") + "\n", encoding="utf-8")
            card(kind, str(path))


CONTRADICT = (
    "layer_pattern",
    "sliding_window",
    "experts",
    "network_efficiency",
    "network_latency",
    "sources",
    "assumptions",
)
"""Fields that need another field beside them."""
