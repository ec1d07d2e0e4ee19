"""Timing, and cards of this machine: what was fitted comes back, and what is written is read by the planner."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

import specsim
from specsim.accuracy.this_machine import DraftedRun, Measurements, cards_of, pass_seconds, predicted_speedup
from specsim.catalog.cards import card
from specsim.cli import main
from specsim.cost.machine import Machine
from specsim.reference.timing import time_in_turn
from specsim.specs.hardware import DenseRates, Hardware, Kernels, Memory
from specsim.specs.precision import PRECISIONS
from specsim.specs.runtime import Runtime
from specsim.specs.served import ServedModel

TARGET = ServedModel(model=card("model", "smollm2-135m"), precision=PRECISIONS["fp32"], kv_precision="fp32")
KERNELS = Kernels(
    memory_efficiency=1.0, attention_memory_efficiency=0.5, compute_efficiency=1.0, several_rows_efficiency=0.7
)
MACHINE = Machine(
    Hardware(
        memory=Memory(capacity_bytes=2e10, bandwidth_bytes_per_second=12e9),
        dense_rate=DenseRates(fp32_operations_per_second=9e10),
        kernels=KERNELS,
    ),
    Runtime(layer_overhead_seconds=2e-4, token_overhead_seconds=2e-3),
)


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def measurements(**more):
    passes = {tokens: pass_seconds(TARGET, MACHINE, tokens, 64) for tokens in (1, 4, 16)}
    given = {
        "bytes_per_second": 12e9, "attention_bytes_per_second": 6e9, "operations_per_second": 9e10,
        "memory_bytes": 2e10, "context": 64, "pass_seconds": passes,
    }  # fmt: skip
    return Measurements(**given | more)


def test_a_machine_is_found_from_its_own_passes():
    found = cards_of(measurements(), TARGET, "a machine")
    assert found.hardware.kernels.several_rows_efficiency == pytest.approx(0.7, abs=1e-3)
    assert found.runtime.layer_overhead_seconds == pytest.approx(2e-4, rel=1e-2)
    assert found.runtime.token_overhead_seconds == pytest.approx(2e-3, rel=1e-2)
    for tokens, context in ((2, 512), (8, 512), (32, 512), (1, 2000)):
        wanted = pass_seconds(TARGET, MACHINE, tokens, context)
        assert pass_seconds(TARGET, found, tokens, context) == pytest.approx(wanted, rel=1e-3)


def test_constants_stay_possible_where_times_are_not():
    """A pass that is faster than plain products, and passes of more tokens that take no longer."""
    found = cards_of(measurements(pass_seconds={1: 0.01, 4: 0.01, 16: 0.009}), TARGET, "a machine")
    assert found.runtime.layer_overhead_seconds == 0
    assert found.runtime.token_overhead_seconds == 0
    assert 0 < found.hardware.kernels.several_rows_efficiency <= 1


def test_products_of_several_rows_reach_less_of_the_bandwidth():
    plain = replace(MACHINE, hardware=replace(MACHINE.hardware, kernels=replace(KERNELS, several_rows_efficiency=1.0)))
    assert pass_seconds(TARGET, plain, 1, 64) == pass_seconds(TARGET, MACHINE, 1, 64)
    assert pass_seconds(TARGET, plain, 2, 64) < 0.8 * pass_seconds(TARGET, MACHINE, 2, 64)


def test_a_lookup_without_finds_gains_nothing_and_one_that_finds_does():
    run = DraftedRun(gamma=7, tokens_per_round=6.0, hit_rate=1.0, host_seconds=0.0, layers=None, context=200)
    assert predicted_speedup(run, TARGET, MACHINE) > 2
    rarely = replace(run, hit_rate=0.01)
    assert predicted_speedup(rarely, TARGET, MACHINE) == pytest.approx(1, abs=0.1)
    layers = replace(run, layers=25, tokens_per_round=1.5, gamma=2)
    assert predicted_speedup(layers, TARGET, MACHINE) < 0.7


def test_tasks_are_timed_in_turn():
    order: list[int] = []
    clock = iter(range(10_000))
    tasks = [lambda n=n: order.append(n) for n in range(3)]
    found = time_in_turn(tasks, 4, lambda: next(clock), np.random.default_rng(0))
    assert found.shape == (3, 4)
    assert (found == 1).all()
    assert order[:3] == [0, 1, 2]
    assert [sorted(order[i : i + 3]) for i in range(3, 15, 3)] == [[0, 1, 2]] * 4


def test_timing_prints_a_row_for_each_pass(run):
    code, out, _ = run(
        "measure",
        "--timing",
        "--batch",
        "1,2",
        "--width",
        "1,4",
        "--context",
        "16",
        "--repeats",
        "3",
        "--format",
        "csv",
    )
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(r["batch_size"], r["context_length"], r["width"]) for r in rows] == [
        ("1", "16", "1"), ("1", "16", "4"), ("2", "16", "1"), ("2", "16", "4"),
    ]  # fmt: skip
    assert all(float(r["low_ms"]) <= float(r["median_ms"]) <= float(r["high_ms"]) for r in rows)
    assert float(rows[0]["ratio_to_single"]) == 1


def test_cards_of_this_machine_are_read_by_the_planner(run, tmp_path):
    code, out, _ = run(
        "calibrate", "--this-machine", "--model", "toy", "--name", "here", "--cards", ".", "--threads", "1"
    )
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "here-hardware.yaml",
        "here-model.yaml",
        "here-runtime.yaml",
    ]
    quantities = [line.split()[0] for line in out.splitlines()[1:14]]
    assert quantities == ["pass_ms"] * 7 + ["verify_cost_ratio"] * 3 + ["draft_cost_ratio"] + ["speedup"] * 2
    table = specsim.optimal_gamma(
        hardware=str(tmp_path / "here-hardware.yaml"),
        runtime=str(tmp_path / "here-runtime.yaml"),
        target=str(tmp_path / "here-model.yaml"),
        draft="ngram:rate=0.8",
        precision="fp32",
        batch_size=1,
        context_length=64,
    )
    assert float(table["plain_step_ms"][0]) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure", "--timing", "--draft", "lookup"], "--draft: it says nothing where passes are timed."),
        (["measure", "--draft", "lookup", "--width", "3"], "--width: it says nothing where no passes are timed."),
        (["measure", "--timing", "--width", "0"], "--width: expected"),
        (["measure", "--timing", "--repeats", "x"], "--repeats: expected"),
        (["calibrate", "--model", "toy"], "--model: it says nothing where no machine is timed"),
        (
            ["calibrate", "--this-machine", "--runtime", "vllm"],
            "--runtime: it says nothing where this machine is timed.",
        ),
        (
            ["calibrate", "--this-machine", "--model", "toy", "--cards", "nowhere"],
            "--cards: expected a folder that exists",
        ),
    ],
)
def test_mistakes(run, tmp_path, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Error: " + message), err
    assert not list(tmp_path.iterdir())
