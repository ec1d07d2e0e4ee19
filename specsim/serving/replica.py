"""A replica as it is simulated, and what a run of it tells."""

from __future__ import annotations

from dataclasses import dataclass

from specsim.serving.cache import Cache
from specsim.serving.choices import Choices
from specsim.serving.policies import Policy
from specsim.serving.requests import Array, IntArray, Requests
from specsim.serving.steps import StepTimes
from specsim.specs.workload import Engine


@dataclass(frozen=True, eq=False)
class Replica:
    """One replica: what its steps take, what fits, and how its engine works."""

    times: StepTimes
    choices: Choices
    cache: Cache
    engine: Engine
    policy: Policy


@dataclass(frozen=True, eq=False)
class Run:
    """What became of some requests on one replica.

    Attributes:
        requests: They; of closed loops with the arrivals that came about.
        first_token_seconds: When the first token of each came, shape (N,) [s].
        finish_seconds: When the last one did, shape (N,) [s].
        emitted_tokens: Tokens that each was given, shape (N,).
        preemptions: How often each lost its blocks, shape (N,).
        gap_seconds: Times between two chunks of one answer [s].
        gap_count: How many such gaps there were of each.
        end_seconds: When the last step ended [s].
        busy_seconds: Time in steps [s].
        part_seconds: Of that drafting, verification, overhead, prompts [s].
        in_flight_seconds: Requests in flight x time in steps [s].
        cache_seconds: Share of the cache in use x time in steps [s].
        steps: Number of steps.
        rounds: Rounds, each of one request.
        drafted: Drafts of these.
        round_tokens: Tokens that these emitted.
        time_at: Time spent decoding at each batch and entry of the contexts, shape (B, S) [s].
        events: Time, event and request, where a log was asked for.
    """

    requests: Requests
    first_token_seconds: Array
    finish_seconds: Array
    emitted_tokens: IntArray
    preemptions: IntArray
    gap_seconds: Array
    gap_count: IntArray
    end_seconds: float
    busy_seconds: float
    part_seconds: tuple[float, float, float, float]
    in_flight_seconds: float
    cache_seconds: float
    steps: int
    rounds: int
    drafted: int
    round_tokens: int
    time_at: Array
    events: tuple[tuple[float, str, int], ...] = ()
