"""What the quick answer needs to know of a replica under a policy: its rounds and its prompts, by batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specsim.serving.replica import Replica
from specsim.serving.requests import Array, IntArray, Sizes


@dataclass(frozen=True, eq=False)
class Profile:
    """What the quick answer needs to know of a replica, by batch from 1 upward, shape (B,) unless said.

    Attributes:
        round_seconds: A round (tau) [s].
        rounds: Mean rounds of a request (m).
        choice: The choice at each batch.
        prompt_seconds: Mean time that the prompt of a request adds to steps, with none decoding first, shape (B + 1,)
            [s].
        prompt_square: Its mean square, shape (B + 1,) [s^2].
        further_seconds: The same where another prompt is read in the same step, whose products with the weights it
            shares, shape (B + 1,) [s].
        service_seconds: What a prompt takes with its share of the rounds beside it, shape (B + 1, A) [s].
        own_seconds: What it takes with all the rounds beside it, shape (B + 1, A) [s].
        weight: Share of the requests of each of these sizes, shape (A,).
        rounds_by_size: Rounds of each size at each batch, shape (B, A).
        output_tokens: Of each size, shape (A,).
        spread: Variance of the tokens of a round / their mean squared, by batch, of many rounds.
        gaps_variation: Squared variation of the gaps between arrivals (c_a^2).
        work_variation: Squared variation of the work of requests (c_s^2).
        tokens_of_a_step: Prompt tokens that a step may read beside each batch, shape (B + 1,).
        prompt_tokens: Mean of what is read of a prompt.
        context: Mean context of what decodes [tokens].
        part_share: Shares of drafting, verification, overhead of a round, shape (B, 3).
    """

    round_seconds: Array
    rounds: Array
    choice: IntArray
    prompt_seconds: Array
    prompt_square: Array
    further_seconds: Array
    service_seconds: Array
    own_seconds: Array
    weight: Array
    rounds_by_size: Array
    output_tokens: Array
    spread: Array
    gaps_variation: float
    work_variation: float
    tokens_of_a_step: Array
    prompt_tokens: float
    context: float
    part_share: Array

    @property
    def batches(self) -> Array:
        """1 to the largest batch."""
        return np.arange(1.0, len(self.round_seconds) + 1)

    @property
    def saturation(self) -> float:
        """The highest rate of arrivals that can be carried at all [requests/s]."""
        decoding = 1.0 / (self.further_seconds[1:] + self.rounds * self.round_seconds / self.batches)
        reading = 1.0 / np.maximum(self.service_seconds[1:] @ self.weight, 1e-300)
        return float(np.minimum(decoding, reading).max())

    @property
    def mean_output(self) -> float:
        """Mean output [tokens]."""
        return float(self.output_tokens @ self.weight)


def profile_of(replica: Replica, sizes: Sizes, gaps_variation: float = 1.0) -> Profile:
    """The profile of a replica under a policy for requests of some sizes."""
    times, choices, engine = replica.times, replica.choices, replica.engine
    after = np.maximum(sizes.output_tokens - 1, 0.0)
    decoded = float(sizes.mean(after))
    # In-flight tokens see the context of their own place in the answer.
    context = float(sizes.mean(after * (sizes.prompt_tokens + after / 2))) / max(decoded, 1e-300)
    longest = _largest_batch(replica, context + float(times.verified_tokens.max()))
    by_choice = times.at_context(context)[:, :longest]
    chosen = replica.policy.at(times, context)[:longest]
    index = np.arange(longest)
    tokens = choices.tokens_by_class[:, chosen][sizes.kind]  # (A, B)
    over = choices.overshoot[chosen]
    by_size = np.where(after[:, None] > 0, np.maximum((after[:, None] + over) / tokens, 1.0), 0.0).T
    rounds = by_size @ sizes.weight
    round_seconds = by_choice[chosen, index]
    width = np.concatenate([[0], times.verified_tokens[chosen] * np.arange(1, longest + 1)]).astype(float)
    beside = np.concatenate([[0.0], round_seconds])
    prompt, further, service, own = _prompts(replica, sizes, width, beside)
    work = rounds[0] * round_seconds[0] + prompt[1] @ sizes.weight
    one = by_size[0] * round_seconds[0] + prompt[1]
    parts = times.seconds[chosen, index, min(round(context / float(times.context[1])), len(times.context) - 1)]
    return Profile(
        round_seconds=round_seconds,
        rounds=rounds,
        choice=chosen,
        prompt_seconds=prompt @ sizes.weight,
        prompt_square=prompt**2 @ sizes.weight,
        further_seconds=further @ sizes.weight,
        service_seconds=service,
        own_seconds=own,
        weight=sizes.weight,
        rounds_by_size=by_size,
        output_tokens=sizes.output_tokens,
        spread=_spread(replica)[chosen],
        gaps_variation=gaps_variation,
        work_variation=float(one**2 @ sizes.weight / work**2) - 1.0,
        tokens_of_a_step=np.maximum(engine.max_batch_tokens - width, 1.0),
        prompt_tokens=float(sizes.mean(sizes.prompt_tokens)) * (1 - engine.prefix_hit_share),
        context=context,
        part_share=parts / parts.sum(-1, keepdims=True),
    )


def _largest_batch(replica: Replica, context: float) -> int:
    """Requests of a mean context that fit, and that the engine lets in."""
    share = float(replica.cache.share(np.array([int(np.ceil(context))]))[0])
    fits = int(1.0 / share) if share > 0 else replica.engine.max_batch_size
    return max(min(fits, replica.engine.max_batch_size), 1)


def _prompts(replica: Replica, sizes: Sizes, width: Array, beside: Array) -> tuple[Array, Array, Array, Array]:
    """What a prompt adds to the steps of each batch: as the first, as a further one, with its share of the rounds
    beside it, and with all of them; shape (B + 1, A) each.
    """
    times, engine = replica.times, replica.engine
    done = np.floor(sizes.prompt_tokens * engine.prefix_hit_share)
    tokens = np.broadcast_to(sizes.prompt_tokens - done, (len(width), len(done)))
    typical = float(sizes.mean(sizes.prompt_tokens - done))
    if engine.prefill == "separate":
        alone = times.prompt_step(np.zeros(()), tokens, done)
        more = times.prompt_step(np.asarray(typical), tokens, done)
        return alone, more, more, alone
    room = np.maximum(engine.max_batch_tokens - width, 1.0)[:, None]
    whole = np.floor(tokens / room)
    rest = tokens - whole * room
    full = times.prompt_step(width[:, None], np.minimum(room, tokens), done + (whole - 1).clip(0) * room / 2)
    another = np.minimum(typical, np.maximum(room - rest, 0.0))

    def added(decoding: Array) -> Array:
        return whole * full + np.where(rest > 0, times.prompt_step(decoding, rest, done + whole * room), 0.0)

    first, further = added(width[:, None]), added(width[:, None] + another)
    rounds = beside[:, None]
    return first, further, further + tokens / room * rounds, first + np.ceil(tokens / room) * rounds


def _spread(replica: Replica) -> Array:
    """Variance of the tokens of many rounds / (rounds x mean squared), by choice; 1 for stretches without an end."""
    found = []
    for choice in replica.choices.each:
        texts = replica.choices.texts_of(choice)
        rounds = [text.chain[0].rounds([choice.longest]) for text in texts]
        ratios = [float(one.asymptotic_variance[0]) / float(one.tokens_per_round[0]) ** 2 for one in rounds]
        finite = [ratio if np.isfinite(ratio) else 1.0 for ratio in ratios]
        found.append(float(np.dot([text.request_share for text in texts], finite)))
    return np.array(found)
