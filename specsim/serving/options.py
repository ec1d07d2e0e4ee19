"""Options on offer as replicas: hardware, layout and drafter of one, and the policy that drives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from specsim.planning.question import Question
from specsim.serving.cache import Cache, cache_of
from specsim.serving.choices import Choices, acceptances_of, chain_choices
from specsim.serving.policies import Adaptive, Always, Policy, table_policy
from specsim.serving.replica import Replica
from specsim.serving.steps import StepTimes, step_times
from specsim.serving.workload import Workload
from specsim.specs.workload import Engine, PolicyRules

NO_DRAFTER = "none"
"""What the drafter of plain decoding is called."""

POLICIES = ("off", "fixed", "table", "adaptive")


@dataclass(frozen=True)
class PolicyName:
    """A policy as it was asked for: its name, and the draft length of ``fixed:4``."""

    name: str
    gamma: int | None = None

    @property
    def label(self) -> str:
        """The form in which it is written."""
        return self.name if self.gamma is None else f"{self.name}:{self.gamma}"


@dataclass(frozen=True, eq=False)
class Option:
    """Hardware, layout and drafter of one replica, with the policy that drives it.

    Attributes:
        question: Machine, target and drafter.
        drafter: What rows call the drafter; ``none`` where there is none.
        policy: The policy.
        devices: Accelerators of one replica.
    """

    question: Question
    drafter: str
    policy: PolicyName
    devices: int


def replicas_of(
    option: Option, workload: Workload, engine: Engine, rules: PolicyRules
) -> tuple[list[tuple[int, Replica, int]], Cache]:
    """The replicas that an option may mean: several where the best fixed draft length is sought.

    Each comes with its draft length, and the tokens of the longest request that fits on it alone.
    """
    longest_draft = _longest_draft(option, rules)
    gammas = tuple(range(longest_draft + 1))
    sizes = workload.sizes
    output = np.array([
        max(float((sizes.output_tokens * sizes.weight)[sizes.kind == c].sum()), 1e-9)
        / max(float(sizes.weight[sizes.kind == c].sum()), 1e-9)
        for c in range(len(workload.of_classes))
    ])  # fmt: skip
    given = workload.acceptances if workload.trace is None else workload.acceptances[:1]
    acceptances = acceptances_of(option.question, tuple(workload.of_classes.tolist()), given)
    every = chain_choices(option.question, gammas, acceptances, output)
    target = option.question.target
    positions = target.model.max_positions if target is not None else 1
    longest = min(workload.longest, positions)
    drafts = longest_draft > 0
    widest = cache_of(option.question, drafts, longest_draft + 1, longest, engine.block_tokens)
    if widest.limit:
        return [], widest
    times = step_times(option.question, every, engine.max_batch_size, longest + longest_draft + 1,
                       engine.max_batch_tokens)  # fmt: skip
    found = []
    for gamma, choices, part in _parts(option.policy, every, times, rules):
        slots = int(part.verified_tokens.max())
        cache = cache_of(option.question, choices.drafts, slots, longest, engine.block_tokens)
        policy = _policy(option.policy, gamma, choices, part, rules)
        found.append((gamma, Replica(part, choices, cache, engine, policy), _fits(cache, slots, longest)))
    return found, found[-1][1].cache if found else widest


def _longest_draft(option: Option, rules: PolicyRules) -> int:
    if option.policy.name == "off" or option.drafter == NO_DRAFTER:
        return 0
    return option.policy.gamma if option.policy.gamma is not None else rules.max_gamma


def _fits(cache: Cache, slots: int, longest: int) -> int:
    """Tokens of the longest request that fits alone, with the slots of a round; drafts end where positions do."""
    tokens = np.arange(1, longest + 1)
    fitting = cache.share(tokens + slots) <= 1.0
    most = int(tokens[fitting][-1]) if fitting.any() else 0
    return min(most, cache.max_positions)


def _parts(
    policy: PolicyName, every: Choices, times: StepTimes, rules: PolicyRules
) -> Iterator[tuple[int, Choices, StepTimes]]:
    """The choices of each replica that a policy may mean: all, none, or none and one draft length."""
    last = len(every.each) - 1
    if policy.name in ("table", "adaptive"):
        allowed = [i for i, c in enumerate(every.each) if rules.extrapolate or not c.extrapolated]
        yield max(every.each[i].gamma for i in allowed), *_some(every, times, allowed)
        return
    if policy.name == "off" or last == 0 or policy.gamma == 0:
        yield 0, *_some(every, times, [0])
        return
    wanted = [policy.gamma] if policy.gamma is not None else range(1, last + 1)
    for gamma in wanted:
        if policy.gamma is not None or rules.extrapolate or not every.each[gamma].extrapolated:
            yield gamma, *_some(every, times, [0, gamma])


def _some(every: Choices, times: StepTimes, index: list[int]) -> tuple[Choices, StepTimes]:
    choices = Choices(
        tuple(every.each[i] for i in index), every.texts, every.tokens_per_round[index],
        every.tokens_by_class[:, index], every.overshoot[index],
    )  # fmt: skip
    reading = times.reading_seconds * choices.drafts
    part = replace(times, seconds=times.seconds[index], verified_tokens=times.verified_tokens[index],
                   reading_seconds=reading)  # fmt: skip
    return choices, part


def _policy(asked: PolicyName, gamma: int, choices: Choices, times: StepTimes, rules: PolicyRules) -> Policy:
    if asked.name not in ("table", "adaptive"):
        return Always(asked.label, len(choices.each) - 1)
    table = table_policy(times, choices, rules.hysteresis, extrapolate=True)
    if asked.name == "table":
        return table
    longest = np.array([choice.longest for choice in choices.each])
    tokens = choices.tokens_per_round
    first = float((tokens[1] - 1.0) if len(tokens) > 1 else 0.0)
    return Adaptive(asked.label, table, times.round_seconds, longest, min(max(first, 0.0), 1.0))
