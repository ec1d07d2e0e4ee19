"""How often the target accepts what the drafter guessed, in the forms in which it is known."""

from __future__ import annotations

from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.fields import DraftLength, Factor, Probabilities, Probability, Tagged, record


@record
class Independent:
    """Every draft is accepted with one probability, whatever came before.

    Attributes:
        rate: acceptance_rate, accepted drafts / examined drafts.
    """

    kind: Literal["independent"] = "independent"
    rate: Probability

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
        return f"conditional={_listed(self.conditional)}"


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
                    f"conditional={_listed(self.survival)}.",
                    "survival",
                )

    @property
    def label(self) -> str:
        """The command-line form."""
        return f"survival={_listed(self.survival)}"


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


Point = Independent | Positional | Survival | Length | Drafted
_POINTS = (Independent, Positional, Survival, Length, Drafted)


@record
class Published:
    """What others published for such a draft: a low quartile, a median and a high quartile.

    Attributes:
        task: The task the figures were measured on, ``any`` for all of them together.
        basis: Whose figures these are, in words.
    """

    kind: Literal["published"] = "published"
    task: str = "any"
    low: Annotated[Point, Tagged("kind", _POINTS)]
    typical: Annotated[Point, Tagged("kind", _POINTS)]
    high: Annotated[Point, Tagged("kind", _POINTS)]
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


Acceptance = Annotated[Point | Published, Tagged("kind", (*_POINTS, Published))]


def _listed(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:g}" for value in values)
