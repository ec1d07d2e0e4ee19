"""One published measurement: what was run, and what came out."""

from __future__ import annotations

from typing import Annotated

from specsim.specs.fields import Count, Flag, Kind, Length, Probability, choice, number, record, whole

Number = Annotated[float, number(0)]
Positive = Annotated[float, number(0, open_minimum=True)]
Levels = Annotated[int, whole(0)]


def _read_curve(value: object) -> tuple[tuple[int, float], ...]:
    expected = "a mapping of whole numbers to numbers above 0"
    if not isinstance(value, dict) or not value:
        raise ValueError(expected)
    try:
        found = sorted((int(key), number(0, open_minimum=True).read(at)) for key, at in value.items())
    except ValueError:
        raise ValueError(expected) from None
    return tuple(found)


Curve = Annotated[tuple[tuple[int, float], ...], Kind(_read_curve, dict, {"type": "object"})]
"""A figure at some sizes, in rising order."""


@record
class Measurement:
    """One row of a file of measurements; what the source does not give is left out.

    Times are in the unit that the name ends with; ``tokens_per_s`` is the total over all accelerators.

    Attributes:
        id: What the row is called; rows of one table share all but the number at its end.
        kind: ``baseline`` is plain decoding, ``speculative`` both sides or the speculative one, ``step_time`` a part of
            a step or a curve, ``acceptance`` has no times.
        source: Where it was published.
        locator: Table, figure or page.
        hardware: Accelerator, as the source names it; so are ``target``, ``draft``, ``method`` and ``engine``.
        accelerators: Devices of the whole set-up.
        dtype: Number format of the target's weights.
        batch: Sequences decoded together, or client concurrency.
        context: Tokens in the cache when decoding starts.
        output: Tokens of an output.
        tree_size: Verified tokens of a tree beside its root; ``tree_depth`` its levels.
        draft_steps: Levels of a dynamic tree, ``draft_topk`` its width, ``verified_tokens`` its nodes with the root.
        draft_kv_budget: Tokens that a draft's cache keeps.
        tau: Tokens per round, with the target's own if ``tau_includes_bonus``.
        alpha: Acceptance as ``alpha_definition`` has it.
        derived: Keys computed from others that are printed.
        missing: What a prediction needs and the source does not give.
        inferred: Keys that the source does not give and that follow from others, as ``notes`` say.
        excluded: Why no constant is fitted to the row, nothing if it may be.
    """

    id: str
    kind: Annotated[str, choice("baseline", "speculative", "step_time", "acceptance")]
    source: str
    locator: str = ""
    hardware: str = ""
    accelerators: Count | None = None
    tensor_parallel: Count | None = None
    target: str = ""
    draft: str = ""
    method: str = ""
    dtype: str = ""
    kv_dtype: str = ""
    engine: str = ""
    task: str = ""
    batch: Count | None = None
    context: Length | None = None
    output: Length | None = None
    temperature: Number | None = None
    gamma: Levels | None = None
    tree: str = ""
    tree_size: Count | None = None
    tree_depth: Count | None = None
    draft_steps: Count | None = None
    draft_topk: Count | None = None
    verified_tokens: Count | None = None
    draft_kv_budget: Count | None = None
    tau: Positive | None = None
    tau_includes_bonus: Flag = True
    alpha: Probability | None = None
    alpha_definition: str = ""
    alpha_by_position: tuple[Probability, ...] = ()
    # Plain decoding, and a whole output with its prefill.
    ms_per_token: Positive | None = None
    tokens_per_s: Positive | None = None
    tokens_per_s_per_gpu: Positive | None = None
    total_latency_ms: Positive | None = None
    itl_intercept_ms: Positive | None = None
    itl_slope_ms_per_context_token: Positive | None = None
    baseline_ms_per_token: Positive | None = None
    baseline_tokens_per_s: Positive | None = None
    baseline_e2e_ms: Positive | None = None
    # Speculative decoding.
    draft_ms_per_token: Positive | None = None
    draft_total_ms: Positive | None = None
    verify_ms: Positive | None = None
    draft_cost_ratio: Number | None = None
    verify_ratio: Positive | None = None
    step_cost_ratio: Positive | None = None
    speculative_ms_per_token: Positive | None = None
    speculative_tokens_per_s: Positive | None = None
    speculative_e2e_ms: Positive | None = None
    speedup: Positive | None = None
    # Parts of a step.
    gemm_n: Count | None = None
    gemm_k: Count | None = None
    num_heads: Count | None = None
    num_kv_heads: Count | None = None
    head_dim: Count | None = None
    latency_us_by_tokens: Curve = ()
    latency_us_by_context: Curve = ()
    latency_us_by_message: Curve = ()
    linear_layers_ms_by_tokens: Curve = ()
    forward_ms_by_tokens: Curve = ()
    derived: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()
    excluded: str = ""
    notes: str = ""
