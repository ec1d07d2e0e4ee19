"""A load as one replica of several sees it: requests to simulate, and rates for the quick answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from specsim.serving.arrivals import arrival_times, closed_starts, draw_sizes, sizes_of
from specsim.serving.requests import Array, Requests, Sizes
from specsim.specs.acceptance import Point
from specsim.specs.workload import AnyLoad, Closed, Engine, GammaArrivals, GivenLengths, OnOff, Simulation, TraceLoad

_WINDOW_SECONDS = 60.0
"""Over so long a time the rate of a trace counts as steady."""

_MOST_RATES = 48

_NO_LIMIT = 2**62

_TYPICAL = 100_000
"""Requests that are drawn where a share of them is wanted."""


@dataclass(frozen=True, eq=False)
class Workload:
    """A load with everything that files say of it.

    Attributes:
        load: Its arrivals.
        trace: Requests of a trace, cut and scaled in time, beginning at 0; None for other loads.
        shares: Share of each class among the requests, shape (C,).
        lengths: Of each class; recorded requests stand for drawing among them; unused with a trace.
        acceptances: Of each class, None where the drafter says it.
        most_tokens: Requests of more, prompt and output together, are turned away: they fit on no replica.
    """

    load: AnyLoad
    trace: Requests | None
    shares: Array
    lengths: tuple[GivenLengths | Requests, ...]
    acceptances: tuple[Point | None, ...]
    most_tokens: int = _NO_LIMIT

    @property
    def requests_per_second(self) -> float | None:
        """Mean rate of the requests that fit, None for closed loops."""
        match self.load:
            case Closed():
                return None
            case TraceLoad():
                trace = self.trace
                if trace is None:
                    return None
                return len(trace) * self.fitting_share / max(float(trace.arrival_seconds[-1]), 1e-9)
            case load:
                return load.requests_per_second * self.fitting_share

    @cached_property
    def sizes(self) -> Sizes:
        """Prompts and outputs of the requests that fit, to integrate over.

        Raises:
            ValueError: If none does.
        """
        known = (self.trace,) if self.trace is not None else self.lengths
        if self.fitting_share == 1.0:
            return sizes_of(known, self.of_classes)
        some = self._fitting(self._typical)
        if not len(some):
            raise ValueError("no request fits")
        kinds = np.bincount(some.kind, minlength=len(known))
        return sizes_of(tuple(some.where(some.kind == kind) for kind in range(len(known))), kinds / len(some))

    @property
    def _typical(self) -> Requests:
        """Requests that stand for all: those of a trace, or very many that are drawn."""
        return self.trace if self.trace is not None else _typical_of(self.lengths, tuple(self.shares.tolist()))

    @cached_property
    def fitting_share(self) -> float:
        """Share of the requests that are not turned away."""
        return 1.0 if self.most_tokens >= self.longest else len(self._fitting(self._typical)) / len(self._typical)

    def _fitting(self, requests: Requests) -> Requests:
        return requests.where(requests.prompt_tokens + requests.output_tokens <= self.most_tokens)

    @property
    def mean_output(self) -> float:
        """Mean output of the requests that fit [tokens]."""
        return float(self.sizes.mean(self.sizes.output_tokens))

    @property
    def of_classes(self) -> Array:
        """Share of each class among what is drawn: a trace is one class."""
        return np.ones(1) if self.trace is not None else self.shares

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest request that is to be expected."""
        return self._typical.longest

    def drawn(self, replicas: int, replication: int, simulation: Simulation, engine: Engine) -> Requests:
        """Requests of one replica of some, but those that fit on none; first ones of closed loops in [0, 1)."""
        generator = np.random.default_rng([simulation.seed, replication, 1])
        if self.trace is not None or isinstance(self.load, TraceLoad):
            trace = self.trace if self.trace is not None else _NOTHING
            return _routed(self._fitting(trace), replicas, replication, engine, generator)
        number = simulation.requests
        if isinstance(self.load, Closed):
            users = self.load.users // replicas + (replication % replicas < self.load.users % replicas)
            found = draw_sizes(self.lengths, self.shares, number, generator)
            # A request that fits nowhere is answered at once, and another one is asked in its place.
            kept = self._fitting(found)
            return kept.at(closed_starts(users, len(kept), generator))
        times = arrival_times(self.load, number * replicas, generator)
        found = draw_sizes(self.lengths, self.shares, number * replicas, generator).at(times)
        return _routed(self._fitting(found), replicas, replication, engine, generator)

    def rates(self, replicas: int) -> tuple[Array, Array]:
        """Rates of arrival at one replica of some, and the share of the requests that come at each; shapes (R,)."""
        match self.load:
            case OnOff() as load:
                of = np.array([load.off_requests_per_second, load.on_requests_per_second])
                requests = of * [load.off_duration_seconds, load.on_duration_seconds]
                return of[of > 0] * self.fitting_share / replicas, requests[of > 0] / requests.sum()
            case TraceLoad():
                trace = None if self.trace is None else self._fitting(self.trace)
                return _rates_of(trace, replicas) if trace is not None else (np.ones(1), np.ones(1))
            case Closed():
                return np.ones(1), np.ones(1)
            case load:
                return np.array([load.requests_per_second * self.fitting_share / replicas]), np.ones(1)

    def gaps_variation(self, replicas: int, engine: Engine) -> float:
        """Squared variation of the gaps between arrivals at one replica of some."""
        own = self.load.variation**2 if isinstance(self.load, GammaArrivals) else 1.0
        return own / replicas if engine.routing == "round_robin" else 1.0 + (own - 1.0) / replicas


@lru_cache(4)
def _typical_of(lengths: tuple[GivenLengths | Requests, ...], shares: tuple[float, ...]) -> Requests:
    return draw_sizes(lengths, np.array(shares), _TYPICAL, np.random.default_rng(_TYPICAL))


_NOTHING = Requests(np.zeros(0), *(np.zeros(0, dtype=np.int64) for _ in range(3)))


def _routed(requests: Requests, replicas: int, which: int, engine: Engine, generator: np.random.Generator) -> Requests:
    """Those of one replica."""
    if replicas == 1:
        return requests
    if engine.routing == "random":
        return requests.where(generator.integers(0, replicas, len(requests)) == which % replicas)
    return requests.where(slice(which % replicas, None, replicas))


def _rates_of(trace: Requests, replicas: int) -> tuple[Array, Array]:
    """Rates of a trace in windows, those of similar rate together."""
    end = float(trace.arrival_seconds[-1])
    windows = max(int(end / _WINDOW_SECONDS), 1)
    counts = np.histogram(trace.arrival_seconds, windows, (0.0, max(end, 1e-9)))[0].astype(float)
    rates = np.sort(counts[counts > 0] / max(end / windows, 1e-9))
    parts = np.array_split(rates, min(len(rates), _MOST_RATES))
    of_each = np.array([part.mean() for part in parts])
    requests = np.array([part.sum() for part in parts])
    return of_each / replicas, requests / requests.sum()
