"""How often the target accepts what the drafter guessed, in the forms in which it is known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.fields import (
    DraftLength,
    Factor,
    PositiveRatio,
    Probabilities,
    Probability,
    ProbabilityByPosition,
    Tagged,
    record,
)
from specsim.specs.fields import (
    Length as Tokens,
)
from specsim.specs.ranked import SUM_WITHIN, Paired, Ranks, TreeLength, listed


@record
class Independent:
    """Every draft is accepted with one probability, whatever came before.

    Attributes:
        rate: acceptance_rate, accepted drafts / examined drafts.
        recorded_gamma: Longest draft that was observed; drafts of any length are covered if absent.
    """

    kind: Literal["independent"] = "independent"
    rate: Probability
    recorded_gamma: DraftLength | None = None

    @property
    def label(self) -> str:
        """The command-line form."""
        return f"rate={self.rate:g}"


@record
class Positional:
    """Acceptance by position: entry j is the probability that draft j is accepted once all before it were."""

    kind: Literal["positional"] = "positional"
    conditional: Probabilities

    @property
    def label(self) -> str:
        """The command-line form."""
        return f"conditional={listed(self.conditional)}"


@record
class Survival:
    """Unconditional acceptance by position: entry j is the probability that drafts 1 to j are all accepted."""

    kind: Literal["survival"] = "survival"
    survival: Probabilities

    def __post_init__(self) -> None:
        for position, (before, after) in enumerate(zip(self.survival, self.survival[1:], strict=False), start=2):
            if after > before:
                raise Contradiction(
                    f"Survival cannot rise with the position, yet entry {position} ({after:g}) is above the entry "
                    f"before it ({before:g}). Probabilities given that all before were accepted are written "
                    f"conditional={listed(self.survival)}.",
                    "survival",
                )

    @property
    def label(self) -> str:
        """The command-line form."""
        return f"survival={listed(self.survival)}"


@record
class Length:
    """Tokens per round at one draft length, bonus token included."""

    kind: Literal["length"] = "length"
    tokens_per_round: Factor
    gamma: DraftLength

    def __post_init__(self) -> None:
        if self.tokens_per_round > self.gamma + 1:
            most = f"A round at gamma {self.gamma} emits at most {self.gamma + 1} tokens"
            raise Contradiction(f"{most}, found {self.tokens_per_round:g}.", "tokens_per_round")

    @property
    def label(self) -> str:
        """The command-line form."""
        return f"length={self.tokens_per_round:g}@{self.gamma}"


@record
class Drafted:
    """Accepted drafts / drafted tokens at one draft length: what engines call acceptance rate."""

    kind: Literal["drafted"] = "drafted"
    accepted_per_drafted: Probability
    gamma: DraftLength

    @property
    def label(self) -> str:
        """The command-line form."""
        return f"drafted={self.accepted_per_drafted:g}@{self.gamma}"


Simple = Independent | Positional | Survival | Length | Drafted | Ranks | Paired
_SIMPLE = (Independent, Positional, Survival, Length, Drafted, Ranks, Paired)


@record
class Regime:
    """One kind of stretch of text.

    Attributes:
        acceptance_probability: That a draft inside is accepted once all before it were: one number, or one for each
            position in the round, of which the last holds beyond the list.
        mean_run_tokens: Mean length of such a stretch [tokens]; it has no end if absent.
        token_share: Share of all tokens that lie in such stretches; follows from the runs if absent.
        further_ranks: In token trees, the probability that the child of rank 2, 3, ... is the one that goes on.
    """

    acceptance_probability: ProbabilityByPosition
    mean_run_tokens: Factor | None = None
    token_share: Probability | None = None
    further_ranks: Probabilities | None = None

    def __post_init__(self) -> None:
        total = max(self.acceptance_probability) + math.fsum(self.further_ranks or ())
        if self.further_ranks and total > 1 + SUM_WITHIN:
            sentence = f"One child at most is accepted: with acceptance_probability these sum to {total:.9g}."
            raise Contradiction(sentence, "further_ranks")

    @property
    def label(self) -> str:
        """Probabilities and run."""
        run = "" if self.mean_run_tokens is None else f" for {self.mean_run_tokens:g}"
        share = "" if self.token_share is None else f" of {self.token_share:.4g}"
        further = "".join(f"+{value:.4g}" for value in self.further_ranks or ())
        return "/".join(f"{value:.4g}" for value in self.acceptance_probability) + further + run + share


@record
class Regimes:
    """Text in stretches, in each of which drafts are accepted with a probability of its own.

    The regime belongs to the token position: position t + 1 is in regime b with the probability
    ``transitions[a][b]`` where position t is in regime a. Runs are then of geometric length.

    Attributes:
        regimes: By name.
        transitions: From each regime to each, rows summing to 1; in place of ``mean_run_tokens``, which lead to all
            other regimes alike.
        recorded_gamma: Longest draft that was observed; drafts of any length are covered if absent.
    """

    kind: Literal["regimes"] = "regimes"
    regimes: dict[str, Regime] = field(hash=False)
    transitions: dict[str, dict[str, Probability]] | None = field(default=None, hash=False)
    recorded_gamma: DraftLength | None = None

    def __post_init__(self) -> None:
        if not self.regimes:
            raise Contradiction("There must be a regime.", "regimes")
        self._check_runs()
        self._check_shares()
        if self.transitions is not None:
            self._check_transitions(self.transitions)

    def _check_runs(self) -> None:
        without = [name for name, regime in self.regimes.items() if regime.mean_run_tokens is None]
        if self.transitions is not None:
            for name, regime in self.regimes.items():
                if regime.mean_run_tokens is not None:
                    sentence = "It follows from transitions, which are given: leave one of the two out."
                    raise Contradiction(sentence, "regimes", name, "mean_run_tokens")
        elif without and len(without) < len(self.regimes):
            sentence = "This field is missing: either every regime has an end, or none."
            raise Contradiction(sentence, "regimes", without[0], "mean_run_tokens")

    def _check_shares(self) -> None:
        shares = {n: regime.token_share for n, regime in self.regimes.items() if regime.token_share is not None}
        without = [name for name in self.regimes if name not in shares]
        if shares and without:
            sentence = "This field is missing: either every regime has a share, or none."
            raise Contradiction(sentence, "regimes", without[0], "token_share")
        total = math.fsum(shares.values())
        if shares and abs(total - 1) > SUM_WITHIN:
            raise Contradiction(f"Shares sum to 1, found {total:.9g}.", "regimes", next(iter(shares)), "token_share")
        if not shares and not self.ends and len(self.regimes) > 1:
            sentence = "Regimes without mean_run_tokens never end; each must have its token_share."
            raise Contradiction(sentence, "regimes", without[0])

    def _check_transitions(self, transitions: dict[str, dict[str, float]]) -> None:
        self._check_names(transitions, "transitions")
        for name, row in transitions.items():
            self._check_names(row, "transitions", name)
            total = math.fsum(row.values())
            if abs(total - 1) > SUM_WITHIN:
                raise Contradiction(f"A row of probabilities sums to 1, found {total:.9g}.", "transitions", name)
        if all(regime.token_share is None for regime in self.regimes.values()):
            self._check_shares_follow(transitions)

    def _check_shares_follow(self, transitions: dict[str, dict[str, float]]) -> None:
        """Every regime must lead to every other, at once or in time; shares follow from transitions only then."""
        for name in self.regimes:
            reached, grows = {name}, True
            while grows:
                onward = {to for at in reached for to, chance in transitions[at].items() if chance > 0}
                grows, reached = not onward <= reached, reached | onward
            for other in self.regimes:
                if other not in reached:
                    sentence = f"{name} never leads to {other}, so shares do not follow from the transitions: "
                    raise Contradiction(f"{sentence}give each regime its token_share.", "transitions", name)

    def _check_names(self, entries: Iterable[str], *path: str) -> None:
        if set(entries) != set(self.regimes):
            expected, found = ", ".join(self.regimes), ", ".join(entries) or "none"
            raise Contradiction(f"Expected one entry for each of the regimes {expected}, found {found}.", *path)

    @property
    def ends(self) -> bool:
        """Whether regimes end; otherwise every sequence stays in one."""
        return self.transitions is not None or all(r.mean_run_tokens is not None for r in self.regimes.values())

    @property
    def label(self) -> str:
        """Every regime with its probability, run and share; there is no form on one line."""
        return "regimes " + ", ".join(f"{name} {regime.label}" for name, regime in self.regimes.items())


_STATIONARY = (*_SIMPLE, Regimes)


@record
class RequestClass:
    """Requests of one kind.

    Attributes:
        request_share: Share of the requests that arrive.
        output_tokens: Mean output of such a request [tokens].
        acceptance: Acceptance of their drafts.
    """

    request_share: Probability
    output_tokens: PositiveRatio = 1.0
    acceptance: Annotated[Simple | Regimes, Tagged("kind", _STATIONARY)]


@record
class Classes:
    """Requests of several kinds in one batch, weighted by the time that they spend in it.

    A request of n tokens stays for n / tokens_per_round rounds, so hard requests are in flight more often than they
    arrive.

    Attributes:
        classes: By name.
    """

    kind: Literal["classes"] = "classes"
    classes: dict[str, RequestClass] = field(hash=False)

    def __post_init__(self) -> None:
        total = math.fsum(one.request_share for one in self.classes.values())
        if abs(total - 1) > SUM_WITHIN:
            path = ("classes", *list(self.classes)[:1])
            raise Contradiction(f"request_share of all classes sums to 1, found {total:.9g}.", *path)

    @property
    def label(self) -> str:
        """Every class with its share; there is no form on one line."""
        told = (f"{name} {one.request_share:.4g} {one.acceptance.label}" for name, one in self.classes.items())
        return "classes " + ", ".join(told)


@record
class AtContext:
    """The acceptance at one context length."""

    context_length: Tokens
    acceptance: Annotated[Simple | Regimes | Classes, Tagged("kind", (*_STATIONARY, Classes))]


@record
class ByContext:
    """Acceptance that changes with the context length: a table, read linearly between its entries.

    Below the first entry and above the last one, these hold.

    Attributes:
        table: Entries in rising order of their contexts.
    """

    kind: Literal["context"] = "context"
    table: tuple[AtContext, ...]

    def __post_init__(self) -> None:
        if not self.table:
            raise Contradiction("There must be an entry.", "table")
        for index, (one, after) in enumerate(zip(self.table, self.table[1:], strict=False), start=1):
            if after.context_length <= one.context_length:
                sentence = f"Contexts rise, yet {after.context_length} follows on {one.context_length}."
                raise Contradiction(sentence, "table", index, "context_length")

    @property
    def label(self) -> str:
        """Every entry; there is no form on one line."""
        return "context " + ", ".join(f"{entry.context_length} {entry.acceptance.label}" for entry in self.table)


Point = Simple | Regimes | Classes | ByContext | TreeLength
_POINTS = (*_STATIONARY, Classes, ByContext, TreeLength)


@record
class Published:
    """What others published for such a draft: a low quartile, a median and a high quartile.

    Attributes:
        task: The task the figures were measured on, ``any`` for all of them together.
        basis: Whose figures these are, in words.
    """

    kind: Literal["published"] = "published"
    task: str = "any"
    low: Annotated[Simple, Tagged("kind", _SIMPLE)]
    typical: Annotated[Simple, Tagged("kind", _SIMPLE)]
    high: Annotated[Simple, Tagged("kind", _SIMPLE)]
    basis: str = "as given"

    def __post_init__(self) -> None:
        rates = [point.rate for point in (self.low, self.typical, self.high) if isinstance(point, Independent)]
        if rates != sorted(rates):
            raise Contradiction("low, typical and high must rise in this order.")

    @property
    def label(self) -> str:
        """The command-line form."""
        return f"task={self.task}"


def typical_of(acceptance: Point | Published) -> Point:
    """The acceptance itself, or the middle of what was published."""
    return acceptance.typical if isinstance(acceptance, Published) else acceptance


NO_RANKS = (
    "It says how often drafts of rank 1 are accepted, and token trees hold candidates of lower ranks too: give "
    "ranks=0.6,0.2,0.1, or paired probabilities of target and draft."
)


def knows_ranks(acceptance: Point) -> bool:
    """Whether it says how candidates of every rank are accepted."""
    match acceptance:
        case Ranks() | Paired():
            return True
        case Regimes():
            return any(regime.further_ranks for regime in acceptance.regimes.values())
        case Classes():
            return all(knows_ranks(one.acceptance) for one in acceptance.classes.values())
        case ByContext():
            return all(knows_ranks(entry.acceptance) for entry in acceptance.table)
        case _:
            return False


Acceptance = Annotated[Point | Published, Tagged("kind", (*_POINTS, Published))]
