"""What is told of a plan: latencies, throughput, shares of time; from simulated runs or from the quick answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from specsim.serving.profile import Profile, profile_of
from specsim.serving.replica import Replica, Run
from specsim.serving.requests import Array
from specsim.serving.steady_state import SteadyState, closed_rate, steady_state
from specsim.serving.workload import Workload
from specsim.specs.workload import LATENCIES, SHARES, Closed, Simulation, Targets

_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Quantiles of Student's law that leave 5 % on both sides together, for 1 degree of freedom and more."""

Statistic = tuple[str, str]
"""A latency and mean, p50, p90, p95 or p99 of it."""


@dataclass(frozen=True, eq=False)
class Sample:
    """What one replication counts.

    Attributes:
        latencies: Of each request, by the name of the latency [s].
        gap_count: How many gaps between chunks there are of each in ``inter_token_gap``.
        seconds: Time over which is counted, from the first counted arrival to the last one; of a trace to its end [s].
        finished: Requests that ended in it.
        tokens: Output tokens of these.
        met: Those of them that met all targets.
        run: Totals of the whole run, by name.
        time_at: Time at each batch and context, shape (B, S) [s].
    """

    latencies: Mapping[str, Array]
    gap_count: Array
    seconds: float
    finished: int
    tokens: int
    met: int
    run: Mapping[str, float]
    time_at: Array


@dataclass(frozen=True, eq=False)
class Figures:
    """What is told of some replicas together.

    Attributes:
        latencies: By latency and statistic [s]; NaN where nothing was counted.
        intervals: Half of the interval of 95 % around them, from the spread of replications [s].
        requests_per_second: That are answered: as many as come, where they do not wait for answers.
        tokens_per_second: Output tokens of these.
        answered_tokens_per_second: Those that were counted: fewer where a run is short beside an answer.
        seconds: Mean time over which was counted; NaN of the quick answer [s].
        goodput: Requests per second that meet all targets.
        mean_batch_size: Requests in flight on a replica at work.
        utilization: Share of time in which a replica is at work.
        extra: Further figures by the name of their column.
        time_at: Time at each batch and context, shape (B, S); of the quick answer at the mean context, in shares.
        method: ``simulation`` or ``steady_state``.
        stable: Whether the load can be carried at all.
    """

    latencies: Mapping[Statistic, float]
    intervals: Mapping[Statistic, float]
    requests_per_second: float
    tokens_per_second: float
    goodput: float
    mean_batch_size: float
    utilization: float
    extra: Mapping[str, float]
    method: str
    answered_tokens_per_second: float
    seconds: float = float("nan")
    stable: bool = True
    time_at: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def broken(self, targets: Targets) -> list[Statistic]:
        """The targets that are not met, the worst one first."""
        over = {of: self.latencies.get(of, float("nan")) / most for of, most in targets.given.items()}
        return sorted((of for of, ratio in over.items() if ratio > 1), key=lambda of: -over[of])

    def unsure(self, targets: Targets) -> list[Statistic]:
        """The targets that lie within the interval of what was simulated."""
        known = self.intervals
        return [of for of, most in targets.given.items() if abs(self.latencies[of] - most) < known.get(of, 0.0)]


def sample_of(run: Run, simulation: Simulation, load_is_a_trace: bool, targets: Targets) -> Sample:
    """What is counted of a run: of a stationary load only what comes after its start."""
    requests, number = run.requests, len(run.requests)
    arrival, finish = requests.arrival_seconds, run.finish_seconds
    first_token = run.first_token_seconds
    order = np.sort(arrival)
    skipped = 0 if load_is_a_trace else int(number * simulation.warm_up_share)
    begin, end = (0.0, run.end_seconds) if load_is_a_trace else (order[skipped], order[-1]) if number else (0.0, 0.0)
    counted = arrival >= begin
    after = np.maximum(requests.output_tokens - 1, 1)
    per_token = np.where(requests.output_tokens > 1, (finish - first_token) / after, np.nan)
    of_each = {
        "time_to_first_token": first_token - arrival,
        "time_per_output_token": per_token,
        "end_to_end": finish - arrival,
    }
    met = np.ones(number, dtype=bool)
    for name, values in of_each.items():
        bounds = [most for (latency, _), most in targets.given.items() if latency == name]
        if bounds:
            met &= ~(values > min(bounds))
    inside = (finish > begin) & (finish <= end)
    seconds = max(end - begin, 1e-9)
    drafting, verification, overhead, prompts = run.part_seconds
    return Sample(
        latencies={
            **{name: values[counted & ~np.isnan(values)] for name, values in of_each.items()},
            "inter_token_gap": run.gap_seconds,
        },
        gap_count=run.gap_count.astype(float),
        seconds=float(seconds),
        finished=int(inside.sum()),
        tokens=int(requests.output_tokens[inside].sum()),
        met=int((inside & met).sum()),
        run={
            "end": run.end_seconds, "busy": run.busy_seconds, "drafting": drafting, "verification": verification,
            "overhead": overhead, "prompts": prompts, "in_flight": run.in_flight_seconds, "cache": run.cache_seconds,
            "steps": float(run.steps), "rounds": float(run.rounds), "drafted": float(run.drafted),
            "round_tokens": float(run.round_tokens), "preemptions": float(run.preemptions.sum()),
            "requests": float(number),
        },
        time_at=run.time_at,
    )  # fmt: skip


def simulated_figures(samples: list[Sample], replicas: int, workload: Workload) -> Figures:
    """Replications together: quantiles of all requests, and intervals from the spread between replications.

    Throughput is what the load offers, since what is stable serves that in the long run; closed loops make their own.
    """
    latencies, intervals = dict[Statistic, float](), dict[Statistic, float]()
    for name in LATENCIES:
        weights = [s.gap_count if name == "inter_token_gap" else np.ones(len(s.latencies[name])) for s in samples]
        values = [s.latencies[name] for s in samples]
        pooled = _statistics(np.concatenate(values), np.concatenate(weights))
        each = [_statistics(v, w) for v, w in zip(values, weights, strict=True) if len(v)]
        for of, value in pooled.items():
            latencies[name, of] = value
            if len(each) > 1:
                spread = float(np.std([one[of] for one in each], ddof=1))
                intervals[name, of] = _T95[min(len(each) - 2, len(_T95) - 1)] * spread / len(each) ** 0.5
    total = {key: sum(s.run[key] for s in samples) for key in samples[0].run}
    seconds = sum(s.seconds for s in samples)
    busy = max(total["busy"], 1e-12)
    finished = sum(s.finished for s in samples)
    tokens_per_second = replicas * sum(s.tokens for s in samples) / seconds
    offered = workload.requests_per_second
    answered = replicas * finished / seconds if offered is None else offered
    return Figures(
        latencies=latencies,
        intervals=intervals,
        requests_per_second=answered,
        tokens_per_second=tokens_per_second if offered is None else offered * workload.mean_output,
        answered_tokens_per_second=tokens_per_second,
        seconds=seconds / len(samples),
        goodput=answered * sum(s.met for s in samples) / max(finished, 1),
        mean_batch_size=total["in_flight"] / busy,
        utilization=total["busy"] / max(total["end"], 1e-12),
        extra={
            "tokens_per_round": total["round_tokens"] / max(total["rounds"], 1.0),
            "mean_gamma": total["drafted"] / max(total["rounds"], 1.0),
            "drafting_share": total["drafting"] / busy,
            "verification_share": total["verification"] / busy,
            "overhead_share": total["overhead"] / busy,
            "prefill_share": total["prompts"] / busy,
            "kv_share": total["cache"] / busy,
            "preemptions_per_request": total["preemptions"] / max(total["requests"], 1.0),
        },
        method="simulation",
        time_at=np.sum([s.time_at for s in samples], axis=0),
    )


def _statistics(values: Array, weights: Array) -> dict[str, float]:
    if not len(values):
        return dict.fromkeys(("mean", *SHARES), float("nan"))
    order = np.argsort(values)
    values, reached = values[order], np.cumsum(weights[order])
    found = {"mean": float(values @ weights[order] / reached[-1])}
    for name, share in SHARES.items():
        # The smallest value below which lies at least this share.
        found[name] = float(values[min(int(np.searchsorted(reached, share * reached[-1] - 1e-9)), len(values) - 1)])
    return found


def quick_figures(
    replica: Replica, workload: Workload, replicas: int, targets: Targets, known: Profile | None = None
) -> Figures:
    """The quick answer for some replicas, by the profile of one if it is known."""
    known = profile_of(replica, workload.sizes) if known is None else known
    profile = replace(known, gaps_variation=workload.gaps_variation(replicas, replica.engine))
    rates, shares = workload.rates(replicas)
    if isinstance(workload.load, Closed):
        users = workload.load.users / replicas
        rates = np.array([closed_rate(profile, users, workload.load.think_time_seconds)])
    own = workload.requests_per_second
    mean_rate = float(rates[0]) if own is None else own / replicas
    found = steady_state(profile, rates)
    wanted = {(name, of) for name in LATENCIES[:3] for of in ("mean", "p50", "p99")} | set(targets.given)
    latencies = {
        (name, of): found.mean(name, shares) if of == "mean" else found.quantile(name, SHARES[of], shares)
        for name, of in sorted(wanted)
    }
    # What a mixture of rates does in time, and not over requests: each rate lasts for its requests / rate.
    time = shares * mean_rate / rates
    busy = float(found.busy @ time)
    total = mean_rate * replicas
    met = min((found.share_below(name, most, shares) for (name, _), most in targets.given.items()), default=1.0)
    return Figures(
        latencies=latencies,
        intervals={},
        requests_per_second=total,
        tokens_per_second=total * profile.mean_output,
        answered_tokens_per_second=total * profile.mean_output,
        goodput=total * met,
        mean_batch_size=float((found.mean_batch_size * found.busy) @ time) / max(busy, 1e-12),
        utilization=busy,
        extra=_quick_extra(found, replica, time),
        method="steady_state",
        stable=mean_rate < profile.saturation,
        time_at=_time_at(found, replica, time),
    )


def _time_at(found: SteadyState, replica: Replica, time: Array) -> Array:
    """Time at each batch, at the entry of the mean context, shape (B, S)."""
    contexts = replica.times.context
    at = np.zeros((replica.times.max_batch_size, len(contexts)))
    law = (found.law[:, 1:] * time[:, None]).sum(0)
    at[: len(law), min(round(found.profile.context / float(contexts[1])), len(contexts) - 1)] = law
    return at


def _quick_extra(found: SteadyState, replica: Replica, time: Array) -> dict[str, float]:
    """Shares of the time of steps, and what is drafted, at the mean batch of each rate."""
    profile, choices = found.profile, replica.choices
    near = np.clip(np.rint(found.decoding).astype(int), 1, len(profile.choice))
    chosen = profile.choice[near - 1]
    reading = np.minimum(found.requests_per_second * profile.prompt_seconds[near], 1.0)
    decoding = np.maximum(found.busy - reading, 0.0)
    parts = (profile.part_share[near - 1] * decoding[:, None] * time[:, None]).sum(0)
    whole = max(float(parts.sum() + reading @ time), 1e-12)
    rounds = found.decoding * time / max(float(found.decoding @ time), 1e-12)
    return {
        "tokens_per_round": float(choices.tokens_per_round[chosen] @ rounds),
        "mean_gamma": float(choices.gamma[chosen] @ rounds),
        "drafting_share": float(parts[0]) / whole,
        "verification_share": float(parts[1]) / whole,
        "overhead_share": float(parts[2]) / whole,
        "prefill_share": float(reading @ time) / whole,
        "kv_share": float("nan"),
        "preemptions_per_request": float("nan"),
    }
