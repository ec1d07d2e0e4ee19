"""The table of rules that verify several candidates for one position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specsim.acceptance import candidates
from specsim.acceptance.paired import SAMPLES, is_estimated, ranks_at_positions
from specsim.acceptance.rules import EXACT_WITHIN, most_probable
from specsim.cost.passes import Array
from specsim.report.table import Table


def several_candidates(
    target_probs: Array, draft_probs: Array, count: int, rules: Sequence[str], assumed: Sequence[str]
) -> Table:
    """Acceptance by rank and law of some rules at one position, shape (tokens,) of both probabilities."""
    found = [candidates.RULES[name](target_probs, draft_probs, count) for name in rules]
    bounds = np.array([one.law is None for one in found])
    nothing = np.full(target_probs.shape, np.nan)
    laws = np.array([nothing if one.law is None else one.law for one in found])
    wanted = np.array([most_probable(target_probs) if name == "greedy" else target_probs for name in rules])
    apart = np.abs(laws - wanted)
    exact = np.where(bounds, None, apart.max(-1) < EXACT_WITHIN)
    ranks = np.array([np.full(count, np.nan) if one.law is None else one.ranks for one in found])
    columns = {
        "rule": np.array(rules, dtype=object),
        "verdict": np.array([candidates.VERDICTS[name] for name in rules], dtype=object),
        "exact": exact,
        "acceptance": np.array([float(one.acceptance) for one in found]),
        **{f"rank_{j + 1}": ranks[:, j] for j in range(count)},
        "total_variation": apart.sum(-1) / 2,
        "largest_deviation": apart.max(-1),
        **{f"output_{token + 1}": laws[:, token] for token in range(laws.shape[-1])},
    }
    conventions = ["of equally probable tokens the first one counts as the most probable"]
    if "greedy" in rules:
        conventions.append("greedy is held against the target at temperature 0")
    return Table(columns, (len(rules),), (*assumed, *conventions))


def over_positions(
    target_probs: Array, draft_probs: Array, count: int, rules: Sequence[str], assumed: Sequence[str]
) -> Table:
    """Acceptance by rank of some rules, its mean over the positions; both probabilities: shape (positions, tokens)."""
    found = np.array([ranks_at_positions(name, target_probs, draft_probs, count) for name in rules])
    accepted, bounds = found.sum(-1), np.array([candidates.VERDICTS[name] == candidates.BOUND for name in rules])
    positions = len(target_probs)
    error = accepted.std(-1, ddof=1) / positions**0.5 if positions > 1 else np.full(len(rules), np.nan)
    ranks = np.where(bounds[:, None], np.nan, found.mean(1))
    columns = {
        "rule": np.array(rules, dtype=object),
        "verdict": np.array([candidates.VERDICTS[name] for name in rules], dtype=object),
        "acceptance": accepted.mean(-1),
        "standard_error": error,
        **{f"rank_{j + 1}": ranks[:, j] for j in range(count)},
    }
    told = [f"means over {positions} positions, each as likely as the others"]
    if any(is_estimated(name, target_probs.shape[-1], count) for name in rules):
        told.append(f"without-replacement from {SAMPLES} sequences of rejected candidates at each position")
    return Table(columns, (len(rules),), (*assumed, *told))
