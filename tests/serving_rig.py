"""What tests of loads share: replicas of constant step time, and replicas of catalogue cards."""

from __future__ import annotations

import numpy as np
from conftest import question_of, served

from specsim.api.planning import gamma_question
from specsim.catalog.cards import card
from specsim.cost.machine import Machine
from specsim.planning.question import Question
from specsim.planning.sweep import questions
from specsim.serving.arrivals import arrival_times, draw_sizes, sizes_of
from specsim.serving.cache import Cache, cache_of
from specsim.serving.choices import acceptances_of, chain_choices
from specsim.serving.policies import Always, table_policy
from specsim.serving.profile import profile_of
from specsim.serving.replica import Replica
from specsim.serving.simulator import simulate
from specsim.serving.steps import StepTimes, step_times
from specsim.specs.acceptance import Independent
from specsim.specs.drafter import DraftModel
from specsim.specs.workload import Engine, Fixed, GivenLengths, LogNormal, Poisson

ONE = np.ones(1)


def llama(acceptance=None, draft="llama-3.2-1b", runtime="typical", target="llama-3-8b"):
    """Llama-3-8B with a 1B draft on one H100."""
    return Question(
        machine=Machine(card("hardware", "h100-sxm5"), card("runtime", runtime)),
        target=served(target),
        draft=served(draft, 1, DraftModel, acceptance=acceptance or Independent(rate=0.8)),
    )


def eagle(acceptance):
    """Llama-3.1-8B with an EAGLE-3 head on one H100."""
    asked = gamma_question(1, 1, 8, hardware="h100", target="llama-3.1-8b", draft="eagle3-llama3.1-8b",
                           acceptance=acceptance)  # fmt: skip
    return questions(asked.scenarios[0])[0]


def replica_of(question, gammas, *, engine=None, longest=4000, policy=None, output=300.0):
    """A replica that always drafts the last of some lengths, or by a table."""
    engine = engine or Engine()
    choices = chain_choices(question, gammas, acceptances_of(question, (1.0,), (None,)), np.array([output]))
    times = step_times(question, choices, engine.max_batch_size, longest, engine.max_batch_tokens)
    cache = cache_of(question, choices.drafts, int(times.verified_tokens.max()), longest, engine.block_tokens)
    chosen = table_policy(times, choices, 0.02, True) if policy == "table" else Always("fixed", len(gammas) - 1)
    return Replica(times, choices, cache, engine, chosen)


def constant(seconds=0.01, *, gammas=(0,), rate=0.8, engine=None, blocks=10**9, block_tokens=16, longest=10_000):
    """A replica whose rounds all take the same time, and which reads prompts at no cost."""
    engine = engine or Engine(block_tokens=block_tokens)
    question = question_of("h100-sxm5", "lecture", "llama-3-8b", "llama-3.2-1b", Independent(rate=rate))
    choices = chain_choices(question, gammas, acceptances_of(question, (1.0,), (None,)), np.array([100.0]))
    parts = np.zeros((len(gammas), engine.max_batch_size, 2, 3))
    parts[..., 1] = seconds
    nothing = np.array([0.0, 1e6])
    times = StepTimes(
        seconds=parts, context=np.array([0.0, 1e6]), verified_tokens=np.array(gammas) + 1, tokens=nothing,
        token_seconds=np.zeros(2), chunk=nothing, cached=nothing, prompt_seconds=np.zeros((2, 2)),
        reading_seconds=np.zeros(2),
    )  # fmt: skip
    share = np.arange(longest // engine.block_tokens + 3) / blocks
    cache = Cache(share, engine.block_tokens, 1e9, 0.0, 0.0, "", 10**9)
    return Replica(times, choices, cache, engine, Always("fixed", len(gammas) - 1))


def poisson(rate, number, lengths, seed=0):
    """Poisson requests."""
    generator = np.random.default_rng(seed)
    times = arrival_times(Poisson(requests_per_second=rate), number, generator)
    return draw_sizes((lengths,), ONE, number, generator).at(times)


def fixed_lengths(prompt, output):
    """Requests that are all alike."""
    return GivenLengths(prompt_tokens=Fixed(tokens=prompt), output_tokens=Fixed(tokens=output))


def chat(mean=300.0, p99=1500.0, prompt=1000):
    """Prompts of one length, and outputs with a long tail."""
    return GivenLengths(prompt_tokens=Fixed(tokens=prompt), output_tokens=LogNormal(mean=mean, p99=p99))


def run_of(replica, requests, seed=1, **more):
    """Requests on a replica."""
    return simulate(replica, requests, np.random.default_rng(seed), **more)


def profile(replica, lengths):
    """What the quick answer knows of a replica."""
    return profile_of(replica, sizes_of((lengths,), ONE))


def per_token(run):
    """Time per output token of the requests that have one [s]."""
    several = run.requests.output_tokens > 1
    time = run.finish_seconds - run.first_token_seconds
    return time[several] / (run.requests.output_tokens[several] - 1)
