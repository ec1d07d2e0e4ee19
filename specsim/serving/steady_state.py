"""The quick answer: what a replica does in the long run at some rates of arrival, without running through time.

Requests that decode share a step, so a replica is a processor-sharing queue whose rate depends on the batch. With
tau(b) a round at batch b, m(b) rounds for a request and w(b) the time that reading one prompt adds to the steps of such
a batch, prompts that arrive at the rate lambda stretch every round to tau / (1 - lambda w), and a batch of b lets

    mu(b) = b / (m(b) tau(b) / (1 - lambda w(b)) + carry(b))

requests go in a second, where carry is what prompts add that came beside one's own (``_stay``). The law of the batch is
the product of lambda / mu(i), whatever the law of the lengths (insensitivity of processor sharing: Cohen 1979, The
multiple phase service network with generalized processor sharing). Beyond the largest batch requests wait in line,
which is corrected by (c_a^2 + c_s^2) / 2 (Allen-Cunneen); who waits there, waits for an exponential time, as in M/M/c.
Prompts wait for the step at hand and for what a step may
read (``_behind_others``).

Arrivals that are no Poisson process are taken as one; quiet and busy hours as a mixture of rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specsim.serving.profile import Profile
from specsim.serving.requests import Array, IntArray

_BISECTIONS = 48


@dataclass(frozen=True, eq=False)
class SteadyState:
    """A replica in the long run at some rates of arrival, shape (R,); what is no rate is a mean over requests.

    Attributes:
        profile: Of the replica.
        requests_per_second: Arrivals at it.
        stable: Whether it can carry them; where not, what follows is as near to its limit as can be told.
        law: Share of time with 0, 1, ... requests decoding, shape (R, B + 1).
        decoding: Mean number of requests that decode.
        decode_seconds: From the first token to the last [s].
        waiting_seconds: Wait for a place in the batch [s].
        queue_seconds: Wait behind other prompts [s].
        reading_load: Share of its time that reading prompts would take one after another.
        own_seconds: Reading its own prompt, by size, shape (R, A) [s].
        busy: Share of time in steps.
        prompt_load: Share of the time of a mean batch that prompts of others take.
        carried_seconds: What prompts that came beside one's own add to the first rounds [s].
    """

    profile: Profile
    requests_per_second: Array
    stable: NDArray[np.bool_]
    law: Array
    decoding: Array
    decode_seconds: Array
    waiting_seconds: Array
    queue_seconds: Array
    reading_load: Array
    own_seconds: Array
    busy: Array
    prompt_load: Array
    carried_seconds: Array

    @cached_property
    def _nearest(self) -> IntArray:
        return np.clip(np.rint(self.decoding).astype(np.int64), 1, len(self.profile.round_seconds))

    @property
    def tokens_per_second(self) -> Array:
        """Output tokens of the replica."""
        return self.requests_per_second * self.profile.mean_output

    @property
    def mean_batch_size(self) -> Array:
        """Requests in flight while it is at work: decoding, or with their prompt being read."""
        reading = self.requests_per_second * (self.profile.weight * self.own_seconds).sum(-1)
        known = (self.decoding + np.minimum(reading, 1.0)) / np.maximum(self.busy, 1e-12)
        return np.minimum(known, len(self.profile.round_seconds))

    @cached_property
    def _full(self) -> Array:
        """Probability of finding no place in the batch."""
        return np.clip(self.law[:, -1], 1e-12, 1.0)[:, None]

    @cached_property
    def _place(self) -> Array:
        """Mean wait of those who find no place, shape (R, 1) [s]."""
        return np.maximum(self.waiting_seconds[:, None] / self._full, 1e-12)

    @cached_property
    def _reads(self) -> Array:
        """Probability of finding other prompts before one's own."""
        return np.clip(self.reading_load, 1e-9, 1.0)[:, None]

    @cached_property
    def _decode_by_size(self) -> Array:
        """From the first token to the last, by size, shape (R, A) [s]."""
        profile, near, load = self.profile, self._nearest, self.prompt_load[:, None]
        rounds = profile.rounds_by_size[near - 1]
        usual = profile.round_seconds[near - 1][:, None] / (1 - load)
        time = rounds * usual + self.carried_seconds[:, None] * (1 - load**rounds)
        mean = (time * profile.weight).sum(-1, keepdims=True)
        return time / np.maximum(mean, 1e-300) * self.decode_seconds[:, None]

    @cached_property
    def _after(self) -> Array:
        return np.maximum(self.profile.output_tokens - 1, 1e-9)

    @cached_property
    def _counts(self) -> Array:
        """Share of each size among the requests that have a time per output token, shape (A,)."""
        counted = self.profile.weight * (self.profile.output_tokens > 1.0)
        return counted / max(counted.sum(), 1e-300)

    @property
    def time_per_output_token(self) -> Array:
        """Mean over requests of (end to end - time to first token) / (output - 1) [s]."""
        return (self._decode_by_size / self._after * self._counts).sum(-1)

    @property
    def time_to_first_token(self) -> Array:
        """Mean over requests [s]."""
        own = (self.own_seconds * self.profile.weight).sum(-1)
        return self.waiting_seconds + self.queue_seconds + own

    @property
    def end_to_end(self) -> Array:
        """Mean over requests [s]."""
        return self.time_to_first_token + self.decode_seconds

    @cached_property
    def _parts(self) -> tuple[Array, Array, Array, Array]:
        """From first token to last by size, shape (R, A) each: mean and variance without prompts, mean and mean square
        of what prompts of others add [s, s^2].

        Its variance is the luck of the rounds, and a batch that changes as slowly as requests stay.
        """
        profile, near = self.profile, self._nearest
        rounds = np.maximum(profile.rounds_by_size[near - 1], 1.0)
        time, rate = self._decode_by_size, self.requests_per_second[:, None]
        prompts = time * np.minimum(rate * profile.prompt_seconds[near][:, None], _NEAREST)
        square = time * rate * profile.prompt_square[near][:, None] + prompts**2
        plain = time - prompts
        luck = plain**2 / rounds * profile.spread[near - 1][:, None]
        seen = self.law[:, 1:] / np.maximum(self.law[:, 1:].sum(-1, keepdims=True), 1e-300)
        mean = (seen * profile.round_seconds).sum(-1)
        spread = (seen * profile.round_seconds**2).sum(-1) / np.maximum(mean**2, 1e-300) - 1
        x = np.maximum(time / np.maximum(self.decode_seconds, 1e-300)[:, None], 1e-6)
        batch = plain**2 * np.maximum(spread, 0.0)[:, None] * 2 * (x - 1 + np.exp(-x)) / x**2
        return plain, luck + batch, prompts, square

    def _lognormals(self, extra: Array, spread: Array, scale: Array, weights: Array) -> Callable[[float], float]:
        """The law of (extra + time from first token to last) x scale: without prompts in between, and with some."""
        plain, variance, prompts, square = self._parts
        none = np.exp(-self.requests_per_second[:, None] * self._decode_by_size)
        some = np.maximum(1 - none, 1e-9)
        mean = prompts / some
        with_some = np.maximum(square / some - mean**2, 0.0)
        one = _lognormal_mixture((extra + plain) * scale, (variance + spread) * scale**2, weights * none)
        other = _lognormal_mixture(
            (extra + plain + mean) * scale, (variance + spread + with_some) * scale**2, weights * some
        )
        return lambda time: one(time) + other(time)

    def quantile(self, latency: str, share: float, requests_share: Array) -> float:
        """A quantile of a latency over requests of all rates, by the share of the requests at each, shape (R,) [s].

        Raises:
            ValueError: If the latency is none of which a law is known here.
        """
        return _where_reached(self._law(latency, requests_share), share)

    def share_below(self, latency: str, seconds: float, requests_share: Array) -> float:
        """The share of the requests, or of gaps, whose latency is at most so much."""
        return self._law(latency, requests_share)(seconds)

    def _law(self, latency: str, requests_share: Array) -> Callable[[float], float]:
        weights = requests_share[:, None] * self.profile.weight
        match latency:
            case "time_to_first_token":
                full, place, reads = self._full, self._place, self._reads
                queue = np.maximum(self.queue_seconds[:, None] / reads, 1e-12)
                # The two waits of a request that has both must differ a little for their law to be a difference.
                place = np.where(np.abs(place - queue) < 1e-6 * queue, (1 + 1e-6) * queue, place)

                def below(time: float) -> float:
                    late = np.maximum(time - self.own_seconds, 0.0)
                    one, other = np.exp(-late / place), np.exp(-late / queue)
                    both = (place * one - queue * other) / (place - queue)
                    beyond = full * (1 - reads) * one + (1 - full) * reads * other + full * reads * both
                    return float((weights * (time >= self.own_seconds) * (1 - beyond)).sum())

                return below
            case "time_per_output_token":
                counted = requests_share[:, None] * self._counts
                return self._lognormals(np.zeros(()), np.zeros(()), 1 / self._after, counted)
            case "end_to_end":
                full, place, queue = self._full, self._place, self.queue_seconds[:, None]
                before, spread = self.own_seconds + queue, queue**2 * (2 / self._reads - 1)
                at_once = self._lognormals(before, spread, np.ones(()), weights * (1 - full))
                late = self._lognormals(before + place, spread + place**2, np.ones(()), weights * full)
                return lambda time: at_once(time) + late(time)
            case "inter_token_gap":
                return self._gap_law(requests_share)
            case _:
                raise ValueError(f"no law is known of {latency}")

    def mean(self, latency: str, requests_share: Array) -> float:
        """The mean of a latency over requests of all rates [s]."""
        values = np.asarray(getattr(self, latency) if latency != "inter_token_gap" else self._mean_gap)
        return float(values @ requests_share)

    @property
    def _mean_gap(self) -> Array:
        return self.decode_seconds / np.maximum(self.profile.rounds[self._nearest - 1], 1e-300)

    def _gap_law(self, requests_share: Array) -> Callable[[float], float]:
        """Gaps between chunks: a round, with what the prompts add that came during it."""
        profile, near = self.profile, self._nearest
        seen = self.law[:, 1:] * profile.batches
        seen = seen / np.maximum(seen.sum(-1, keepdims=True), 1e-300) * requests_share[:, None]
        arrivals = self.requests_per_second[:, None] * self._mean_gap[:, None]
        added = profile.service_seconds[near]
        plain = np.broadcast_to(profile.round_seconds, seen.shape)

        def below(time: float) -> float:
            without = (plain <= time) * np.exp(-arrivals)
            room = time - plain.mean(-1, keepdims=True)
            share = ((added <= room) * profile.weight).sum(-1, keepdims=True)
            return float((seen * (without + (plain <= time) * (1 - np.exp(-arrivals)) * share)).sum())

        return below


def _lognormal_mixture(mean: Array, variance: Array, weights: Array) -> Callable[[float], float]:
    mean = np.maximum(mean, 1e-12)
    sigma = np.sqrt(np.log1p(np.maximum(variance, 0.0) / mean**2) + 1e-12)
    centre = np.log(mean) - sigma**2 / 2

    def below(time: float) -> float:
        return float((weights * _normal_law((np.log(max(time, 1e-12)) - centre) / sigma)).sum())

    return below


_GRID = np.linspace(-8.0, 8.0, 4001)
_LAW = np.concatenate([[0.0], np.cumsum(np.exp(-((_GRID[1:] + _GRID[:-1]) ** 2) / 8))])
_LAW /= _LAW[-1]


def _normal_law(x: Array) -> Array:
    return np.interp(x, _GRID, _LAW)


def _where_reached(below: Callable[[float], float], share: float) -> float:
    """Where a law reaches a share, by doubling and bisection."""
    high = 1e-3
    while below(high) < share:
        high *= 2
        if high > 1e7:
            return float("inf")
    low = high / 2 if high > 1e-3 else 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if below(middle) >= share else (middle, high)
    return high


def steady_state(profile: Profile, requests_per_second: Array) -> SteadyState:
    """A replica in the long run at each of some rates of arrival, shape (R,)."""
    wanted = np.asarray(requests_per_second, dtype=float).reshape(-1)
    saturation = profile.saturation
    stable = wanted < saturation
    rate = np.minimum(wanted, _NEAREST * saturation)
    batches = profile.batches
    # Prompts that a full batch leaves no room for wait, and do not slow it down.
    coming = np.minimum(rate[:, None], 1.0 / np.maximum(profile.service_seconds @ profile.weight, 1e-300))
    stay, load_of_prompts, carried = _stay(profile, coming[:, 1:])
    service = batches / np.maximum(stay, 1e-300)
    steps = np.log(coming[:, :-1]) - np.log(service)
    logarithm = np.concatenate([np.zeros((len(rate), 1)), np.cumsum(steps, axis=-1)], axis=-1)
    law = np.exp(logarithm - logarithm.max(-1, keepdims=True))
    ratio = np.minimum(rate / service[:, -1], 1 - 1e-6)
    beyond = law[:, -1] * ratio / (1 - ratio)
    total = law.sum(-1) + beyond
    law, beyond = law / total[:, None], beyond / total
    in_line = beyond / (1 - ratio)
    law[:, -1] += beyond
    decoding = law[:, 1:] @ batches
    near = np.clip(np.rint(decoding).astype(np.int64), 0, len(batches))
    load, queue, rest = _behind_others(profile, rate, near, 1.0 - law[:, 0])
    own = profile.own_seconds[near]
    own = own + rest[:, None]
    waiting = in_line / rate * (profile.gaps_variation + profile.work_variation) / 2
    # Idle while nothing decodes and no prompt is read.
    busy = 1.0 - law[:, 0] * np.maximum(1.0 - rate * profile.prompt_seconds[0], 0.0)
    at = np.maximum(near - 1, 0)
    return SteadyState(
        profile=profile, requests_per_second=rate, prompt_load=load_of_prompts[np.arange(len(rate)), at],
        carried_seconds=carried[np.arange(len(rate)), at], stable=stable, law=law, decoding=decoding,
        decode_seconds=decoding / rate, waiting_seconds=waiting, queue_seconds=queue, reading_load=load,
        own_seconds=own, busy=busy,
    )  # fmt: skip


def _stay(profile: Profile, rate: Array) -> tuple[Array, Array, Array]:
    """From first token to last at each batch, the load of prompts rho, and what the first rounds have to bear.

    Shapes (R, B) [s]. A round takes X = tau / (1 - rho) with the prompts that came during the one before. The step with
    one's own prompt, X_0 = tau + w + rho E[X^2] / E[X], is longer, and so more come during it: round i takes
    X + rho^i (X_0 - X), and m rounds m X + (X_0 - X) rho (1 - rho^m) / (1 - rho).
    """
    tau, one, more = profile.round_seconds, profile.prompt_seconds[1:], profile.further_seconds[1:]
    # Of the prompts of a step the first one costs less than those beside it.
    together = rate * tau / (1 - np.minimum(rate * one, _NEAREST))
    first = -np.expm1(-together) / np.maximum(together, 1e-300)
    added = first * one + (1 - first) * more
    square = profile.prompt_square[1:] * (added / np.maximum(one, 1e-300)) ** 2
    load = np.minimum(rate * added, _NEAREST)
    usual = tau / (1 - load)
    met = usual + rate * square / (1 - load**2)
    carried = np.maximum(tau + added + load * met - usual, 0.0) * load / (1 - load)
    return profile.rounds * usual + carried * (1 - load**profile.rounds), load, carried


def _behind_others(profile: Profile, rate: Array, near: IntArray, decodes: Array) -> tuple[Array, Array, Array]:
    """Load of reading, wait for prompts before one's own, and for the end of the step at hand, shape (R,) [s].

    A step takes in the prompts that came during the one before: with X the length of a step, a prompt comes into one of
    mean length E[X^2] / E[X], waits for half of it, and is read beside those that came into it too. Beyond what a step
    may read they wait for the next ones, as customers of K servers do (Sakasegawa 1977), K prompts of a step.
    """
    weight = profile.weight
    added, square = profile.prompt_seconds[near], profile.prompt_square[near]
    beside = np.concatenate([[0.0], profile.round_seconds])[near]
    part = np.minimum(rate * added, _NEAREST)
    mean = np.where(beside > 0, beside, added) / (1 - part)
    variance = rate * mean * square / (1 - part**2)
    met = mean + variance / mean
    service = profile.service_seconds[near]
    load = np.minimum(rate * (service @ weight), _NEAREST)
    at_once = np.maximum(profile.tokens_of_a_step[near] / profile.prompt_tokens, 1.0)
    variation = np.maximum(service**2 @ weight / np.maximum(service @ weight, 1e-300) ** 2 - 1, 0.0)
    bulk = load ** (np.sqrt(2 * (at_once + 1)) - 1) / (1 - load) * (service @ weight)
    bulk = bulk * (profile.gaps_variation + variation) / 2
    busy = np.maximum(decodes, load)
    return load, np.maximum(part * met * busy, bulk), busy * met / 2


_NEAREST = 0.995
"""A queue that cannot be carried is looked at this near to what can."""


def closed_rate(profile: Profile, users: float, think_seconds: float) -> float:
    """Requests in a second of users who wait for their answers, where users = rate x (think + end to end)."""
    low, high = 0.0, profile.saturation * _NEAREST
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        found = steady_state(profile, np.array([middle]))
        in_system = middle * (think_seconds + float(found.end_to_end[0]))
        low, high = (middle, high) if in_system < users else (low, middle)
    return low
