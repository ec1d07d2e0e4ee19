"""From rates by position, or one mean length, to the acceptance that they speak for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specsim.acceptance.fit_counts import rounds_to_tell_apart
from specsim.acceptance.fit_rates import Mixture, choose_form, fit_independent, fit_mixture, look_alikes
from specsim.acceptance.fitted import (
    ASSUMED_ROUNDS,
    INTERVAL,
    LEAST_ROUNDS,
    NAMES,
    PREDICTED,
    Array,
    CannotTell,
    Fit,
    MeanLength,
    Rates,
    fit_of_survival,
    positions_of,
    short,
    summing_to_1,
)
from specsim.acceptance.rates import independent_tokens_per_round, rate_from_tokens_per_round
from specsim.acceptance.regimes import RegimeChain
from specsim.specs.acceptance import Independent, Length, Regime, Regimes


def from_rates(rates: Rates, regimes: int | None, replicates: int, generator: np.random.Generator) -> Fit:
    """The acceptance of rates: see ``fit``.

    Raises:
        CannotTell: If the rates do not tell what was asked.
    """
    survival = np.array(rates.survival)
    rounds = ASSUMED_ROUNDS if rates.rounds is None else rates.rounds
    if rounds < LEAST_ROUNDS:
        raise CannotTell(f"{rounds} rounds are too few to fit anything: log {LEAST_ROUNDS} or more.")
    if survival[0] == 0:
        raise CannotTell("no draft was accepted: the draft looks broken, and there is nothing to fit.")
    if survival[-1] == 1:
        raise CannotTell("every draft was accepted, so nothing is seen of rejections: log longer drafts.")
    if regimes is not None and regimes > 2:
        raise CannotTell("rates by position tell two regimes at most: log accepted counts in their order.")
    if regimes == 2 and len(survival) < 3:
        raise CannotTell(f"{len(survival)} positions do not tell two regimes: log three or more.")
    choice = choose_form(survival, rounds)
    names = ("independent", "two regimes", "each position")
    least = min(choice.criterion)
    told = "BIC: " + ", ".join(
        f"{name} {value - least:+.1f}"
        for name, value in zip(names, choice.criterion, strict=True)
        if np.isfinite(value)
    )
    kind = choice.kind if regimes is None else ("independent", "regimes")[regimes - 1]
    lines = [
        f"rates of {len(survival)} positions, gamma {rates.gamma}"
        + (f", {rates.rounds} rounds" if rates.rounds is not None else ""),
        told,
    ]
    assumed = ["intervals of 90 % by bootstrap over rounds, as if rounds were independent: stretches make them wider"]
    if rates.rounds is None:
        assumed.append(f"the rates are those of {ASSUMED_ROUNDS} rounds")
    law = np.concatenate([[1.0], survival, [0.0]])
    drawn = generator.multinomial(rounds, np.maximum(law[:-1] - law[1:], 0.0), replicates) / rounds
    redrawn = 1.0 - np.cumsum(drawn, -1)[:, :-1]
    if kind == "survival":
        if len(survival) > 1:
            lines.append(_course(survival))
        if rates.gamma > len(survival):
            assumed.append(f"positions beyond {len(survival)} go on with the last conditional probability")
        return fit_of_survival(survival, redrawn, len(survival), lines, assumed)
    if kind == "independent":
        whole = rates.gamma == len(survival)
        rate = _effective(survival) if whole else fit_independent(survival)
        chains = [independent_tokens_per_round(_effective(one), PREDICTED) for one in redrawn]
        low, high = np.quantile(chains, INTERVAL, axis=0)
        tokens = independent_tokens_per_round(rate, PREDICTED)
        record = Independent(rate=short(rate), recorded_gamma=len(survival))
        return Fit(record, tokens, low, high, len(survival), tuple(lines), tuple(assumed))
    return _mixture(rates, survival, redrawn[:_MOST_REFITS], lines, assumed)


_MOST_REFITS = 200


def _effective(survival: Array) -> float:
    return float(rate_from_tokens_per_round(1.0 + survival.sum(), len(survival)))


def _course(survival: Array) -> str:
    before = np.concatenate([[1.0], survival[:-1]])
    conditional = np.divide(survival, before, out=np.zeros(len(survival)), where=before > 0)
    course = "fall" if conditional[-1] < conditional[0] else "rise"
    why = "drafts age with their depth" if course == "fall" else "easy and hard text are mixed"
    return f"conditional probabilities {course} from {conditional[0]:.3f} to {conditional[-1]:.3f}: {why}"


def _mixture(rates: Rates, survival: Array, redrawn: Array, lines: list[str], assumed: list[str]) -> Fit:
    best = _with_own_mean(rates, survival)
    lam, shares = best.chain.acceptance[0], best.token_share
    if shares[1] < 1e-9 or lam[0] - lam[1] < 1e-9:
        raise CannotTell(
            "conditional probabilities do not rise, so these rates show no two regimes: log counts in their order."
        )
    chain = best.chain
    tokens = chain.rounds(PREDICTED).tokens_per_round
    refits = [_with_own_mean(rates, one).chain.rounds(PREDICTED).tokens_per_round for one in redrawn]
    low, high = np.quantile(refits, INTERVAL, axis=0) if refits else np.full((2, len(PREDICTED)), np.nan)
    fitted = chain.rounds([rates.gamma]).survival[0][: len(survival)]
    lines.append(_course(survival))
    lines.append(f"largest difference from the recorded rates {np.abs(fitted - survival).max():.4f}")
    lines.append(_unknown_runs(best, rates.gamma))
    record = Regimes(
        regimes={
            name: Regime(acceptance_probability=(short(rate),), token_share=share)
            for name, rate, share in zip(NAMES[2], lam, summing_to_1(np.array(shares)), strict=True)
        },
        recorded_gamma=len(survival),
    )
    return Fit(record, tokens, low, high, len(survival), tuple(lines), tuple(assumed))


def _with_own_mean(rates: Rates, survival: Array) -> Mixture:
    """The likeliest mixture, with the weight at which all recorded positions have their sum."""
    found = fit_mixture(survival, rates.gamma)
    position = positions_of(survival)
    one, other = (float((rate**position).sum()) for rate in found.rates)
    weight = (float(survival.sum()) - other) / (one - other) if one > other else found.weight
    return replace(found, weight=float(np.clip(weight, 0.0, 1.0)))


def _unknown_runs(mixture: Mixture, gamma: int) -> str:
    """That rates do not tell how long runs are, with the shortest that have them."""
    certain = look_alikes(mixture, 1.0)
    third, two_thirds = (mixture.rates[0] + part * (1 - mixture.rates[0]) for part in (1 / 3, 2 / 3))
    shorter, longer = look_alikes(mixture, two_thirds), look_alikes(mixture, third)
    needed = rounds_to_tell_apart(shorter, longer, gamma, np.random.default_rng(0), rounds=5000)
    runs = 1 / np.maximum(1 - np.diagonal(certain.transitions), 1e-9)
    correlation = [
        float(look_alikes(mixture, easy).rounds([gamma]).lag_1_autocorrelation[0]) for easy in (1.0, mixture.rates[0])
    ]
    return (
        f"run lengths cannot be told from rates: runs of {runs[0]:.1f} and {runs[1]:.1f} tokens have the same rates as "
        f"regimes that never end; the correlation of a round's tokens with the next one's lies between "
        f"{min(correlation):.3f} and {max(correlation):.3f}; accepted counts of some {needed:.0f} rounds in order "
        f"tell runs of {_first_run(shorter):.1f} tokens from runs of {_first_run(longer):.1f}"
    )


def _first_run(chain: RegimeChain) -> float:
    return float(1 / max(1 - chain.transitions[0, 0], 1e-9))


def from_length(length: MeanLength, regimes: int | None) -> Fit:
    """The acceptance of one mean length: see ``fit``.

    Raises:
        CannotTell: If regimes are asked for.
    """
    if regimes is not None and regimes > 1:
        raise CannotTell("a mean length does not tell regimes: log rates by position, or counts in their order.")
    rate = float(rate_from_tokens_per_round(length.tokens_per_round, length.gamma))
    record = Length(tokens_per_round=length.tokens_per_round, gamma=length.gamma)
    nothing = np.full(len(PREDICTED), np.nan)
    lines = [
        f"{length.tokens_per_round:.4f} tokens per round at gamma {length.gamma}: independent drafts at {rate:.4f}",
        "how acceptance goes on at other draft lengths cannot be told from one mean: log rates by position",
    ]
    tokens = independent_tokens_per_round(rate, PREDICTED)
    return Fit(record, tokens, nothing, nothing, length.gamma, tuple(lines))
