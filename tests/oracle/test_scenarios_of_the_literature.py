"""What publications and users report, asked of specsim: shipped scenarios, and a few questions beside them.

What was printed exactly is matched; what was measured stands beside the prediction as data, and only signs, orders and
ranges are held. ``pytest -s`` prints the comparisons.
"""

from __future__ import annotations

import sys

import pytest

import specsim
from specsim.cli import main

LEVIATHAN = [
    # task, temperature, draft, acceptance, gamma, draft_cost_ratio, printed prediction, measured
    ("translation", 0, "t5-small", 0.75, 7, 0.02, 3.2, 3.4),
    ("translation", 0, "t5-base", 0.80, 7, 0.04, 3.3, 2.8),
    ("translation", 0, "t5-large", 0.82, 7, 0.11, 2.5, 1.7),
    ("translation", 1, "t5-small", 0.62, 7, 0.02, 2.3, 2.6),
    ("translation", 1, "t5-base", 0.68, 5, 0.04, 2.4, 2.4),
    ("translation", 1, "t5-large", 0.71, 3, 0.11, 2.0, 1.4),
    ("summary", 0, "t5-small", 0.65, 5, 0.02, 2.4, 3.1),
    ("summary", 0, "t5-base", 0.73, 5, 0.04, 2.6, 3.0),
    ("summary", 0, "t5-large", 0.74, 3, 0.11, 2.0, 2.2),
    ("summary", 1, "t5-small", 0.53, 5, 0.02, 1.9, 2.3),
    ("summary", 1, "t5-base", 0.55, 3, 0.04, 1.8, 2.2),
    ("summary", 1, "t5-large", 0.56, 3, 0.11, 1.6, 1.7),
]
"""Leviathan et al. 2023 (arXiv 2211.17192), tables 2 and 4: T5-XXL on one TPU-v4 at batch 1."""

MAGICDEC = {
    (32, 4000): 0.90, (64, 4000): 0.81, (128, 4000): 0.76, (256, 4000): 0.76,
    (32, 8000): 0.95, (64, 8000): 1.03, (128, 8000): 0.93, (256, 8000): 1.01,
    (32, 16000): 0.99, (64, 16000): 1.05, (128, 16000): 1.10,
    (32, 32000): 1.22, (64, 32000): 1.28,
}  # fmt: skip
"""Chen et al. 2024 (arXiv 2408.11049v5), main table (c): Llama-3.1-8B over its own window, gamma 2, on 8 A100."""


def tell(comparison):
    """Shows a comparison to those who ask for it by ``pytest -s``."""
    sys.stdout.write(comparison + "\n")


def rows_of(table):
    """The rows of a table as mappings."""
    return table.to_frame().to_dict("records")


@pytest.fixture(scope="module")
def scenario():
    """Rows of a shipped scenario by its name, each asked once."""
    known = {}

    def ask(name):
        return known.setdefault(name, rows_of(specsim.sweep(name)))

    return ask


def best_of(rows, **where):
    """The best speedup at each batch and context among the rows with these values."""
    best = {}
    for row in rows:
        if row["feasible"] and all(row[field] == value for field, value in where.items()):
            point = row["batch_size"], row["context_length"]
            best[point] = max(best.get(point, 0.0), row["speedup"])
    return best


@pytest.mark.parametrize(("task", "temperature", "draft", "rate", "gamma", "ratio", "printed", "measured"), LEVIATHAN)
def test_predictions_that_leviathan_printed(task, temperature, draft, rate, gamma, ratio, printed, measured, capsys):
    options = ["--acceptance", f"rate={rate}", "--draft-cost-ratio", str(ratio), "--max-gamma", str(gamma), "--all"]
    with pytest.raises(SystemExit) as stop:
        main(["optimal-gamma", *options, "--format", "csv"])
    assert stop.value.code == 0
    header, *rows = (line.split(",") for line in capsys.readouterr().out.splitlines())
    found = {int(row[header.index("gamma")]): float(row[header.index("speedup")]) for row in rows}[gamma]
    tell(f"{task}, temperature {temperature}, {draft}: {found:.2f}, printed {printed}, measured {measured}")
    assert found == pytest.approx(printed, abs=0.1)


def test_the_roofline_for_t5_puts_the_large_draft_last(scenario):
    rows = scenario("leviathan-t5")
    at = {(row["draft"], row["acceptance"], row["gamma"]): row["speedup"] for row in rows}
    best = {}
    for task, temperature, draft, rate, gamma, _, printed, measured in LEVIATHAN:
        found = at[draft, f"rate={rate:g}", gamma]
        best[task, temperature, draft] = max(at[draft, f"rate={rate:g}", g] for g in (0, 3, 5, 7))
        tell(f"{task}, temperature {temperature}, {draft}, gamma {gamma}: {found:.2f}, {printed}, {measured}")
        assert 0.6 < found / measured < 1.25
    for task, temperature in (("translation", 0), ("translation", 1), ("summary", 0), ("summary", 1)):
        small, base, large = (best[task, temperature, draft] for draft in ("t5-small", "t5-base", "t5-large"))
        assert min(small, base) > large > 1
        # Greedy summaries are the exception, as in the authors' own predictions (2.4 and 2.6).
        assert (small > base) == ((task, temperature) != ("summary", 0))


def test_long_context_brings_speculation_back_at_large_batch(tmp_path):
    # The memory of the device is lifted: 256 sequences of 8k tokens are 275 GB of cache.
    (tmp_path / "long.yaml").write_text(
        """format: 1
kind: sweep
hardware: h100
target: llama-3-8b
draft: {model: llama-3.2-1b, acceptance: rate=0.8}
grid:
  hardware.memory.capacity: 2 TB
  batch_size: 256
  context_length: [128, 1k, 2k, 4k, 8100]
"""
    )
    best = best_of(rows_of(specsim.sweep(tmp_path / "long.yaml")))
    speedups = [best[256, context] for context in (128, 1024, 2048, 4096, 8100)]
    tell("batch 256: " + ", ".join(f"{speedup:.3f}" for speedup in speedups))
    assert speedups == sorted(speedups)
    assert speedups[0] < 1.05
    assert speedups[-1] > speedups[1] + 0.2


def test_own_window_pays_from_where_magicdec_measured_it(scenario):
    rows = scenario("magicdec")
    own = {(row["batch_size"], row["context_length"]): row["speedup"]
           for row in rows if row["draft"] == "magicdec" and row["gamma"] == 2 and row["feasible"]}  # fmt: skip
    for point, measured in MAGICDEC.items():
        tell(f"batch {point[0]}, context {point[1]}: {own[point]:.2f}, measured {measured}")
        assert 0.95 < own[point] / measured < 1.7
    for batch in (32, 64, 128, 256):
        along = [own[batch, context] for context in (1000, 4000, 8000, 16000)]
        assert along == sorted(along)
        assert along[0] < 0.95
        assert along[-1] > 1.2
    # Below 4k a small model is the cheaper drafter, and with a window of its own it is at every context.
    full, short = (best_of(rows, draft="llama-3.2-1b", acceptance=f"length={n}@2") for n in (2.19, 2.18))
    assert full[32, 1000] > own[32, 1000]
    assert full[128, 16000] < min(own[128, 16000], short[128, 16000])


def test_specinfer_on_one_and_on_two_nodes(scenario):
    one, two = scenario("specinfer-one-node"), scenario("specinfer-two-nodes")
    for length, low, high in (("length=2.95@8", 2.4, 2.7), ("length=2.18@8", 1.8, 2.0), ("length=1.79@8", 1.5, 1.7)):
        found = best_of(one, acceptance=length).values()
        assert low < min(found) <= max(found) < high
    # Reported: 1.5x to 2.5x on one node and 2.4x to 2.8x on two, with trees.
    found = best_of(two, acceptance="length=2.95@8")
    assert 2.4 < found[1, 256] < 2.8
    assert found[16, 256] < found[1, 256]


def test_offloaded_opt_gains_between_two_and_four(scenario):
    rows = scenario("specinfer-offloaded")
    drafted = [row for row in rows if row["gamma"] == 8 and row["feasible"]]
    assert {row["target"] for row in drafted} == {"opt-13b", "opt-30b"}
    for row in drafted:
        assert 2 < row["speedup"] < 4
        assert row["bound"] == "host"
        # Verification costs a plain step, and the draft next to nothing.
        assert row["speedup"] == pytest.approx(row["tokens_per_round"], rel=0.03)


def test_nothing_gains_for_a_small_target_in_an_engine_without_graphs(scenario):
    rows = scenario("context-scaling")
    graphs, eager = (best_of(rows, **{"runtime.layer_overhead": overhead}) for overhead in ("27 us", "0.6 ms"))
    assert [context for _, context in eager] == [2048, 4096, 8192]
    assert set(eager.values()) == {1.0}
    # With captured graphs the same pair would gain a little, at every context.
    assert all(1 < speedup < 1.2 for speedup in graphs.values())


def test_mtp_gains_on_deepseek_v3_at_batch_1(scenario):
    rows = scenario("deepseek-v3-mtp")
    for acceptance, measured in (("survival=0.85", 1.8), ("length=2.18@2", 1.6), ("length=2.44@3", 1.61)):
        found = best_of([row for row in rows if not row["extrapolated"]], acceptance=acceptance)
        along = ", ".join(f"{speedup:.2f} at batch {batch}" for (batch, _), speedup in found.items())
        tell(f"{acceptance}: {along}; measured {measured}")
        assert 1.4 < found[1, 1024] < 1.8
        assert found[8, 1024] < found[1, 1024]  # drafts that are verified bring experts of their own


def test_a_mixture_of_experts_gains_less_than_a_dense_model_at_small_batch(scenario):
    mixture = scenario("qwen3-30b-a3b-eagle3")
    for length in (1.86, 2.5):
        dense = specsim.optimal_gamma(
            hardware="h100", target="qwen3-8b", tensor_parallel=2, draft="eagle3-qwen3-8b", batch_size=[1, 4],
            acceptance=f"length={length}@3", max_gamma=3,
        )  # fmt: skip
        dense = best_of(rows_of(dense))
        found = best_of(mixture, acceptance=f"length={length}@3")
        for batch in (1, 4):
            tell(f"batch {batch}, {length} tokens: {found[batch, 1024]:.2f}, dense {dense[batch, 1024]:.2f}")
            assert found[batch, 1024] < dense[batch, 1024] - 0.2
        assert found[64, 1024] > found[1, 1024]


def test_eagle3_on_llama_70b_in_fp8_fades_with_the_batch(scenario):
    found = best_of(scenario("llama-3.3-70b-fp8-eagle3"), acceptance="length=2.96@3")
    along = [found[batch, 1024] for batch in (1, 8, 32, 64, 128, 256)]
    assert along == sorted(along, reverse=True)
    assert found[8, 1024] == pytest.approx(2.29, rel=0.15)  # measured on H200, number of devices not recorded
    assert found[128, 4096] > found[128, 1024]


def test_ngrams_gain_on_copies_and_are_idle_on_prose(scenario):
    copies, prose = scenario("ngram-copying"), scenario("ngram-prose")
    assert best_of(copies, draft="ngram on summaries")[1, 4096] == pytest.approx(2.42, rel=0.1)
    assert best_of(copies, draft="ngram on summaries by hits")[1, 4096] > 2.4
    assert best_of(copies, draft="ngram word by word")[1, 4096] > 9
    for row in prose:
        if row["feasible"] and not row["extrapolated"] and row["batch_size"] <= 8:
            assert row["speedup"] == pytest.approx(1, abs=0.04)


def test_one_command_compares_a_head_a_model_and_ngrams(capsys):
    with pytest.raises(SystemExit) as stop:
        main(
            [
                *("optimal-gamma", "--hardware", "h100", "--target", "llama-3.1-8b", "--batch", "1,16,128"),
                *("--draft", "eagle3-llama3.1-8b:length=2.79@3", "--draft", "llama-3.2-1b:rate=0.72"),
                *("--draft", "ngram:rate=0.6", "--format", "csv"),
            ]
        )
    assert stop.value.code == 0
    header, *rows = (line.split(",") for line in capsys.readouterr().out.splitlines())
    found = {(row[header.index("draft")], row[header.index("batch_size")]): float(row[header.index("speedup")])
             for row in rows}  # fmt: skip
    assert len(found) == 9
    for batch in ("1", "16", "128"):
        head, model, lookup = (found[name, batch] for name in ("eagle3-llama3.1-8b", "llama-3.2-1b", "ngram"))
        assert head > max(model, lookup)
        assert min(model, lookup) > 1
