"""From ordered accepted counts to the acceptance that they speak for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specsim.acceptance.bootstrap import bootstrap
from specsim.acceptance.fit_counts import (
    Counts,
    CountsFit,
    Parameters,
    fit_counts,
    starting_points,
    stretch_of,
    visits_of_rounds,
)
from specsim.acceptance.fit_rates import deviance
from specsim.acceptance.fitted import (
    INTERVAL,
    LEAST_ROUNDS,
    NAMES,
    PREDICTED,
    Array,
    CannotTell,
    Fit,
    fit_of_survival,
    positions_of,
    short,
    summing_to_1,
)
from specsim.acceptance.rates import independent_tokens_per_round, rate_from_tokens_per_round
from specsim.acceptance.regimes import RegimeChain
from specsim.specs.acceptance import Independent, Regime, Regimes

_MOST_REGIMES = 3
_BY_STRETCHES = "intervals of 90 % by bootstrap over stretches of the log"
_ONE_REQUEST = (
    "all rounds are those of one request, in its order: rounds of several requests in the order in which a server "
    "makes them hide stretches, so log the request of each"
)
_FAR = 4.0
"""Standard errors beyond which a fit does not follow the record."""


_ONE_RATE_WITHIN = 0.03
"""One rate does where the formula for independent drafts keeps within this of the fit at every predicted length."""


def from_counts(counts: Counts, regimes: int | None, replicates: int, generator: np.random.Generator) -> Fit:
    """The acceptance of a log: see ``fit``.

    Raises:
        CannotTell: If the log does not tell what was asked.
    """
    found = _fitted(counts, regimes, replicates, generator)
    return replace(found, found=(*found.found, *_one_rate(counts, found), *_ran_out(counts)))


def _one_rate(counts: Counts, found: Fit) -> list[str]:
    """Whether the formula for independent drafts would do, at the rate that gives the log's own mean."""
    if not _one_length(counts):
        return []
    gamma = int(counts.drafted[0])
    rate = rate_from_tokens_per_round(counts.tokens / counts.rounds, gamma)
    apart = independent_tokens_per_round(rate, PREDICTED) / found.tokens_per_round - 1
    most = int(np.abs(apart).argmax())
    does = "suffices" if abs(apart[most]) <= _ONE_RATE_WITHIN else "does not suffice"
    return [f"one rate {does}: with the same mean it is at most {apart[most]:+.1%} off, at gamma {PREDICTED[most]}"]


def _ran_out(counts: Counts) -> list[str]:
    """What is wrong with a rate over proposed drafts where a drafter ran out of guesses."""
    if counts.proposed is None or (counts.proposed == counts.drafted).all():
        return []
    empty, less = counts.proposed == 0, counts.proposed < counts.drafted
    examined = int((counts.accepted + (counts.accepted < counts.proposed)).sum())
    rate = counts.accepted.sum() / examined
    mean = counts.tokens / counts.rounds
    given = float(independent_tokens_per_round(rate, counts.drafted).mean())
    return [
        f"{empty.mean():.1%} of the rounds had no draft and {(less & ~empty).mean():.1%} a shorter one than asked for; "
        "what is missing counts as rejected, so use this acceptance without a hit rate",
        f"accepted / examined over the proposed drafts alone is {rate:.4f}; as one rate it is rejected, since it gives "
        f"{given:.3f} tokens per round where {mean:.3f} were recorded, {given / mean - 1:+.0%}",
    ]


def _fitted(counts: Counts, regimes: int | None, replicates: int, generator: np.random.Generator) -> Fit:
    """The fit itself."""
    if counts.symbols == 0:
        raise CannotTell("nothing was drafted in any round: log rounds with drafts.")
    if counts.rounds < LEAST_ROUNDS:
        raise CannotTell(f"{counts.rounds} rounds are too few to fit anything: log {LEAST_ROUNDS} or more.")
    if counts.accepted.sum() == (counts.drafted[counts.drafted > 0]).sum():
        raise CannotTell("every draft was accepted, so nothing is seen of rejections: log longer drafts.")
    if counts.accepted.sum() == 0:
        raise CannotTell("no draft was accepted: the draft looks broken, and there is nothing to fit.")
    one_length = _one_length(counts)
    cost = float(np.log(counts.symbols))
    fits = {1: fit_counts(counts, starting_points(counts, 1))}
    criterion = {"1 regime": -2 * float(fits[1].likelihood[0]) + cost}
    if one_length:
        survival = _survival_of(counts)
        gain = counts.rounds * float(deviance(survival, fits[1].parameters.acceptance[0, 0] ** positions_of(survival)))
        criterion["positions"] = criterion["1 regime"] - gain + (len(survival) - 1) * cost
    wanted = range(2, _MOST_REGIMES + 1) if regimes is None else [regimes] if regimes > 1 else []
    for number in wanted:
        fits[number] = _best_of_starts(counts, number)
        criterion[f"{number} regimes"] = -2 * float(fits[number].likelihood[0]) + number**2 * cost
        if regimes is None and criterion[f"{number} regimes"] > min(criterion.values()):
            break
    best = min(criterion, key=lambda name: criterion[name])
    told = "BIC: " + ", ".join(f"{name} {value - criterion[best]:+.1f}" for name, value in criterion.items())
    if regimes is not None and regimes > 1:
        if criterion[f"{regimes} regimes"] > criterion["1 regime"]:
            raise CannotTell(
                f"{counts.rounds} rounds do not show {regimes} regimes ({told}): log more rounds, or ask for fewer."
            )
        best = f"{regimes} regimes"
    elif regimes == 1:
        best = "1 regime"
    if best == "1 regime" and one_length:
        found = _independent(counts, told, replicates, generator)
    elif best == "positions":
        found = _positional(counts, told, replicates, generator)
    else:
        found = _in_regimes(counts, _without_chance_moves(counts, fits[int(best[0])]), told, replicates, generator)
    return found if counts.several else replace(found, assumed=(_ONE_REQUEST, *found.assumed))


def _one_length(counts: Counts) -> bool:
    return bool((counts.drafted == counts.drafted[0]).all())


def _without_chance_moves(counts: Counts, found: CountsFit) -> CountsFit:
    """The same where regimes that are left less than once in the whole log never end."""
    moves = found.parameters.transitions[0]
    left = counts.tokens * found.share[0] * (1 - np.diag(moves))
    settled = np.where((left < 1)[:, None], np.eye(len(moves)), moves)
    return replace(found, parameters=replace(found.parameters, transitions=settled[None]))


def _survival_of(counts: Counts) -> Array:
    """Observed x_1 to x_g of rounds that all draft g."""
    return np.asarray((counts.accepted[:, None] >= np.arange(1, counts.drafted[0] + 1)).mean(0))


def _best_of_starts(counts: Counts, regimes: int) -> CountsFit:
    """The likeliest end of several starts: shorter and longer runs, nearer and farther regimes."""
    ends = []
    for run, reach in ((10.0, 0.6), (50.0, 0.9), (3.0, 0.9)):
        ends.append(fit_counts(counts, starting_points(counts, regimes, run, reach)))
    return max(ends, key=lambda end: float(end.likelihood[0]))


def _in_regimes(counts: Counts, found: CountsFit, told: str, replicates: int, generator: np.random.Generator) -> Fit:
    parameters, size = found.parameters, found.share.shape[-1]
    mean, one_length = counts.tokens / counts.rounds, _one_length(counts)
    # Where draft lengths vary they may follow the regimes, as those of a policy do: the log's own shares stay.
    share = _shares_with_mean(counts, parameters, found.share, np.array([mean])) if one_length else found.share
    gamma = int(counts.drafted.max())
    names = NAMES.get(size, tuple(f"regime {k}" for k in range(1, size + 1)))
    acceptance = _record(parameters, share[0], names, gamma)
    redrawn, means = bootstrap(counts, found, replicates, generator)
    shares = _shares_with_mean(counts, redrawn.parameters, redrawn.share, means) if one_length else redrawn.share
    chains = RegimeChain(redrawn.parameters.acceptance[:, None, :], redrawn.parameters.transitions, shares)
    low, high = np.quantile(chains.rounds(PREDICTED).tokens_per_round, INTERVAL, axis=0)
    chain = RegimeChain(parameters.acceptance, parameters.transitions[0], share[0])
    lines = [f"{counts.rounds} rounds in their order, {mean:.4f} tokens per round, gamma {_lengths_told(counts)}", told]
    if size > 1:
        runs = 1 / np.maximum(1 - np.einsum("bkk->bk", redrawn.parameters.transitions), 1e-9)
        for k, name in enumerate(names):
            probability = _with_ends(parameters.acceptance[0, k], redrawn.parameters.acceptance[:, k], 4)
            lines.append(f"{name}: acceptance {probability}, {_run(parameters.transitions[0, k, k], runs[:, k])}, "
                         f"{share[0, k]:.1%} of the tokens")  # fmt: skip
        rounds = chain.rounds([gamma])
        if one_length:
            recorded = _survival_of(counts)
            apart = np.abs(rounds.survival[0] - recorded)
            lines.append(f"largest difference from the recorded rates by position {apart.max():.4f}")
            errors = np.maximum(_redrawn_survival(counts, replicates, generator).std(0), 1e-9)
            if (far := float((apart / errors).max())) > _FAR:
                lines.append(
                    f"that is {far:.0f} standard errors, so these regimes do not follow the record: acceptance may "
                    f"depend on the position inside them, and at draft lengths other than {gamma} tokens per round "
                    "lie outside the intervals"
                )
        lines.append(f"correlation of a round's tokens with the next one's {rounds.lag_1_autocorrelation[0]:.3f}")
    assumed = [_BY_STRETCHES]
    empty = float((counts.drafted == 0).mean())
    if empty > 0:
        assumed.append(
            f"rounds without a draft, {empty:.1%} of all, are left out of the acceptance (hit_rate {1 - empty:.3f})"
        )
    return Fit(acceptance, chain.rounds(PREDICTED).tokens_per_round, low, high, gamma, tuple(lines), tuple(assumed))


def _lengths_told(counts: Counts) -> str:
    lengths = np.unique(counts.drafted)
    return str(lengths[0]) if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"


def _run(stays: float, redrawn: Array) -> str:
    return f"runs of {_with_ends(1 / (1 - stays), redrawn, 1)} tokens" if stays < 1 else "runs that never end"


def _with_ends(value: float, redrawn: Array, digits: int) -> str:
    """A number with its interval, without one where it was held."""
    low, high = np.quantile(redrawn, INTERVAL)
    interval = f" ({low:.{digits}f} to {high:.{digits}f})" if high - low > 1e-6 * abs(value) else ""
    return f"{value:.{digits}f}{interval}"


def _shares_with_mean(counts: Counts, parameters: Parameters, share: Array, mean: Array) -> Array:
    """Shares near those given with which rounds of one draft length have this mean: 1 / E = share N^-1 1, shape (b, K).

    Shares are tilted along N^-1 1. Where no shares reach the mean they are left at the end that is nearest.
    """
    if share.shape[-1] == 1:
        return share
    visits = visits_of_rounds(parameters, int(counts.drafted[0]))
    rounds_per_token = np.linalg.solve(visits, np.ones((*share.shape, 1)))[..., 0]
    wanted = 1.0 / np.broadcast_to(mean, share.shape[:1])
    centred = rounds_per_token - rounds_per_token.mean(-1, keepdims=True)
    low, high = np.full(len(share), -200.0), np.full(len(share), 200.0)
    for _ in range(80):
        tilt = (low + high) / 2
        tilted = np.log(np.maximum(share, 1e-300)) + tilt[:, None] * centred
        weights = np.exp(tilted - tilted.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        short = (weights * rounds_per_token).sum(-1) < wanted
        low, high = np.where(short, tilt, low), np.where(short, high, tilt)
    return np.asarray(weights)


def _record(parameters: Parameters, share: Array, names: Sequence[str], gamma: int) -> Independent | Regimes:
    probabilities, moves = parameters.acceptance[0], parameters.transitions[0]
    if len(names) == 1:
        return Independent(rate=short(probabilities[0]), recorded_gamma=gamma)
    ends = np.diag(moves) < 1
    with_runs = len(names) == 2 and bool(ends.all())
    shares = summing_to_1(share)
    regimes = {
        name: Regime(
            acceptance_probability=(short(probabilities[k]),),
            mean_run_tokens=max(short(1 / (1 - moves[k, k])), 1.0) if with_runs else None,
            token_share=shares[k],
        )
        for k, name in enumerate(names)
    }
    if with_runs or not ends.any():
        return Regimes(regimes=regimes, recorded_gamma=gamma)
    rows = {name: dict(zip(names, summing_to_1(moves[k]), strict=True)) for k, name in enumerate(names)}
    return Regimes(regimes=regimes, transitions=rows, recorded_gamma=gamma)


def _redrawn_survival(counts: Counts, replicates: int, generator: np.random.Generator) -> Array:
    """Survival of logs put together from stretches of this one, shape (b, g)."""
    gamma = int(counts.drafted[0])
    number = max(counts.rounds // stretch_of(counts.rounds), 1)
    pieces = np.array_split(counts.accepted[:, None] >= np.arange(1, gamma + 1), number)
    weights = generator.multinomial(number, np.full(number, 1 / number), replicates)
    rounds = weights @ np.array([len(piece) for piece in pieces])
    return np.asarray(weights @ np.array([piece.sum(0) for piece in pieces]) / rounds[:, None])


def _independent(counts: Counts, told: str, replicates: int, generator: np.random.Generator) -> Fit:
    """One rate, the one at which the rounds have their own mean."""
    mean, gamma = counts.tokens / counts.rounds, int(counts.drafted[0])
    means = 1.0 + _redrawn_survival(counts, replicates, generator).sum(-1)
    rates = rate_from_tokens_per_round(np.concatenate([[mean], means]), gamma)
    tokens = independent_tokens_per_round(rates[:, None], PREDICTED)
    low, high = np.quantile(tokens[1:], INTERVAL, axis=0)
    ends = np.quantile(rates[1:], INTERVAL)
    lines = (
        f"{counts.rounds} rounds in their order, {mean:.4f} tokens per round, gamma {gamma}",
        told,
        f"independent drafts at {rates[0]:.4f} ({ends[0]:.4f} to {ends[1]:.4f})",
    )
    record = Independent(rate=short(float(rates[0])), recorded_gamma=gamma)
    return Fit(record, tokens[0], low, high, gamma, lines, (_BY_STRETCHES,))


def _positional(counts: Counts, told: str, replicates: int, generator: np.random.Generator) -> Fit:
    survival = _survival_of(counts)
    gamma = len(survival)
    drawn = _redrawn_survival(counts, replicates, generator)
    mean = counts.tokens / counts.rounds
    lines = [
        f"{counts.rounds} rounds in their order, {mean:.4f} tokens per round, gamma {gamma}",
        told,
        "acceptance falls or rises with the position, and rounds that follow each other share no stretches",
    ]
    assumed = [_BY_STRETCHES]
    return fit_of_survival(survival, drawn, gamma, lines, assumed)
