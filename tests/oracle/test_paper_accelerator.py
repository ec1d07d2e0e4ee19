"""The paper accelerator of lectures on speculative decoding: runtime ``lecture``, to the digits they print.

step = max(bytes / (.8 bandwidth), operations / (.7 peak)) + .5 ms; H100 989.5 TFLOP/s, 3.35 TB/s.
"""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from specsim.cli import main
from specsim.cost.passes import Pass
from specsim.cost.roofline import BOUNDS, pass_time
from specsim.planning.question import Axes
from specsim.planning.rounds import plan


def step(question, batch, context, tokens, which="target"):
    model = question.target if which == "target" else question.draft
    one = Pass(model, np.asarray(float(batch)), np.asarray(float(tokens)), np.asarray(float(context)))
    return pass_time(one, question.machine)


def rows_of(capsys, batch, context, *more):
    with pytest.raises(SystemExit) as stop:
        main([
            "optimal-gamma", "--hardware", "h100", "--target", "llama-3-8b", "--draft", "llama-3.2-1b",
            "--acceptance", "rate=0.8", "--runtime", "lecture", "--batch", str(batch), "--context", str(context),
            "--format", "csv", *more,
        ])  # fmt: skip
    assert stop.value.code == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_plain_step_and_five_tokens_take_the_same_time_at_batch_1(paper):
    one, five = step(paper, 1, 1024, 1), step(paper, 1, 1024, 5)
    assert round(float(one.seconds) * 1e3, 2) == 6.15
    assert float(one.seconds) == float(five.seconds)
    # By hand: 7,504,924,672 weights read every step, 128 KiB of cache a token.
    assert float(one.seconds) == pytest.approx(
        (2 * 7_504_924_672 + 1024 * 131_072) / (0.8 * 3.35e12) + 0.5e-3, rel=1e-14
    )


def test_draft_cost_ratio_of_the_1b_draft(capsys):
    row = rows_of(capsys, 1, 1024)[0]
    assert round(float(row["draft_cost_ratio"]), 2) == 0.23


def test_verification_at_batch_256_is_not_free(capsys):
    rows = rows_of(capsys, 256, 128, "--all")
    assert round(float(rows[4]["verify_cost_ratio"]), 2) == 3.67
    assert round(float(rows[4]["speedup"]), 2) == 0.73
    assert [(row["gamma"], round(float(row["speedup"]), 2)) for row in rows if row["best"] == "true"] == [("1", 1.03)]


def test_do_not_speculate_at_batch_512(capsys):
    row = rows_of(capsys, 512, 128)[0]
    assert (row["gamma"], row["decision"], row["speedup"]) == ("0", "off", "1.0")


def test_context_brings_speculation_back(capsys):
    row = rows_of(capsys, 256, 1024)[0]
    assert (row["gamma"], round(float(row["speedup"]), 2)) == ("2", 1.64)


def test_what_binds_at_each_batch(paper):
    bound = {
        (batch, tokens): str(BOUNDS[int(step(paper, batch, 128, tokens).bound)])
        for batch in (1, 32, 128)
        for tokens in (1, 5)
    }
    assert bound == {
        (1, 1): "memory", (1, 5): "memory", (32, 1): "memory", (32, 5): "memory", (128, 1): "memory",
        (128, 5): "compute",
    }  # fmt: skip
    assert round(float(step(paper, 128, 128, 1).seconds) * 1e3, 2) == 6.90
    assert round(float(step(paper, 128, 128, 5).seconds) * 1e3, 1) == 14.4


def test_cache_of_256_sequences_of_1024_tokens(paper):
    assert paper.target.kv_bytes_per_token == 128 * 1024
    assert round(paper.target.kv_bytes_per_token * 256 * 1024 / 1e9) == 34


def test_the_whole_grid(paper):
    """Best draft length and speedup over batch 1, 16, 64, 128, 256, 512 at both contexts."""
    rounds = plan(paper, Axes.of([1, 16, 64, 128, 256, 512], [128, 1024], range(9)))
    gamma = np.argmax(rounds.best, axis=0)
    speedup = rounds.speedup.max(axis=0)
    assert gamma[:, 0].tolist() == [4, 4, 3, 1, 1, 0]
    assert gamma[:, 1].tolist() == [4, 4, 3, 3, 2, 2]
    np.testing.assert_allclose(speedup[:, 0], [1.7394, 1.7385, 1.7339, 1.4574, 1.0334, 1], atol=6e-5)
    np.testing.assert_allclose(speedup[:, 1], [1.7390, 1.7325, 1.7195, 1.7110, 1.6386, 1.5663], atol=6e-5)


def test_the_rule_of_aggregation_changes_the_conclusion(paper):
    """Operator by operator, with the same efficiencies: the 1.64 at batch 256 shrinks to 1.20, the 1.03 is gone."""
    from dataclasses import replace

    runtime = replace(paper.machine.runtime, aggregation="operator", attention_operations=True, activations=True)
    question = replace(paper, machine=replace(paper.machine, runtime=runtime))
    rounds = plan(question, Axes.of([64, 256], [128, 1024], range(9)))
    assert np.argmax(rounds.best, axis=0).tolist() == [[3, 3], [0, 2]]
    assert float(rounds.speedup[:, 1, 1].max()) == pytest.approx(1.20, abs=0.01)
    assert float(rounds.speedup[1:, 1, 0].max()) < 1
