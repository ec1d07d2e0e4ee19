"""What tests share: questions put together from catalogue names."""

from __future__ import annotations

from dataclasses import replace

from specsim.cli.numerics import prepare_numpy

prepare_numpy()  # before numpy is imported

import pytest

from specsim.catalog.cards import card
from specsim.cost.machine import Machine
from specsim.planning.question import Question
from specsim.report.columns import COLUMNS
from specsim.specs.acceptance import Independent
from specsim.specs.drafter import DraftModel
from specsim.specs.precision import PRECISIONS
from specsim.specs.served import ServedModel


def pytest_addoption(parser):
    parser.addoption("--regenerate", action="store_true", help="rewrite the golden files")


def served(name, tensor_parallel=1, kind=ServedModel, precision="bf16", kv_precision="bf16", **more):
    """A model of the catalogue."""
    return kind(
        model=card("model", name),
        precision=PRECISIONS[precision],
        kv_precision=kv_precision,
        tensor_parallel=tensor_parallel,
        **more,
    )


def question_of(hardware, runtime, target, draft, acceptance=None, *, memory=None, tensor_parallel=1):
    """A question about one machine; ``memory`` replaces the capacity of the device."""
    accelerator = card("hardware", hardware)
    if memory is not None:
        accelerator = replace(accelerator, memory=replace(accelerator.memory, capacity_bytes=memory))
    return Question(
        machine=Machine(accelerator, card("runtime", runtime)),
        target=served(target, tensor_parallel),
        draft=served(draft, tensor_parallel, DraftModel, acceptance=acceptance or Independent(rate=0.8)),
    )


def columns_differ(one, other, but=()):
    """Names of the columns that are not identical, bit by bit."""
    assert len(one) == len(other)
    return [
        column.name
        for column in COLUMNS
        if column.name not in but and list(one.cells(column.name)) != list(other.cells(column.name))
    ]


def plain(document):
    """A document without places, to be changed freely."""
    if isinstance(document, dict):
        return {key: plain(value) for key, value in document.items()}
    return [plain(value) for value in document] if isinstance(document, list) else document


@pytest.fixture
def paper():
    """Llama-3-8B and the 1B draft on an H100 under the paper accelerator, without a limit of memory."""
    return question_of("h100-sxm5", "lecture", "llama-3-8b", "llama-3.2-1b", memory=1e15)
