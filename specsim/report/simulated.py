"""Tables of ``simulate``: what is exact beside what was simulated, and policies side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specsim.acceptance import RegimeChain, independent_tokens_per_round, rounds_to_finish
from specsim.acceptance import policies as rules
from specsim.acceptance.policies import PolicyResult
from specsim.acceptance.simulate import simulate_requests, simulate_rounds
from specsim.report.table import Table

Progress = Callable[[int], None] | None

REQUESTS = 4000
"""Requests that are simulated: their mean is known to 1 / 60 of their spread."""


def rounds_table(
    chain: RegimeChain,
    names: Sequence[str],
    label: str,
    gamma: Sequence[int],
    rounds: int,
    seed: int,
    output_length: int | None,
    batch_size: Sequence[int],
    extrapolated: Sequence[str] = (),
    progress: Progress = None,
) -> Table:
    """One row for each draft length, and batch if there are any.

    Args:
        chain: The acceptance.
        names: Of its regimes.
        label: Of the acceptance.
        gamma: Draft lengths.
        rounds: To simulate at each.
        seed: Of the generator; every draft length has its own stream.
        output_length: Tokens of a request, None for no requests.
        batch_size: Static batches of such requests.
        extrapolated: What lies beyond the record, for the table to say.
        progress: Is told of simulated rounds.
    """
    rows: list[dict[str, Any]] = []
    longest = max(gamma)
    for number, draft_length in enumerate(gamma):
        generator = np.random.default_rng([seed, number])
        row: dict[str, Any] = {"acceptance": label, "gamma": draft_length}
        row |= _rounds(chain, names, draft_length, rounds, generator, progress, longest)
        if output_length is None:
            rows.append(row)
            continue
        exact = chain.rounds([draft_length])
        law = rounds_to_finish(exact, output_length)
        drawn = simulate_requests(chain, draft_length, output_length, REQUESTS, generator)
        p50, p95, p99 = law.quantile([0.5, 0.95, 0.99]).tolist()
        row |= {
            "output_length": output_length,
            "rounds_mean": law.mean,
            "rounds_p50": p50,
            "rounds_p95": p95,
            "rounds_p99": p99,
            "simulated_rounds_mean": float(drawn.mean()),
            "simulated_rounds_error": float(drawn.std(ddof=1)) / REQUESTS**0.5,
        }
        for batch in batch_size:
            rows.append(
                row
                | {
                    "batch_size": batch,
                    "makespan_rounds": float(law.last_of(batch)),
                    "mean_active_sequences": float(law.mean_active(batch)),
                    "tokens_per_step": batch * float(exact.tokens_per_round[0]),
                }
            )
        if not batch_size:
            rows.append(row)
    return _table(rows, tuple(_assumed(seed, output_length, bool(batch_size))), extrapolated)


def _rounds(
    chain: RegimeChain,
    names: Sequence[str],
    gamma: int,
    rounds: int,
    generator: np.random.Generator,
    progress: Progress,
    longest: int,
) -> dict[str, Any]:
    exact = chain.rounds([gamma])
    simulated = simulate_rounds(chain, gamma, rounds, generator, progress)
    tokens, survival = float(exact.tokens_per_round[0]), np.concatenate([[1.0], exact.survival[0], [0.0]])
    examined = survival[:gamma].sum()
    rate = (tokens - 1.0) / examined if gamma else float("nan")
    formula = float(independent_tokens_per_round(rate, gamma)) if gamma else 1.0
    error, difference = simulated.standard_error, simulated.tokens_per_round - tokens
    row: dict[str, Any] = {
        "tokens_per_round": tokens,
        "simulated": simulated.tokens_per_round,
        "standard_error": error,
        "errors_apart": difference / error if error > 0 else (0.0 if abs(difference) < _DUST else float("inf")),
        "acceptance_rate": rate,
        "independent_tokens_per_round": formula,
        "independent_error": formula / tokens - 1.0,
        "standard_deviation": float(max(exact.variance[0], 0.0)) ** 0.5,
        "lag_1_autocorrelation": float(exact.lag_1_autocorrelation[0]),
        "asymptotic_variance": float(exact.asymptotic_variance[0]),
    }
    if len(names) > 1:
        row |= {f"rounds_in_{name}": float(share) for name, share in zip(names, exact.start_share[0], strict=True)}
    law = survival[:-1] - survival[1:]
    empty = [float("nan")] * (longest - gamma)
    row |= {f"accepted_{k}": float(share) for k, share in enumerate([*law[: gamma + 1], *empty])}
    drawn = [*simulated.distribution[: gamma + 1].tolist(), *empty]
    return row | {f"simulated_{k}": float(share) for k, share in enumerate(drawn)}


def _assumed(seed: int, output_length: int | None, batches: bool) -> list[str]:
    told = [f"simulation with seed {seed}"]
    if output_length is not None:
        told.append("a request begins in the regimes that token positions have, and its last round counts whole")
    if batches:
        told.append(
            "makespan_rounds and mean_active_sequences are of a static batch that nothing joins, tokens_per_step of "
            "one that is always full"
        )
    return told


def policies_table(
    chain: RegimeChain,
    label: str,
    policies: Sequence[tuple[str, float | None]],
    draft_cost_ratio: float,
    rounds: int,
    seed: int,
    recorded: int | None = None,
    progress: Progress = None,
) -> Table:
    """One row for each policy, with its regret: the share of the speedup of a better one that it gives away.

    Args:
        chain: The acceptance.
        label: Of the acceptance.
        policies: Names, with a draft length or threshold where one was given.
        draft_cost_ratio: One draft step / one plain step.
        rounds: To simulate where no chain is known.
        seed: Of the generator.
        recorded: Longest draft that was recorded, None if acceptance holds at any length; no longer one is called best.
        progress: Is told of rounds, simulated or not.
    """
    longest = rules.LONGEST if recorded is None else min(recorded, rules.LONGEST)
    best, reference = rules.best_fixed(chain, draft_cost_ratio, longest)
    perfect = rules.oracle(chain, draft_cost_ratio)
    rows: list[dict[str, Any]] = []
    for number, (name, value) in enumerate(policies):
        generator = np.random.default_rng([seed, number])
        found, shown = _policy(chain, name, value, draft_cost_ratio, rounds, generator, best)
        if progress is not None:
            progress(rounds)
        rows.append(
            {
                "acceptance": label,
                "policy": shown,
                "tokens_per_round": found.tokens_per_round,
                "drafted_per_round": found.drafted_per_round,
                "speedup": found.speedup,
                "standard_error": found.standard_error,
                "method": "simulation" if name in ("belief", "goodput") else "exact",
                "best_fixed_gamma": best,
                "regret_to_fixed": 1.0 - found.speedup / reference.speedup,
                "regret_to_oracle": 1.0 - found.speedup / perfect.speedup,
            }
        )
    assumed = [
        f"a round costs 1 + {draft_cost_ratio:g} x drafted tokens plain steps, so verification costs as much as one",
        f"drafts of at most {rules.LONGEST} tokens, {rules.HEURISTIC_CAP} for heuristic, without an end for oracle",
    ]
    if any(name in ("confidence", "cumulative") for name, _ in policies):
        assumed.append("the drafter knows the acceptance of each token that it drafts")
    if any(name in ("belief", "goodput") for name, _ in policies):
        assumed.append(f"simulation with seed {seed}")
    longer = [row["policy"] for row in rows if not row["policy"].startswith("fixed:")]
    longer += [row["policy"] for row in rows if recorded is not None and row["drafted_per_round"] > recorded]
    who = ", ".join(dict.fromkeys(longer))
    beyond = f"drafts of more than {recorded} tokens lie beyond the recorded {label}: {who} may make them"
    extrapolated = [beyond] if longer and recorded is not None else []
    return _table(rows, tuple(assumed), extrapolated)


def _policy(
    chain: RegimeChain,
    name: str,
    value: float | None,
    draft_cost_ratio: float,
    rounds: int,
    generator: np.random.Generator,
    best: int,
) -> tuple[PolicyResult, str]:
    match name:
        case "fixed":
            gamma = best if value is None else int(value)
            return rules.fixed(chain, gamma, draft_cost_ratio), f"fixed:{gamma}"
        case "heuristic":
            return rules.heuristic(chain, draft_cost_ratio), name
        case "belief":
            return rules.belief(chain, draft_cost_ratio, rounds, generator), name
        case "goodput":
            return rules.goodput(chain, draft_cost_ratio, rounds, generator), name
        case "oracle":
            return rules.oracle(chain, draft_cost_ratio), name
        case _:
            threshold = 0.0 if value is None else value
            found = rules.confident(chain, threshold, draft_cost_ratio, cumulative=name == "cumulative")
            return found, f"{name}:{threshold:g}"


_DUST = 1e-12
"""What is as near to 0 as this is what rounding leaves of 0."""


def _table(rows: Sequence[dict[str, Any]], assumed: tuple[str, ...], extrapolated: Sequence[str] = ()) -> Table:
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    columns = {n: np.where(np.abs(c) < _DUST, 0.0, c) if c.dtype.kind == "f" else c for n, c in columns.items()}
    words = {name: values.astype(object) for name, values in columns.items() if values.dtype.kind == "U"}
    return Table(columns | words, (len(rows),), assumed, tuple(extrapolated))
