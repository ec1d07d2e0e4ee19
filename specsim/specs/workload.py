"""A load on a serving system: when requests arrive, how long they are, and what they are promised."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.acceptance import Drafted, Independent, Length, Positional, Regimes, Simple, Survival
from specsim.specs.fields import (
    Count,
    CountOrZero,
    Flag,
    Name,
    PositiveRatio,
    PositiveSeconds,
    Probability,
    Ratio,
    Seconds,
    Tagged,
    choice,
    number,
    record,
    whole,
)

NORMAL_P99 = 2.3263478740408408
"""The 99 % quantile of the standard normal law."""

LAYOUTS = ("auto", "azure", "burstgpt", "mooncake")
"""Layouts of request traces that are read."""


@record
class Poisson:
    """Requests that arrive independently of each other."""

    kind: Literal["poisson"] = "poisson"
    requests_per_second: PositiveRatio


@record
class GammaArrivals:
    """Independent gaps between arrivals with a gamma law: bursts above a variation of 1, regular below.

    Attributes:
        variation: Standard deviation of the gaps / their mean; 1 is Poisson.
    """

    kind: Literal["gamma"] = "gamma"
    requests_per_second: PositiveRatio
    variation: PositiveRatio


@record
class OnOff:
    """Busy and quiet periods in turn, Poisson inside each, beginning with a quiet one.

    Attributes:
        on_requests_per_second: Rate in busy periods.
        off_requests_per_second: Rate in quiet ones.
        on_duration_seconds: Mean length of a busy period [s].
        off_duration_seconds: Mean length of a quiet one [s].
        durations: ``exponential`` (a Markov-modulated Poisson process) or ``fixed`` (the hours of a day).
    """

    kind: Literal["on_off"] = "on_off"
    on_requests_per_second: PositiveRatio
    off_requests_per_second: Ratio = 0.0
    on_duration_seconds: PositiveSeconds
    off_duration_seconds: PositiveSeconds
    durations: Annotated[str, choice("exponential", "fixed")] = "exponential"

    @property
    def requests_per_second(self) -> float:
        """Mean rate."""
        on, off = self.on_duration_seconds, self.off_duration_seconds
        return (self.on_requests_per_second * on + self.off_requests_per_second * off) / (on + off)


@record
class Closed:
    """Users who each wait for the answer, think, and ask again.

    Attributes:
        users: How many there are.
        think_time_seconds: Mean of the exponential pause between an answer and the next request [s].
    """

    kind: Literal["closed"] = "closed"
    users: Count
    think_time_seconds: Seconds = 0.0


@record
class TraceLoad:
    """Arrivals and lengths as they were recorded.

    Attributes:
        file: Path of the trace.
        layout: How it is laid out; told from its first line if ``auto``.
        start_seconds: What is cut away at the start [s].
        duration_seconds: How long a part is taken, to the end if absent [s].
        speed: By how much time runs faster than it was recorded.
        requests_per_second: The mean rate that time is scaled to, in place of ``speed``.
    """

    kind: Literal["trace"] = "trace"
    file: Name
    layout: Annotated[str, choice(*LAYOUTS)] = "auto"
    start_seconds: Seconds = 0.0
    duration_seconds: PositiveSeconds | None = None
    speed: PositiveRatio = 1.0
    requests_per_second: PositiveRatio | None = None

    def __post_init__(self) -> None:
        if self.requests_per_second is not None and self.speed != 1.0:
            raise Contradiction("It scales time, and so does speed: leave one of the two out.", "requests_per_second")


LOADS = (Poisson, GammaArrivals, OnOff, Closed, TraceLoad)
AnyLoad = Poisson | GammaArrivals | OnOff | Closed | TraceLoad
Load = Annotated[AnyLoad, Tagged("kind", LOADS)]


@record
class Fixed:
    """One length for all requests."""

    kind: Literal["fixed"] = "fixed"
    tokens: Count


@record
class LogNormal:
    """Lengths whose logarithm is normal, by their mean and their 99 % quantile."""

    kind: Literal["lognormal"] = "lognormal"
    mean: PositiveRatio
    p99: PositiveRatio

    def __post_init__(self) -> None:
        most = self.mean * math.exp(NORMAL_P99**2 / 2)
        if not self.mean < self.p99 <= most:
            sentence = f"Beside a mean of {self.mean:g} it is above that and at most {most:.6g}: no lognormal law has a"
            raise Contradiction(f"{sentence} 99 % quantile of more than 14.97 times its mean.", "p99")

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm: sigma^2 / 2 - z sigma + log(p99 / mean) = 0."""
        return NORMAL_P99 - math.sqrt(max(NORMAL_P99**2 - 2 * math.log(self.p99 / self.mean), 0.0))


@record
class Exponential:
    """Lengths with a geometric law, the exponential one in whole tokens."""

    kind: Literal["exponential"] = "exponential"
    mean: PositiveRatio

    def __post_init__(self) -> None:
        if self.mean < 1:
            raise Contradiction("A length has at least one token.", "mean")


@record
class Uniform:
    """Every whole length from ``low`` to ``high`` alike."""

    kind: Literal["uniform"] = "uniform"
    low: Count
    high: Count

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise Contradiction(f"It is below low, {self.low}.", "high")


LENGTHS = (Fixed, LogNormal, Exponential, Uniform)
AnyLength = Fixed | LogNormal | Exponential | Uniform
LengthLaw = Annotated[AnyLength, Tagged("kind", LENGTHS)]


@record
class GivenLengths:
    """Prompts and outputs, each by a law of its own."""

    kind: Literal["given"] = "given"
    prompt_tokens: LengthLaw
    output_tokens: LengthLaw


@record
class TraceLengths:
    """Prompts and outputs drawn together, with replacement, from the requests of a trace.

    Attributes:
        file: Path of the trace.
        layout: How it is laid out; told from its first line if ``auto``.
    """

    kind: Literal["trace"] = "trace"
    file: Name
    layout: Annotated[str, choice(*LAYOUTS)] = "auto"


LENGTHS_OF_REQUESTS = (GivenLengths, TraceLengths)
AnyLengths = GivenLengths | TraceLengths
Lengths = Annotated[AnyLengths, Tagged("kind", LENGTHS_OF_REQUESTS, default="given")]

_ACCEPTANCES = (Independent, Positional, Survival, Length, Drafted, Regimes)


@record
class WorkloadClass:
    """Requests of one kind.

    Attributes:
        request_share: Share of the requests that arrive.
        lengths: Their lengths; as all others if absent.
        acceptance: How often their drafts are accepted, whoever drafts; as the draft says if absent.
    """

    request_share: Probability
    lengths: Lengths | None = None
    acceptance: Annotated[Simple | Regimes, Tagged("kind", _ACCEPTANCES)] | None = None


SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Quantiles of which a target may speak."""


@record
class Bounds:
    """What the mean and some quantiles of a latency may be at most [s]."""

    mean_seconds: PositiveSeconds | None = None
    p50_seconds: PositiveSeconds | None = None
    p90_seconds: PositiveSeconds | None = None
    p95_seconds: PositiveSeconds | None = None
    p99_seconds: PositiveSeconds | None = None

    def __post_init__(self) -> None:
        if not self.given:
            raise Contradiction("A target names mean, p50, p90, p95 or p99, as in p99: 40 ms.")

    @property
    def given(self) -> dict[str, float]:
        """Those that are given, by their name [s]."""
        found = {name: getattr(self, f"{name}_seconds") for name in ("mean", *SHARES)}
        return {name: value for name, value in found.items() if value is not None}


LATENCIES = ("time_to_first_token", "time_per_output_token", "end_to_end", "inter_token_gap")
"""Latencies that targets may bound: to the first token, (end to end - that) / (output - 1), of the whole answer, and
between two chunks of it."""


@record
class Targets:
    """What requests are promised; nothing if empty."""

    time_to_first_token: Bounds | None = None
    time_per_output_token: Bounds | None = None
    end_to_end: Bounds | None = None
    inter_token_gap: Bounds | None = None

    @property
    def given(self) -> dict[tuple[str, str], float]:
        """Latency and statistic to the most it may be [s]."""
        bounds = {name: getattr(self, name) for name in LATENCIES}
        return {(name, of): most for name, b in bounds.items() if b is not None for of, most in b.given.items()}


@record
class Engine:
    """How an engine puts requests together.

    Attributes:
        max_batch_size: Requests in flight at most (vLLM: max_num_seqs; SGLang: max_running_requests).
        max_batch_tokens: New tokens of a step at most (vLLM: max_num_batched_tokens).
        prefill: ``chunked``: prompts are read in parts beside decoding. ``separate``: whole prompts in steps of their
            own, during which decoding waits.
        block_tokens: Tokens of one block of the cache.
        prefix_hit_share: Share of each prompt that is found in the cache and not read again.
        routing: Which replica takes a request: ``round_robin`` or ``random``.
    """

    max_batch_size: Annotated[int, whole(1, 4096)] = 256
    max_batch_tokens: Count = 8192
    prefill: Annotated[str, choice("chunked", "separate")] = "chunked"
    block_tokens: Annotated[int, whole(1, 65536)] = 16
    prefix_hit_share: Annotated[float, number(0, 0.999)] = 0.0
    routing: Annotated[str, choice("round_robin", "random")] = "round_robin"

    def __post_init__(self) -> None:
        if self.max_batch_tokens <= self.max_batch_size:
            sentence = f"Every request in flight takes one: more than max_batch_size, {self.max_batch_size}, are needed"
            raise Contradiction(f"{sentence} if prompts are to be read.", "max_batch_tokens")


@record
class Simulation:
    """How an option is confirmed.

    Attributes:
        requests: Requests that a replica is given in each replication; of a trace as many as it holds.
        replications: How often, each with its own random numbers.
        warm_up_share: Share of the first requests that are not counted, so that one in ten is at least; of a trace
            none.
        seed: Of all random numbers.
    """

    requests: Annotated[int, whole(10, 10_000_000)] = 2000
    replications: Annotated[int, whole(1, 1000)] = 4
    warm_up_share: Annotated[float, number(0, 0.9)] = 0.1
    seed: CountOrZero = 0


@record
class PolicyRules:
    """What policies may do.

    Attributes:
        max_gamma: Longest draft that fixed and changing policies may choose.
        hysteresis: A changing policy leaves its draft length only for one that is better by this share.
        extrapolate: Whether draft lengths beyond the recorded acceptance may be chosen.
    """

    max_gamma: Annotated[int, whole(1, 64)] = 8
    hysteresis: Annotated[float, number(0, 1)] = 0.02
    extrapolate: Flag = False
