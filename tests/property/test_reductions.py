"""Reduction identities: where two questions must have one answer, they have it in every column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import columns_differ, question_of

import specsim
from specsim.catalog import library
from specsim.catalog.cards import card
from specsim.cost.roofline import pass_time
from specsim.planning.question import Axes, anchored, plain_step
from specsim.planning.rounds import plan
from specsim.specs.acceptance import Independent, Positional

LLAMA = {"hardware": "h100", "target": "llama-3-8b", "draft": "llama-3.2-1b"}
POINTS = {"batch_size": "1,16,256", "context_length": "0,1024,4096", "all_gammas": True}


@pytest.mark.parametrize("runtime", library.names("runtime"))
def test_gamma_0_is_plain_decoding_in_every_column(runtime):
    table = specsim.optimal_gamma(**LLAMA, **POINTS, acceptance="rate=0.8", runtime=runtime)
    plain = table.where((table["gamma"] == 0) & table["feasible"])
    assert len(plain) > 0
    for name in (
        "speedup",
        "round_cost_ratio",
        "verify_cost_ratio",
        "operations_factor",
        "bytes_factor",
        "tokens_per_round",
    ):
        assert set(plain[name].tolist()) == {1.0}, name
    for name in ("drafting_ms", "overhead_ms"):
        assert set(plain[name].tolist()) == {0.0}, name
    for name in ("verification_ms", "round_ms", "time_per_output_token_ms"):
        assert plain[name].tolist() == plain["plain_step_ms"].tolist(), name
    np.testing.assert_allclose(plain["tokens_per_second"], plain["plain_tokens_per_second"], rtol=1e-15)
    assert set(plain["decision"].tolist()) == {"off"}


def test_conditionals_that_are_all_equal_are_independent_drafts():
    independent = specsim.optimal_gamma(**LLAMA, **POINTS, acceptance="rate=0.8")
    positional = specsim.optimal_gamma(**LLAMA, **POINTS, acceptance="conditional=0.8,0.8,0.8,0.8,0.8,0.8,0.8,0.8")
    assert columns_differ(independent, positional, but=("acceptance",)) == []


def test_measured_ratios_that_repeat_the_roofline_change_nothing():
    point = {"batch_size": "16", "context_length": "1024", "max_gamma": 4, "runtime": "lecture"}
    roofline = specsim.optimal_gamma(**LLAMA, **point, acceptance="rate=0.8", all_gammas=True)
    ratio = float(roofline["draft_cost_ratio"][1])
    measured = specsim.optimal_gamma(**LLAMA, **point, acceptance="rate=0.8", all_gammas=True, draft_cost_ratio=ratio)
    np.testing.assert_allclose(measured["speedup"], roofline["speedup"], rtol=1e-14)
    np.testing.assert_allclose(measured["drafting_ms"], roofline["drafting_ms"], rtol=1e-14)


def test_measured_costs_alone_equal_the_ratios_of_the_roofline():
    point = {
        "batch_size": "16",
        "context_length": "1024",
        "max_gamma": 1,
        "runtime": "lecture",
        "acceptance": "rate=0.8",
    }
    roofline = specsim.optimal_gamma(**LLAMA, **point, all_gammas=True)
    measured = specsim.optimal_gamma(
        acceptance="rate=0.8",
        draft_cost_ratio=float(roofline["draft_cost_ratio"][1]),
        verify_cost_ratio=float(roofline["verify_cost_ratio"][1]),
        plain_step_ms=float(roofline["plain_step_ms"][1]),
        max_gamma=1,
        all_gammas=True,
    )
    for name in (
        "speedup",
        "round_ms",
        "drafting_ms",
        "verification_ms",
        "round_cost_ratio",
        "time_per_output_token_ms",
    ):
        np.testing.assert_allclose(measured[name], roofline[name], rtol=1e-14, err_msg=name)


def test_a_free_drafter_that_is_always_right_gives_gamma_plus_1_over_the_verify_ratio():
    table = specsim.optimal_gamma(
        hardware="h100", target="llama-3-8b", acceptance="rate=1", draft_cost_ratio=0, runtime="ideal", **POINTS
    )
    fits = table.where(table["feasible"])
    np.testing.assert_allclose(fits["speedup"], (fits["gamma"] + 1) / fits["verify_cost_ratio"], rtol=1e-15)


def test_one_device_is_no_tensor_parallelism():
    without = specsim.optimal_gamma(**LLAMA, **POINTS, acceptance="rate=0.8")
    with_one = specsim.optimal_gamma(
        **LLAMA, **POINTS, acceptance="rate=0.8", tensor_parallel=1, draft_tensor_parallel=1
    )
    assert columns_differ(without, with_one) == []


def test_the_published_default_is_what_naming_it_gives():
    named = {"runtime": "typical", "precision": "bf16", "kv_precision": "bf16", "draft_precision": "bf16"}
    bare = specsim.optimal_gamma(**LLAMA, **POINTS, acceptance="rate=0.8")
    assert columns_differ(bare, specsim.optimal_gamma(**LLAMA, **POINTS, acceptance="rate=0.8", **named)) == []


@pytest.mark.parametrize("runtime", ["ideal", "lecture", "typical"])
def test_doubled_rates_and_halved_overheads_halve_every_time(runtime):
    question = question_of("h100-sxm5", runtime, "llama-3-8b", "llama-3.2-1b", memory=1e15)
    hardware, software = question.machine.hardware, question.machine.runtime
    rates = {f"{name}_operations_per_second": 2 * hardware.dense_rate.of(name) for name in hardware.dense_rate.known}
    kernels = question.machine.kernels
    faster = replace(
        question.machine,
        hardware=replace(
            hardware,
            memory=replace(hardware.memory, bandwidth_bytes_per_second=2 * hardware.memory.bandwidth_bytes_per_second),
            dense_rate=replace(hardware.dense_rate, **rates),
        ),
        runtime=replace(
            software,
            kernels=replace(
                kernels,
                matrix_overhead_seconds=kernels.matrix_overhead_seconds / 2,
                attention_overhead_seconds=kernels.attention_overhead_seconds / 2,
            ),
            layer_overhead_seconds=software.layer_overhead_seconds / 2,
            step_overhead_seconds=software.step_overhead_seconds / 2,
            round_overhead_seconds=software.round_overhead_seconds / 2,
            draft_step_overhead_seconds=software.draft_step_overhead_seconds / 2,
        ),
    )
    axes = Axes.of([1, 64, 256], [128, 4096], range(6))
    slow, fast = plan(question, axes), plan(replace(question, machine=faster), axes)
    np.testing.assert_allclose(2 * fast.round_seconds, slow.round_seconds, rtol=1e-13)
    np.testing.assert_allclose(fast.speedup, slow.speedup, rtol=1e-13)
    assert np.array_equal(fast.best, slow.best)


def test_an_anchored_runtime_takes_the_measured_time():
    question = question_of("h100-sxm5", "typical", "llama-3-8b", "llama-3.2-1b")
    machine = anchored(question.machine, question.target, 7.07e-3, 1, 512)
    seconds = float(pass_time(plain_step(question.target, 1, 512), machine).seconds)
    assert seconds == pytest.approx(7.07e-3, rel=1e-12)
    # Anchoring at its own prediction changes nothing.
    own = float(pass_time(plain_step(question.target, 1, 512), question.machine).seconds)
    same = anchored(question.machine, question.target, own, 1, 512).runtime.layer_overhead_seconds
    assert same == pytest.approx(question.machine.runtime.layer_overhead_seconds, rel=1e-9)


def test_round_ms_is_the_exact_sum_of_its_parts():
    table = specsim.optimal_gamma(**LLAMA, **POINTS, acceptance="rate=0.8")
    fits = table.where(table["feasible"])
    parts = fits["drafting_ms"] + fits["verification_ms"] + fits["overhead_ms"]
    assert parts.tolist() == fits["round_ms"].tolist()


def test_points_of_a_grid_do_not_know_each_other():
    together = specsim.optimal_gamma(**LLAMA, acceptance="rate=0.8", batch_size="1,16,256", context_length="128,4096")
    for row in together.rows():
        alone = specsim.optimal_gamma(
            **LLAMA, acceptance="rate=0.8", batch_size=row["batch_size"], context_length=row["context_length"]
        )
        assert next(alone.rows()) == row


def test_drafters_side_by_side_are_each_as_alone():
    both = specsim.optimal_gamma(
        **{**LLAMA, "draft": ["llama-3.2-1b:rate=0.8", "llama-3.2-3b:rate=0.85"]}, batch_size="1,64", all_gammas=True
    )
    alone = specsim.optimal_gamma(
        **{**LLAMA, "draft": "llama-3.2-3b"}, acceptance="rate=0.85", batch_size="1,64", all_gammas=True
    )
    second = both.where(both["draft"] == "llama-3.2-3b")
    assert columns_differ(second, alone) == []


def test_acceptance_processes_agree_with_a_simulated_round():
    """A second voice: 200,000 rounds of coins against the exact expectation, four standard errors apart at most."""
    rng = np.random.default_rng(7)
    conditional = np.array([0.9, 0.6, 0.8, 0.3])
    accepted = np.cumprod(rng.random((200_000, 4)) < conditional, axis=1).sum(axis=1)
    from specsim.acceptance import process_of

    found = process_of(Positional(conditional=tuple(conditional))).lengths(np.array([4]))
    error = accepted.std() / np.sqrt(len(accepted))
    assert abs(accepted.mean() + 1 - float(found.tokens_per_round[0])) < 4 * error
    assert float(found.variance[0]) == pytest.approx(accepted.var(), rel=0.02)
    assert process_of(Independent(rate=0.9)).lengths(np.array([1])).tokens_per_round[0] == 1.9


def test_every_shipped_card_is_as_its_alias():
    for kind in ("hardware", "model", "runtime"):
        for name in library.names(kind):
            for alias in card(kind, name).aliases:
                assert card(kind, alias).name == name
