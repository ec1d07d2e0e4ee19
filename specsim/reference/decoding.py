"""The round: propose, verify in one pass, accept, roll back; and plain decoding, its special case of no draft.

Between rounds the target's cache holds all committed tokens but the last. A round verifies this last token and the
drafts after it in one pass, keeps the cache entries of the accepted path, and commits the path and one more token,
which is then the one that the cache does not hold. A rejection costs no further pass of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from specsim.reference.cache import Cache
from specsim.reference.drafters import Drafter
from specsim.reference.proposals import Proposal
from specsim.reference.sampling import Array, Chance, Sampling
from specsim.reference.transformer import Transformer, chain_block, forward, tree_block
from specsim.reference.trees import IntArray, chain, cut_to
from specsim.reference.verification import Rule, Verdict, standard


@dataclass(frozen=True)
class Round:
    """What happened in a round.

    Attributes:
        drafted: Drafts that could have been accepted: the depth of what was proposed.
        nodes: Drafted tokens, of all branches.
        accepted: Accepted drafts that were committed.
        emitted: Committed tokens.
        cut: Whether the end of the text cut the draft or what was accepted of it: such rounds say nothing about others.
        passes: Passes of the drafter.
        proposal_seconds: Time of the drafter [s].
        verification_seconds: Time of the target's pass and of the rule, a share of them in a batch [s].
        repair_seconds: Time of rolling back caches [s].
    """

    drafted: int
    nodes: int
    accepted: int
    emitted: int
    cut: bool
    passes: int
    proposal_seconds: float
    verification_seconds: float
    repair_seconds: float


@dataclass(frozen=True, eq=False)
class Examined:
    """A node at which drafts were tried.

    Attributes:
        target: The target's law there.
        proposal: What was proposed.
        node: The node.
        accepted: The child that was accepted, None if none was.
    """

    target: Array
    proposal: Proposal
    node: int
    accepted: int | None


@dataclass(eq=False)
class Request:
    """A text to be continued.

    Attributes:
        prompt: Its tokens, at least one.
        limit: Most tokens of the output.
        chance: What is left to chance in it.
        drafter: Who guesses, None for plain decoding.
        shape: Parents of the tree that the drafter is asked for.
        cache: An empty cache of the target; one array if None.
        examine: Is told of every node at which drafts were tried.
    """

    prompt: Sequence[int]
    limit: int
    chance: Chance
    drafter: Drafter | None = None
    shape: IntArray = field(default_factory=lambda: chain(0))
    cache: Cache | None = None
    examine: Callable[[Examined], None] | None = None


@dataclass(eq=False)
class Decoded:
    """What came of a request.

    Attributes:
        output: Tokens after the prompt; the end-of-sequence token is the last one if it came.
        rounds: In their order.
        prefill_seconds: Time of reading the prompt [s].
    """

    output: tuple[int, ...]
    rounds: list[Round]
    prefill_seconds: float


class _Sequence:
    """One request under way."""

    def __init__(self, request: Request, model: Transformer) -> None:
        self.request = request
        self.tokens = list(request.prompt)
        self.cache: Cache = model.cache() if request.cache is None else request.cache
        self.rounds: list[Round] = []
        self.prefill_seconds = 0.0
        self.ended = request.limit <= 0
        self.proposal = Proposal([self.tokens[-1]])
        self.proposal_seconds = 0.0
        self.passes = 0

    @property
    def left(self) -> int:
        return self.request.limit - (len(self.tokens) - len(self.request.prompt))

    def propose(self, clock: Callable[[], float]) -> None:
        """Ask the drafter for what still fits into the text: the round adds a token of its own."""
        began, request, self.passes = clock(), self.request, 0
        self.proposal = Proposal([self.tokens[-1]])
        shape = cut_to(request.shape, self.left - 1)
        if request.drafter is not None and len(shape) > 1:
            before = request.drafter.passes
            self.proposal = request.drafter.propose(self.tokens, shape, request.chance)
            self.passes = request.drafter.passes - before
        self.cut = len(shape) < len(request.shape)
        self.proposal_seconds = clock() - began

    def judge(self, logits: Array, sampling: Sampling, rule: Rule) -> Verdict:
        laws: dict[int, Array] = {}

        def target(node: int) -> Array:
            if node not in laws:
                laws[node] = sampling.law(logits[node])
            return laws[node]

        verdict = rule(self.proposal, target, self.request.chance)
        if self.request.examine is not None:
            for node, accepted in zip((0, *verdict.path), (*verdict.path, None), strict=True):
                if self.proposal.draws[node]:
                    self.request.examine(Examined(target(node), self.proposal, node, accepted))
        return verdict

    def commit(self, verdict: Verdict, end: frozenset[int], clock: Callable[[], float], seconds: float) -> None:
        began = clock()
        emitted = [*(self.proposal.tokens[node] for node in verdict.path), verdict.token]
        last = next((place for place, token in enumerate(emitted) if token in end), None)
        self.ended = last is not None or len(emitted) >= self.left
        count = min(len(emitted) if last is None else last + 1, self.left)
        # All committed tokens but the last are in the cache: node 0 and the accepted drafts before it.
        kept = verdict.path[: count - 1]
        self.cache.keep(len(self.tokens) - 1, (0, *kept))
        if self.request.drafter is not None:
            self.request.drafter.settle(kept)
        self.tokens += emitted[:count]
        accepted = min(len(verdict.path), count)
        cut = self.cut or count < len(emitted) or last is not None
        depth, nodes = self.proposal.depth, self.proposal.drafted
        repaired = clock() - began
        self.rounds.append(
            Round(depth, nodes, accepted, count, cut, self.passes, self.proposal_seconds, seconds, repaired)
        )


def decode(
    model: Transformer,
    requests: Sequence[Request],
    sampling: Sampling,
    rule: Rule = standard,
    end: frozenset[int] = frozenset(),
    clock: Callable[[], float] = float,
    progress: Callable[[int], None] | None = None,
) -> list[Decoded]:
    """Continue texts side by side; every round is one pass of the target over all texts that have not ended.

    Args:
        model: The target.
        requests: The texts; each has a drafter of its own.
        sampling: How the target chooses tokens; drafters are made with theirs.
        rule: Which drafts are accepted.
        end: Tokens that end a text.
        clock: Seconds, if times are wanted.
        progress: Is told how many tokens were committed.
    """
    sequences = [_Sequence(request, model) for request in requests]
    for sequence in sequences:
        began = clock()
        if len(sequence.tokens) > 1:
            forward(model, [chain_block(sequence.cache, sequence.tokens[:-1])], "none")
        sequence.prefill_seconds = clock() - began
    while under_way := [sequence for sequence in sequences if not sequence.ended]:
        for sequence in under_way:
            sequence.propose(clock)
        began = clock()
        trees = [tree_block(s.cache, s.proposal.tokens, s.proposal.parent_array) for s in under_way]
        found = forward(model, trees)
        verdicts = [s.judge(logits, sampling, rule) for s, logits in zip(under_way, found, strict=True)]
        seconds = (clock() - began) / len(under_way)
        for sequence, verdict in zip(under_way, verdicts, strict=True):
            sequence.commit(verdict, end, clock, seconds)
            if progress is not None:
                progress(sequence.rounds[-1].emitted)
    return [Decoded(tuple(s.tokens[len(s.request.prompt) :]), s.rounds, s.prefill_seconds) for s in sequences]


def top_gap(logits: Array) -> float:
    """By how much the largest logit leads: a lead of rounding errors may flip when tokens are computed in blocks."""
    second, first = np.partition(logits, -2)[-2:]
    return float(first - second)
