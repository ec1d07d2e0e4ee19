"""Rounds summed up: tokens per round with an interval, what was accepted, what it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specsim.reference.decoding import Round

REPLICATES = 1000
INTERVAL = (0.05, 0.95)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Summary:
    """Rounds of several texts, those that an end cut left out of what is said about others.

    Attributes:
        texts: Number of texts.
        tokens: Committed tokens, those of cut rounds too.
        rounds: Passes of the target, those of cut rounds too.
        whole_rounds: Rounds that no end cut.
        tokens_per_round: Mean of whole rounds.
        low: Low end of its interval of 90 %.
        high: High end.
        accepted_per_drafted: Accepted drafts / drafts that could have been accepted.
        acceptance_rate: Accepted drafts / examined ones.
        drafted_per_round: Mean length of what was proposed.
        empty_rounds: Share of the rounds without any draft.
        empty_rounds_per_token: Rounds without any draft / tokens of whole rounds: it does not depend on gamma.
        draft_passes_per_round: Passes of the drafter per round.
        distribution: Share of the whole rounds that accept 0, 1, ... drafts.
        survival: Share of the whole rounds that accept position 1, 2, ...
        proposal_seconds: Mean time per round of the drafter [s].
        verification_seconds: Mean time per round of target and rule [s].
        repair_seconds: Mean time per round of rolling back [s].
    """

    texts: int
    tokens: int
    rounds: int
    whole_rounds: int
    tokens_per_round: float
    low: float
    high: float
    accepted_per_drafted: float
    acceptance_rate: float
    drafted_per_round: float
    empty_rounds: float
    empty_rounds_per_token: float
    draft_passes_per_round: float
    distribution: Array
    survival: Array
    proposal_seconds: float
    verification_seconds: float
    repair_seconds: float


def summary(texts: Sequence[Sequence[Round]], depth: int, seed: int) -> Summary:
    """Sum up the rounds of some texts.

    Args:
        texts: Rounds of each text.
        depth: Most drafts of a round that can be accepted.
        seed: Of the bootstrap over texts (over rounds, where there is one text) behind the interval.
    """
    everything = [r for rounds in texts for r in rounds]
    whole = [[r for r in rounds if not r.cut] for rounds in texts]
    kept = [r for rounds in whole for r in rounds]
    accepted = np.array([r.accepted for r in kept], dtype=np.int64)
    drafted = np.array([r.drafted for r in kept], dtype=np.int64)
    counts = np.bincount(accepted, minlength=depth + 1)[: depth + 1]
    rounds = len(kept)
    units = [rounds for rounds in whole if rounds] if len(texts) > 1 else [[r] for r in kept]
    low, high = _interval([(sum(r.emitted for r in unit), len(unit)) for unit in units], seed)
    examined = int((accepted + (accepted < drafted)).sum())
    return Summary(
        texts=len(texts),
        tokens=sum(r.emitted for r in everything),
        rounds=len(everything),
        whole_rounds=rounds,
        tokens_per_round=_ratio(int(accepted.sum()) + rounds, rounds),
        low=low,
        high=high,
        accepted_per_drafted=_ratio(int(accepted.sum()), int(drafted.sum())),
        acceptance_rate=_ratio(int(accepted.sum()), examined),
        drafted_per_round=_ratio(int(drafted.sum()), rounds),
        empty_rounds=_ratio(int((drafted == 0).sum()), rounds),
        empty_rounds_per_token=_ratio(int((drafted == 0).sum()), int(accepted.sum()) + rounds),
        draft_passes_per_round=_ratio(sum(r.passes for r in everything), len(everything)),
        distribution=np.array([_ratio(int(count), rounds) for count in counts]),
        survival=np.array([_ratio(int(counts[j:].sum()), rounds) for j in range(1, depth + 1)]),
        proposal_seconds=_ratio(sum(r.proposal_seconds for r in everything), len(everything)),
        verification_seconds=_ratio(sum(r.verification_seconds for r in everything), len(everything)),
        repair_seconds=_ratio(sum(r.repair_seconds for r in everything), len(everything)),
    )


def _ratio(above: float, below: float) -> float:
    return above / below if below else float("nan")


def _interval(units: Sequence[tuple[int, int]], seed: int) -> tuple[float, float]:
    """Ends of 90 % of the bootstrap means of tokens per round, units drawn with replacement."""
    if len(units) < 2:
        return float("nan"), float("nan")
    generator = np.random.default_rng([seed, 2])
    weights = generator.multinomial(len(units), np.full(len(units), 1 / len(units)), REPLICATES)
    tokens, rounds = (weights @ np.array(column, dtype=float) for column in zip(*units, strict=True))
    low, high = np.quantile(tokens / rounds, INTERVAL)
    return float(low), float(high)
