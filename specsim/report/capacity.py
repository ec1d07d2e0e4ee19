"""Plans as rows: how many replicas each option needs, how long requests take, what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specsim.report.notes import of_accepted, of_cards, without_effect
from specsim.report.table import Table
from specsim.serving.capacity import Plan, Task
from specsim.serving.options import NO_DRAFTER
from specsim.serving.prices import HourlyPrice, price_of
from specsim.specs.acceptance import Published
from specsim.specs.scenario import Scenario
from specsim.specs.workload import Closed


@dataclass(frozen=True, eq=False)
class PricedPlan:
    """A plan with what its accelerators cost."""

    plan: Plan
    scenario: Scenario
    price: HourlyPrice
    best: bool

    @property
    def accelerators(self) -> int | None:
        """Of all replicas."""
        return self.plan.replicas * self.plan.option.devices or None

    @property
    def usd_per_hour(self) -> float | None:
        """Of all accelerators; None of what does not meet the targets: nobody would pay for it."""
        price, number = self.price.usd_per_hour, self.accelerators if self.plan.feasible else None
        return None if price is None or number is None else price * number

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Output tokens that are paid for, at the rate of the load."""
        figures, cost = self.plan.figures, self.usd_per_hour
        if figures is None or cost is None or not figures.tokens_per_second > 0:
            return None
        return cost / (figures.tokens_per_second * 3600) * 1e6

    @property
    def kv_tokens(self) -> int | None:
        """Tokens in the cache of one replica at the mean length of requests."""
        cache = self.plan.cache
        return cache.kv_tokens(_MEAN_CONTEXT) if not cache.limit else None

    @property
    def draft_memory_bytes(self) -> int:
        """Weights of the drafter and its cache, on one device, with the cache full of tokens of both."""
        cache = self.plan.cache
        return round(cache.draft_bytes + (self.kv_tokens or 0) * cache.draft_bytes_per_token)

    @property
    def joules_per_token(self) -> float | None:
        """At the power on the hardware card while a step runs."""
        power, figures, number = self.plan_power, self.plan.figures, self.accelerators
        if power is None or figures is None or number is None or not figures.tokens_per_second > 0:
            return None
        return power * number * figures.utilization / figures.tokens_per_second

    @property
    def plan_power(self) -> float | None:
        """Of one accelerator [W]."""
        return self.scenario.hardware.power_watts if self.scenario.hardware is not None else None


_MEAN_CONTEXT = 4096
"""Length of the requests for which a cache is counted in tokens; it matters where layers have windows or states."""


@dataclass(frozen=True)
class PlanColumn:
    """One column of plans: name, unit, meaning, and how it is read."""

    name: str
    unit: str
    meaning: str
    value: Callable[[PricedPlan], object]


def _latency(name: str, of: str) -> Callable[[PricedPlan], object]:
    def read(row: PricedPlan) -> object:
        figures = row.plan.figures
        return None if figures is None else figures.latencies.get((name, of), float("nan")) * 1e3

    return read


def _interval(name: str, of: str) -> Callable[[PricedPlan], object]:
    def read(row: PricedPlan) -> object:
        figures = row.plan.figures
        return None if figures is None else figures.intervals.get((name, of), float("nan")) * 1e3

    return read


def _figure(name: str) -> Callable[[PricedPlan], object]:
    return lambda row: None if row.plan.figures is None else getattr(row.plan.figures, name)


def _extra(name: str) -> Callable[[PricedPlan], object]:
    return lambda row: None if row.plan.figures is None else row.plan.figures.extra.get(name)


def _per_accelerator(row: PricedPlan) -> object:
    figures, number = row.plan.figures, row.accelerators
    return None if figures is None or number is None else figures.tokens_per_second / number


def _quick_error(name: str) -> Callable[[PricedPlan], object]:
    def read(row: PricedPlan) -> object:
        figures, quick = row.plan.figures, row.plan.quick
        if figures is None or quick is None or figures.method != "simulation":
            return None
        if name == "throughput":
            answered = figures.answered_tokens_per_second
            return quick.tokens_per_second / answered - 1 if answered else None
        return quick.latencies[name, "mean"] / figures.latencies[name, "mean"] - 1

    return read


PLAN_COLUMNS = (
    PlanColumn("hardware", "", "accelerator, by its catalogue name", lambda r: r.scenario.hardware.name),  # type: ignore[union-attr]
    PlanColumn("tensor_parallel", "", "devices that split each layer of the target",
               lambda r: r.scenario.target.tensor_parallel),  # type: ignore[union-attr]
    PlanColumn("draft", "", "drafter; none decodes plainly", lambda r: r.plan.option.drafter),
    PlanColumn("policy", "", "how draft lengths are chosen: off, fixed, table or adaptive",
               lambda r: r.plan.option.policy.label),
    PlanColumn("gamma", "tokens", "drafted tokens per round of fixed, the most of table and adaptive",
               lambda r: r.plan.gamma),
    PlanColumn("replicas", "", "the least number that meets all targets; where none does, the one that is shown",
               lambda r: r.plan.replicas or None),
    PlanColumn("accelerators", "", "of all replicas", lambda r: r.accelerators),
    PlanColumn("feasible", "", "whether all targets are met", lambda r: r.plan.feasible),
    PlanColumn("limit", "", "what stands against it: memory, kv_cache, position, throughput or the latency that "
               "is too long",
               lambda r: r.plan.limit),
    PlanColumn("requests_per_second", "requests/s", "requests that are answered: all that come, but for users who wait",
               _figure("requests_per_second")),
    PlanColumn("tokens_per_second", "tokens/s", "output tokens of these", _figure("tokens_per_second")),
    PlanColumn("tokens_per_second_per_accelerator", "tokens/s", "the same of one accelerator", _per_accelerator),
    PlanColumn("mean_batch_size", "", "requests in flight on a replica while it is at work",
               _figure("mean_batch_size")),
    PlanColumn("utilization", "", "share of time in which a replica is at work", _figure("utilization")),
    PlanColumn("ttft_p50_ms", "ms", "time to first token, median", _latency("time_to_first_token", "p50")),
    PlanColumn("ttft_p99_ms", "ms", "the same, 99 % quantile", _latency("time_to_first_token", "p99")),
    PlanColumn("tpot_p50_ms", "ms", "time per output token of a request, median",
               _latency("time_per_output_token", "p50")),
    PlanColumn("tpot_p99_ms", "ms", "the same, 99 % quantile", _latency("time_per_output_token", "p99")),
    PlanColumn("e2e_p50_ms", "ms", "from arrival to last token, median", _latency("end_to_end", "p50")),
    PlanColumn("e2e_p99_ms", "ms", "the same, 99 % quantile", _latency("end_to_end", "p99")),
    PlanColumn("goodput", "requests/s", "requests that meet every target by themselves", _figure("goodput")),
    PlanColumn("draft_memory_bytes", "bytes", "weights of the drafter on a device, and its part of a full cache",
               lambda r: r.draft_memory_bytes),
    PlanColumn("kv_tokens", "tokens", "tokens that the cache of a replica holds", lambda r: r.kv_tokens),
    PlanColumn("usd_per_hour", "USD/h", "price of all accelerators of a plan that meets all targets",
               lambda r: r.usd_per_hour),
    PlanColumn("usd_per_million_tokens", "USD", "price of a million output tokens at this load",
               lambda r: r.usd_per_million_tokens),
    PlanColumn("best", "", "whether it is the cheapest that meets all targets, or has the fewest accelerators where a "
               "price is not known; of those that leave out the fewest requests", lambda r: r.best),
    PlanColumn("seed", "", "of the simulation", lambda r: None),
    PlanColumn("method", "", "simulation, or steady_state for the quick answer",
               lambda r: "" if r.plan.figures is None else r.plan.figures.method),
    PlanColumn("binding", "", "what one replica less would break", lambda r: r.plan.binding),
    PlanColumn("saturation_requests_per_second", "requests/s", "the most that one replica can carry",
               lambda r: r.plan.saturation),
    PlanColumn("off_above_requests_per_second", "requests/s", "load of one replica above which plain decoding gives a "
               "shorter mean time per token; empty if none does", lambda r: r.plan.off_above),
    PlanColumn("ttft_mean_ms", "ms", "time to first token, mean", _latency("time_to_first_token", "mean")),
    PlanColumn("tpot_mean_ms", "ms", "time per output token, mean", _latency("time_per_output_token", "mean")),
    PlanColumn("e2e_mean_ms", "ms", "end to end, mean", _latency("end_to_end", "mean")),
    PlanColumn("gap_p99_ms", "ms", "time between two chunks of an answer, 99 % quantile",
               _latency("inter_token_gap", "p99")),
    PlanColumn("ttft_p99_interval_ms", "ms", "half of the interval of 95 %, from the spread of replications",
               _interval("time_to_first_token", "p99")),
    PlanColumn("tpot_p99_interval_ms", "ms", "the same of the time per output token",
               _interval("time_per_output_token", "p99")),
    PlanColumn("tokens_per_round", "tokens", "tokens that a round emits, cut at the ends of outputs",
               _extra("tokens_per_round")),
    PlanColumn("mean_gamma", "tokens", "drafted tokens of a round", _extra("mean_gamma")),
    PlanColumn("drafting_share", "", "share of the time of steps that drafts take", _extra("drafting_share")),
    PlanColumn("verification_share", "", "share that verification or plain decoding takes",
               _extra("verification_share")),
    PlanColumn("overhead_share", "", "share of fixed costs of rounds", _extra("overhead_share")),
    PlanColumn("prefill_share", "", "share that reading prompts takes", _extra("prefill_share")),
    PlanColumn("kv_share", "", "share of the cache in use while at work", _extra("kv_share")),
    PlanColumn("preemptions_per_request", "", "how often a request loses its blocks and is read again",
               _extra("preemptions_per_request")),
    PlanColumn("excluded_requests", "", "requests that fit on no replica and are left out: of a trace, or of as many "
               "as a replica is simulated with", lambda r: None if r.plan.cache.limit else r.plan.left_out),
    PlanColumn("joules_per_token", "J", "energy of an output token at the power on the card while a step runs",
               lambda r: r.joules_per_token),
    PlanColumn("quick_throughput_error", "", "quick answer / simulation - 1, tokens in a second",
               _quick_error("throughput")),
    PlanColumn("quick_tpot_error", "", "the same of the mean time per output token",
               _quick_error("time_per_output_token")),
    PlanColumn("quick_ttft_error", "", "the same of the mean time to first token",
               _quick_error("time_to_first_token")),
)  # fmt: skip


def priced(plans: Sequence[Plan], scenarios: Sequence[Scenario], prices: Mapping[str, float]) -> list[PricedPlan]:
    """Plans with their costs, and which of them is the best."""
    rows = [
        PricedPlan(plan, scenario, price_of(scenario.hardware, prices), False)
        for plan, scenario in zip(plans, scenarios, strict=True)
        if scenario.hardware is not None
    ]
    feasible = [index for index, row in enumerate(rows) if row.plan.feasible]
    if not feasible:
        return rows
    by_cost = all(rows[index].usd_per_hour is not None for index in feasible)

    def worth(index: int) -> tuple[float, float, float]:
        row = rows[index]
        cost = row.usd_per_hour if by_cost else float(row.accelerators or 0)
        figures = row.plan.figures
        # What turns requests away is no better for being cheap.
        longest = figures.latencies["end_to_end", "mean"] if figures is not None else np.inf
        return row.plan.left_out_share, cost or 0.0, longest

    best = min(feasible, key=worth)
    return [PricedPlan(r.plan, r.scenario, r.price, index == best) for index, r in enumerate(rows)]


def plans_table(rows: Sequence[PricedPlan], task: Task, notes: Sequence[str], assumed: Sequence[str]) -> Table:
    """One row for each option."""
    columns = {}
    for column in PLAN_COLUMNS:
        values = [task.simulation.seed if column.name == "seed" else column.value(row) for row in rows]
        columns[column.name] = array_of(values)
    told = (*_assumed(rows, task), *assumed, *notes)
    return Table(
        columns, (len(rows),), tuple(dict.fromkeys(told)), tuple(dict.fromkeys(_extrapolated(rows))),
        tuple(dict.fromkeys(_infeasible(rows, task))),
    )  # fmt: skip


def array_of(values: list[object]) -> np.ndarray:
    if any(isinstance(value, str) for value in values) or any(value is None for value in values):
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    return np.array(values)


def _assumed(rows: Sequence[PricedPlan], task: Task) -> Iterator[str]:
    simulation, engine = task.simulation, task.engine
    if any(row.plan.figures is not None and row.plan.figures.method == "simulation" for row in rows):
        yield f"{simulation.replications} replications with seed {simulation.seed}; p99 of all their requests together"
    cached = f", {engine.prefix_hit_share:.0%} of each prompt cached" if engine.prefix_hit_share else ""
    yield (f"engine: at most {engine.max_batch_size} requests and {engine.max_batch_tokens} tokens a step, "
           f"{engine.prefill} prefill, blocks of {engine.block_tokens}{cached}, requests to replicas "
           f"{'in turn' if engine.routing == 'round_robin' else 'at random'}")  # fmt: skip
    drafts = [(row.scenario, row.scenario.drafts[0]) for row in rows]
    idle = frozenset.intersection(*(without_effect(*one) for one in drafts)) if drafts else frozenset()
    for scenario, draft in drafts:
        yield from of_cards(scenario, draft, idle)
    for row in rows:
        yield from _of_acceptance(row, task)
    if engine.prefix_hit_share:
        yield "cached prefixes save time and no memory"
    for row in rows:
        yield row.price.basis
    left_out = [_left_out(row.plan) if row.plan.left_out_share else "" for row in rows if row.plan.figures is not None]
    if len(set(left_out)) == 1:
        yield from filter(None, left_out)
    else:
        known = [row.plan.option for row in rows if row.plan.figures is not None]
        yield from (f"{o.drafter} {o.policy.label}: {what}" for o, what in zip(known, left_out, strict=True) if what)
    for row in rows:
        option, short = row.plan.option, _short(row, task)
        if short:
            yield f"{option.drafter} {option.policy.label}: {short}"
        if not short:
            yield from (f"{option.drafter} {option.policy.label}: {what}" for what in _differences(row, task))
        if row.plan.unsure:
            close = ", ".join(f"{name} {of}" for name, of in row.plan.unsure)
            yield (f"{option.drafter} {option.policy.label}: {close} within the interval of the "
                   "simulation; more requests or replications would tell")  # fmt: skip
    if any(row.plan.option.policy.name in ("table", "adaptive") for row in rows):
        yield "a drafter that has paused catches up at no cost, and changing draft lengths costs nothing"
    yield "latency of the network and of tokenizers is not counted"


def _of_acceptance(row: PricedPlan, task: Task) -> Iterator[str]:
    """Where the acceptance of an option comes from."""
    draft, classes = row.scenario.drafts[0], task.workload.acceptances
    # Requests whose class says it ask no drafter.
    if row.plan.option.drafter == NO_DRAFTER or all(one is not None for one in classes):
        return
    middle = ""
    if isinstance(draft.acceptance, Published):
        middle = f"; planned with the middle, {draft.acceptance.typical.label}, alone"
    yield from (told + middle for told in of_accepted(draft))


def _differences(row: PricedPlan, task: Task) -> Iterator[str]:
    """Where simulation and quick answer, or the load, are apart."""
    tokens, time = (_quick_error(name)(row) for name in ("throughput", "time_per_output_token"))
    figures = row.plan.figures
    if figures is not None and isinstance(tokens, float) and abs(tokens) > 0.05:
        if isinstance(task.workload.load, Closed):
            yield f"the quick answer to tokens in a second is off by {tokens:+.0%}"
        else:
            counted, asked = figures.answered_tokens_per_second, figures.tokens_per_second
            yield f"{counted:.4g} of {asked:.4g} tokens/s simulated, by the luck of draws or as answers fall behind"
    if isinstance(time, float) and abs(time) > 0.10:
        quick = f"the quick answer to time per token is off by {time:+.0%}"
        yield f"{quick}, where simulation shows what bursts and prompts do"


_LONG = 10
"""Arrivals that last for fewer mean answers than this see mostly a batch that is still filling."""


def _short(row: PricedPlan, task: Task) -> str:
    """That a simulation of a steady load was too short to be trusted, or nothing."""
    figures = row.plan.figures
    if figures is None or task.workload.trace is not None or figures.method != "simulation":
        return ""
    answer = figures.latencies["end_to_end", "mean"]
    if not figures.seconds < _LONG * answer:
        return ""
    enough = -(-int(task.simulation.requests * _LONG * answer / max(figures.seconds, 1e-9)) // 1000) * 1000
    times = f"arrivals last {figures.seconds:.3g} s and an answer {answer:.3g} s"
    return f"{times}: the batch is still filling, which makes latencies too short; {enough:,} requests would tell"


def _left_out(plan: Plan) -> str:
    """How many requests are left out, and why."""
    most = plan.most_tokens
    where = "positions of its models" if most >= plan.cache.max_positions else "tokens of its cache"
    return f"{100 * plan.left_out_share:.3g}% of the requests do not fit in the {most:,} {where} and are left out"


def _extrapolated(rows: Sequence[PricedPlan]) -> Iterator[str]:
    for row in rows:
        replica = row.plan.replica
        if replica is not None and any(choice.extrapolated for choice in replica.choices.each):
            yield f"acceptance of {row.plan.option.drafter} beyond its record"


def _infeasible(rows: Sequence[PricedPlan], task: Task) -> Iterator[str]:
    targets = task.targets.given
    for row in rows:
        plan, limit = row.plan, row.plan.limit
        if plan.feasible:
            continue
        what = (
            f"{row.scenario.hardware.name} x {plan.option.devices}, {plan.option.drafter}, {plan.option.policy.label}"  # type: ignore[union-attr]
        )
        if limit == "memory":
            yield f"{what}: weights exceed a device by {-plan.cache.room_bytes / 1e9:.3g} GB"
        elif plan.figures is None:
            yield f"{what}: {_left_out(plan)}"
        elif limit == "throughput":
            yield f"{what}: a replica carries at most {plan.saturation:.4g} requests/s"
        else:
            over = "; ".join(
                f"{name} {of} is {plan.figures.latencies[name, of] * 1e3:.4g} ms at {plan.replicas} replicas, "
                f"the target {targets[name, of] * 1e3:.4g} ms"
                for name, of in plan.figures.broken(task.targets)
            )  # fmt: skip
            yield f"{what}: {over}; more replicas do not help"
