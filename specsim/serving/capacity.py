"""How many replicas a load needs: the least number that meets all targets, by the quick answer, then by simulation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specsim.serving.cache import Cache
from specsim.serving.figures import Figures, Sample, Statistic, quick_figures, sample_of, simulated_figures
from specsim.serving.options import Option, PolicyName, replicas_of
from specsim.serving.profile import Profile, profile_of
from specsim.serving.replica import Replica, Run
from specsim.serving.requests import Array
from specsim.serving.simulator import simulate
from specsim.serving.steady_state import closed_rate, steady_state
from specsim.serving.workload import Workload
from specsim.specs.workload import Closed, Engine, PolicyRules, Simulation, Targets, TraceLoad

MOST_REPLICAS = 65_536
_MOST_SIMULATED = 24
"""Numbers of replicas that are simulated for one option before the search gives up."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What became of an option.

    Attributes:
        option: The option.
        replica: One of its replicas, None where its weights do not fit.
        cache: Its memory.
        gamma: Draft length of a fixed policy, the longest one of others.
        replicas: The least number that meets all targets; the number looked at where none does.
        feasible: Whether targets are met.
        limit: What stands against it where they are not.
        binding: What one replica less would break.
        figures: Of these replicas.
        quick: Of the same number by the quick answer, None where nothing fits.
        unsure: Targets within the interval of the simulation.
        saturation: Requests per second that one replica can carry at most.
        off_above: Requests per second at one replica above which decoding without drafts gives a shorter time per
            token; NaN if there is no such rate.
        most_tokens: Of a request that fits on a replica, prompt and output together.
        left_out: Requests that fit on none: of a trace, or of as many as a replica is simulated with.
        left_out_share: The same as a share of all requests.
    """

    option: Option
    replica: Replica | None
    cache: Cache
    gamma: int
    replicas: int
    feasible: bool
    limit: str
    binding: str
    figures: Figures | None
    quick: Figures | None
    unsure: tuple[Statistic, ...] = ()
    saturation: float = float("nan")
    off_above: float = float("nan")
    most_tokens: int = 0
    left_out: int = 0
    left_out_share: float = 0.0


@dataclass(frozen=True, eq=False)
class Task:
    """What all options are held against."""

    workload: Workload
    targets: Targets
    engine: Engine
    simulation: Simulation
    rules: PolicyRules
    quick_only: bool = False

    def replications(self, replicas: int) -> int:
        """Runs that confirm so many replicas; of a trace as many as there are, since each has its own part of it."""
        asked = self.simulation.replications
        return max(asked, min(replicas, _MOST_PARTS)) if self.workload.trace is not None else asked

    def without_longer(self, most_tokens: int) -> Task:
        """The same, of the requests that fit."""
        return replace(self, workload=replace(self.workload, most_tokens=most_tokens))


_MOST_PARTS = 64
"""Replicas of which each is simulated with its own part of a trace."""


@dataclass(frozen=True, eq=False)
class Job:
    """One replication of one number of replicas."""

    replica: Replica
    task: Task
    replicas: int
    replication: int


def run_job(job: Job) -> Sample:
    """One replica simulated once, and what is counted of it."""
    run, task = simulated(job), job.task
    return sample_of(run, task.simulation, isinstance(task.workload.load, TraceLoad), task.targets)


def simulated(job: Job, *, log: bool = False) -> Run:
    """One replica simulated once."""
    task = job.task
    requests = task.workload.drawn(job.replicas, job.replication, task.simulation, task.engine)
    generator = np.random.default_rng([task.simulation.seed, job.replication, 2])
    load, think = task.workload.load, None
    if isinstance(load, Closed):
        think = load.think_time_seconds
        # The first questions spread over the time from one to the next: users who ask at once would stay in step.
        users = load.users / job.replicas
        known = profile_of(job.replica, task.workload.sizes)
        requests = requests.at(requests.arrival_seconds * (users / closed_rate(known, users, think)))
    return simulate(job.replica, requests, generator, think_seconds=think, log=log)


def first_run(plan: Plan, task: Task) -> Run:
    """The first replication of a plan once more, with every event.

    Raises:
        ValueError: If nothing of the plan fits.
    """
    return simulated(job_of(plan, task), log=True)


def job_of(plan: Plan, task: Task, replication: int = 0) -> Job:
    """One replication of a plan.

    Raises:
        ValueError: If nothing of the plan fits.
    """
    if plan.replica is None:
        raise ValueError("nothing fits that could be simulated")
    return Job(plan.replica, task.without_longer(plan.most_tokens), plan.replicas, replication)


Mapped = Callable[[Callable[[Job], Sample], Iterable[Job]], Iterator[Sample]]
"""Runs jobs, in their order: ``map``, or that of a pool of processes."""


def plans(options: Sequence[Option], task: Task, mapped: Mapped = map) -> list[Plan]:
    """The plan of each option; options and replications are simulated side by side if ``mapped`` does so."""
    found: list[Plan | None] = [None] * len(options)
    searches, wanted = dict[int, _Search](), dict[int, _Wanted]()

    def advance(index: int, figures: Figures | None) -> None:
        try:
            wanted[index] = next(searches[index]) if figures is None else searches[index].send(figures)
        except StopIteration as end:
            found[index] = end.value
            wanted.pop(index, None)

    for index, option in enumerate(options):
        searches[index] = _search(option, task)
        advance(index, None)
    while wanted:
        waves = list(wanted.items())
        jobs = [
            Job(replica, own, replicas, replication)
            for _, (replica, replicas, own) in waves
            for replication in range(task.replications(replicas))
        ]
        samples = iter(list(mapped(run_job, jobs)))
        for index, (_, replicas, _) in waves:
            each = [next(samples) for _ in range(task.replications(replicas))]
            advance(index, simulated_figures(each, replicas, wanted[index][2].workload))
    return [plan for plan in found if plan is not None]


_Wanted = tuple[Replica, int, Task]
_Search = Generator[_Wanted, Figures, Plan]


def _search(option: Option, task: Task) -> _Search:
    """The least number of replicas; yields what it wants to have simulated."""
    candidates, cache = _offered(option, task)
    nothing = _nothing(option, cache, candidates, task)
    if cache.limit or nothing.left_out_share > _MOST_LEFT_OUT:
        return nothing
    # Of fixed draft lengths the one of the fewest replicas, then of the shortest time per token.
    looks = list[tuple[int, _Look]]()
    for gamma, replica, most_tokens in candidates:
        own = task.without_longer(most_tokens)
        if 1 - own.workload.fitting_share <= _MOST_LEFT_OUT:
            looks.append((gamma, _Look(replica, profile_of(replica, own.workload.sizes), own)))
    tried = [(*_quick_search(look), look, gamma) for gamma, look in looks]
    best = min(range(len(tried)), key=lambda i: (not tried[i][1], tried[i][0], _mean_time(tried[i][2]), i))
    replicas, _, quick, look, gamma = tried[best]
    saturation, replica, task = look.profile.saturation, look.replica, look.task
    plan = replace(
        _counted(nothing, task), replica=replica, gamma=gamma, replicas=replicas, limit="", quick=quick, figures=quick,
        saturation=saturation, off_above=_off_above(option, look),
    )  # fmt: skip
    if task.quick_only:
        broken = _broken(quick, task)
        binding = "" if broken or replicas == 1 else _first(_broken(look(replicas - 1), task))
        return replace(plan, feasible=not broken, limit=_first(broken), binding=binding)
    seen = dict[int, Figures]()
    while len(seen) < _MOST_SIMULATED:
        seen[replicas] = yield replica, replicas, task
        following = _next(seen, task, _least_stable(task, saturation))
        if following is None:
            break
        replicas = following
    good = [n for n, figures in seen.items() if not _broken(figures, task)]
    replicas = min(good, default=max(seen))
    figures, less = seen[replicas], seen.get(replicas - 1)
    broken = _broken(figures, task)
    binding = _first(_broken(less, task)) if less is not None and good else ""
    if not binding and good and replicas > 1:
        binding = "throughput"
    return replace(
        plan, replicas=replicas, feasible=not broken, limit=_first(broken), binding=binding, figures=figures,
        quick=look(replicas), unsure=tuple(figures.unsure(task.targets)),
    )  # fmt: skip


_MOST_LEFT_OUT = 0.5
"""Share of the requests that may fit on no replica; what answers fewer than it turns away is no plan."""


def _nothing(option: Option, cache: Cache, candidates: list[tuple[int, Replica, int]], task: Task) -> Plan:
    """The plan of an option that answers no request, with what most of them are too long for."""
    most_tokens = max((most for _, _, most in candidates), default=0)
    limit = cache.limit or ("position" if most_tokens >= cache.max_positions else "kv_cache")
    plan = Plan(option, None, cache, 0, 0, False, limit, "", None, None)
    return plan if cache.limit else _counted(plan, task.without_longer(most_tokens))


def _counted(plan: Plan, task: Task) -> Plan:
    """A plan with the requests that do not fit."""
    workload = task.workload
    share = 1 - workload.fitting_share
    number = task.simulation.requests if workload.trace is None else len(workload.trace)
    return replace(plan, most_tokens=workload.most_tokens, left_out=round(share * number), left_out_share=share)


def _next(seen: dict[int, Figures], task: Task, least: int) -> int | None:
    """The number of replicas to look at next, None if the least one is known or there is none."""
    good = sorted(n for n, figures in seen.items() if not _broken(figures, task))
    bad = sorted(n for n, figures in seen.items() if _broken(figures, task))
    below = max((n for n in bad if not good or n < good[0]), default=least - 1)
    if good:
        if good[0] - below <= 1:
            return None
        # Near to the quick answer first, in ever longer steps, then halves.
        return max(good[0] - 2 ** (len(good) - 1), least) if not bad else (good[0] + below) // 2
    if len(bad) > 1:
        last, before = seen[bad[-1]], seen[bad[-2]]
        worst = _broken(last, task)[0]
        gains = before.latencies.get(worst, np.inf) - last.latencies.get(worst, np.inf)
        if len(bad) > 4 and gains < 0.01 * last.latencies.get(worst, np.inf):
            return None  # More replicas no longer help: this is what a request takes alone.
    grown = max(bad[-1] + max(bad[-1] // 4, 1), bad[-1] + 2 ** (len(bad) - 1))
    return grown if grown <= MOST_REPLICAS else None


def _mean_time(figures: Figures) -> float:
    return figures.latencies["time_per_output_token", "mean"]


def _broken(figures: Figures, task: Task) -> list[Statistic]:
    broken = figures.broken(task.targets)
    return broken if figures.stable else [("throughput", ""), *broken]


def _first(broken: list[Statistic]) -> str:
    return broken[0][0] if broken else ""


@dataclass(frozen=True, eq=False)
class _Look:
    """The quick answer of one replica for any number of them."""

    replica: Replica
    profile: Profile
    task: Task

    def __call__(self, replicas: int) -> Figures:
        return quick_figures(self.replica, self.task.workload, replicas, self.task.targets, self.profile)


def _least_stable(task: Task, saturation: float) -> int:
    rate = task.workload.requests_per_second
    return 1 if rate is None else max(int(np.floor(rate / saturation)) + 1, 1)


def _quick_search(look: _Look) -> tuple[int, bool, Figures]:
    """The least number of replicas by the quick answer; of the most that are tried if none meets the targets."""
    task, saturation = look.task, look.profile.saturation
    rate = task.workload.requests_per_second
    least = _least_stable(task, saturation)
    found = {least: look(least)}
    high = least
    users = task.workload.load.users if isinstance(task.workload.load, Closed) else 0
    alone = max(users, 1) if rate is None else max(int(np.ceil(rate / (0.01 * saturation))), least)
    while _broken(found[high], task):
        if high >= min(alone, MOST_REPLICAS):
            return _as_good(found, task), False, found[_as_good(found, task)]
        high = min(max(high + 1, high * 5 // 4), alone)
        found[high] = look(high)
    low = max((n for n in found if n < high), default=high - 1)
    while high - low > 1:
        middle = (low + high) // 2
        found[middle] = look(middle)
        low, high = (middle, high) if _broken(found[middle], task) else (low, middle)
    return high, True, found[high]


def _as_good(found: dict[int, Figures], task: Task) -> int:
    """The fewest replicas whose worst excess is within 1 % of the smallest: more of them no longer help."""
    excess = {n: max((f.latencies[of] / m for of, m in task.targets.given.items()), default=0.0)
              for n, f in found.items()}  # fmt: skip
    return min(n for n, value in excess.items() if value <= 1.01 * min(excess.values()))


def _off_above(option: Option, look: _Look) -> float:
    """The rate above which a replica without a drafter has the shorter mean time per token, by the quick answer."""
    task = look.task
    if not look.replica.choices.drafts:
        return float("nan")
    off = _offered(replace(option, policy=PolicyName("off")), task)[0]
    if not off:
        return float("nan")
    one, other = look.profile, profile_of(off[0][1], task.workload.sizes)
    rates = np.linspace(0.01, 0.99, 99) * max(one.saturation, other.saturation)
    with_drafts, without = (_times(profile, rates) for profile in (one, other))
    longer = with_drafts > without
    if longer.all():
        return 0.0
    # The last rate at which drafting pays; beyond the saturation of the one, only the other counts.
    return float("nan") if not longer.any() or not longer[-1] else float(rates[np.flatnonzero(~longer)[-1] + 1])


def _times(profile: Profile, rates: Array) -> Array:
    found = steady_state(profile, rates)
    return np.where(found.stable, found.time_per_output_token, np.inf)


def _offered(option: Option, task: Task) -> tuple[list[tuple[int, Replica, int]], Cache]:
    return replicas_of(option, task.workload, task.engine, task.rules)
