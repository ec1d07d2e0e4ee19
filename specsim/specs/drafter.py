"""What guesses the tokens, and how often it is right: one record for each way of drafting."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, Any, Literal

from specsim.errors import Contradiction
from specsim.specs.acceptance import Acceptance
from specsim.specs.attention import GroupedAttention
from specsim.specs.card import Card
from specsim.specs.fields import Count, DraftLength, Flag, Name, Probability, Seconds, Tagged, choice, mapping, record
from specsim.specs.head import Eagle3Head, EagleHead, MedusaHeads, MtpModule
from specsim.specs.model import Model
from specsim.specs.precision import KV_BYTES, PrecisionName
from specsim.specs.served import ServedModel

RULES = ("standard", "greedy", "block", "lenience", "typical")
LOSSY_RULES = ("lenience", "typical")
"""Rules of acceptance after which the output is no longer the target's."""

Rule = Annotated[str, choice(*RULES)]
Passes = Annotated[str, choice("chain", "one")]
Schedule = Annotated[str, choice("serial", "prepared", "pearl")]

_NAMES = {"layers": "own layers", "window": "own window", "measured": "a drafter of measured cost"}
"""What rows call drafters of some methods."""


@record
class _Common:
    """What all drafters share.

    Attributes:
        acceptance: How often its guesses are accepted.
        rule: The rule of acceptance.
        path_by_path: Whether the candidates of a token tree are verified as sequences of their own, and not in one pass
            over the tree.
        name: What rows call it; by its model, its head or its method if absent.
        assumptions: Its fields that nobody published to the reason for their value, from its card.
    """

    acceptance: Acceptance
    rule: Rule = "standard"
    path_by_path: Flag = False
    name: Name | None = None
    assumptions: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def default_name(self) -> str:
        """What rows call it if it has no name of its own: its method."""
        method: str = getattr(self, "method")  # noqa: B009
        return _NAMES.get(method, method)

    @property
    def label(self) -> str:
        """What rows call it."""
        return self.name or self.default_name


@record
class DraftModel(_Common, ServedModel):
    """An independent, smaller language model.

    Attributes:
        passes: ``chain`` drafts one token after another, ``one`` all of them in a single pass (PARD).
        window: Tokens of the draft's own cache that it looks at, all if absent (StreamingLLM, MagicDec).
        own_device: Whether it runs on accelerators of its own, of the same kind.
        schedule: ``serial``: drafting, then verification. ``prepared``: while one draft is verified the next one is
            made for the likely outcome. ``pearl``: drafting goes on during verification, whatever comes out.
        prepared_share: How often the prepared draft is the one that is needed; only of that schedule, which needs it.
    """

    method: Literal["draft_model"] = "draft_model"
    passes: Passes = "chain"
    window: Count | None = None
    own_device: Flag = False
    schedule: Schedule = "serial"
    prepared_share: Probability | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prepared_share and self.schedule != "prepared":
            raise Contradiction("It says nothing unless the schedule is prepared.", "prepared_share")
        if self.prepared_share is None and self.schedule == "prepared":
            sentence = "The schedule prepared needs it: how often the prepared draft is the one that is needed."
            raise Contradiction(sentence, "prepared_share")
        if self.window is not None and not isinstance(self.model.attention, GroupedAttention):
            raise Contradiction("A window over a latent cache is not modelled.", "window")

    @property
    def default_name(self) -> str:
        """The name of its model."""
        return self.model.name

    @property
    def served(self) -> ServedModel:
        """The model with its layout; under a window no layer looks beyond it."""
        return self if self.window is None else replace(self, model=windowed(self.model, self.window), window=None)


def windowed(model: Model, window: int) -> Model:
    """A model whose full layers look at a window, and whose windows are no longer than that."""
    reach = min(window, model.sliding_window or window)
    pattern = tuple("sliding" if kind == "full" else kind for kind in model.layer_pattern)
    return replace(model, layer_pattern=pattern, sliding_window=reach if "sliding" in pattern else None)


@record
class _HeadDraft(_Common):
    """What drafters on the target's hidden states share.

    Attributes:
        tensor_parallel: Devices that split the head.
    """

    precision: PrecisionName
    kv_precision: Annotated[str, choice(*KV_BYTES)]
    tensor_parallel: Count = 1

    def __post_init__(self) -> None:
        heads = self.head.attention.heads if not isinstance(self.head, MedusaHeads) else 0  # type: ignore[attr-defined]
        if heads % self.tensor_parallel:
            sentence = f"tensor_parallel {self.tensor_parallel} does not divide the {heads} heads of {self.label}."
            raise Contradiction(sentence, "tensor_parallel")

    @property
    def default_name(self) -> str:
        """The name of its head."""
        return self.head.name  # type: ignore[attr-defined]


@record
class EagleDraft(_HeadDraft):
    """EAGLE-1 and -2, or with ``passes: one`` a head that drafts all tokens at once."""

    method: Literal["eagle"] = "eagle"
    head: EagleHead
    passes: Passes = "chain"


@record
class Eagle3Draft(_HeadDraft):
    """EAGLE-3, or with ``passes: one`` P-EAGLE."""

    method: Literal["eagle3"] = "eagle3"
    head: Eagle3Head
    passes: Passes = "chain"


@record
class MtpDraft(_HeadDraft):
    """A multi-token-prediction module, run again for every token beyond its depth of one."""

    method: Literal["mtp"] = "mtp"
    head: MtpModule
    passes: Passes = "chain"


@record
class MedusaDraft(_HeadDraft):
    """Heads side by side, each for one position ahead (Medusa, blockwise parallel decoding).

    Attributes:
        merged: Whether heads read the hidden states of the verification before; else the target runs once more to
            make them.
    """

    method: Literal["medusa"] = "medusa"
    head: MedusaHeads
    merged: Flag = True


HeadDraft = EagleDraft | Eagle3Draft | MtpDraft | MedusaDraft
HEAD_DRAFTS = (EagleDraft, Eagle3Draft, MtpDraft, MedusaDraft)


@record
class LookupDraft(_Common):
    """Tokens that followed the same text before: n-grams, prompt lookup, suffix trees, a store of texts (REST).

    Attributes:
        hit_rate: Share of rounds in which something is found; the others are plain steps.
        host_time_seconds: Time of the host for one round [s].
    """

    method: Literal["lookup"] = "lookup"
    hit_rate: Probability = 1.0
    host_time_seconds: Seconds = 0.0


@record
class LayersDraft(_Common):
    """The target with a part of its layers: early exit after the first ones, or layers skipped in between.

    Its cache is the target's own.

    Attributes:
        layers: Layers that a draft step runs.
    """

    method: Literal["layers"] = "layers"
    layers: Count


@record
class WindowDraft(_Common):
    """The target itself over a short window of its cache (MagicDec, self-speculation).

    Attributes:
        window: Tokens that a draft step looks at.
    """

    method: Literal["window"] = "window"
    window: Count


@record
class LookaheadDraft(_Common):
    """Lookahead decoding: n-grams from Jacobi iterations, guessed and verified in one pass of the target.

    Attributes:
        window: Positions that the iteration works on (W).
        guesses: n-grams that are verified at once (G).
    """

    method: Literal["lookahead"] = "lookahead"
    window: Count
    guesses: Count


@record
class MergedDraft(_Common):
    """Several draft models side by side, whose sequences are verified together (SpecInfer).

    Attributes:
        models: The models; they draft at the same time.
    """

    method: Literal["merged"] = "merged"
    models: tuple[ServedModel, ...]


@record
class CascadeDraft(_Common, ServedModel):
    """A draft model that is itself sped up by a smaller one.

    Attributes:
        inner: The smaller model.
        inner_gamma: Tokens that it drafts for the larger one at a time.
        inner_rate: How often the larger one accepts them, accepted / examined.
    """

    method: Literal["cascade"] = "cascade"
    inner: ServedModel
    inner_gamma: DraftLength
    inner_rate: Probability

    @property
    def default_name(self) -> str:
        """The names of both models."""
        return f"{self.model.name} by {self.inner.model.name}"


@record
class Leg:
    """One drafter of a relay and how many tokens it drafts in its turn."""

    model: ServedModel
    tokens: DraftLength


@record
class RelayDraft(_Common):
    """Drafters one after another in one draft: the better one first (horizontal cascade).

    Attributes:
        legs: In the order of their turns; the last one drafts whatever is left.
    """

    method: Literal["relay"] = "relay"
    legs: tuple[Leg, ...]


@record
class MeasuredDraft(_Common):
    """A drafter of which only the cost is known, as measured by the user."""

    method: Literal["measured"] = "measured"


@record
class Drafter(Card):
    """A drafter by its catalogue name: the fields that a draft of this kind has, but for its acceptance."""

    kind: Literal["drafter"] = "drafter"
    draft: Annotated[dict[str, Any], mapping()]


DRAFTS = (
    DraftModel,
    *HEAD_DRAFTS,
    LookupDraft,
    LayersDraft,
    WindowDraft,
    LookaheadDraft,
    MergedDraft,
    CascadeDraft,
    RelayDraft,
    MeasuredDraft,
)
AnyDraft = (
    DraftModel
    | EagleDraft
    | Eagle3Draft
    | MtpDraft
    | MedusaDraft
    | LookupDraft
    | LayersDraft
    | WindowDraft
    | LookaheadDraft
    | MergedDraft
    | CascadeDraft
    | RelayDraft
    | MeasuredDraft
)
Draft = Annotated[AnyDraft, Tagged("method", DRAFTS)]


def deepest_tree(draft: AnyDraft) -> int | None:
    """Most levels that a drafter can draft of a token tree: 0 if it drafts none, None without a limit."""
    match draft:
        case MedusaDraft():
            return draft.head.heads
        case DraftModel(schedule="pearl") | LookaheadDraft() | MergedDraft() | CascadeDraft() | RelayDraft():
            return 0
        case _:
            return None


def models_of(draft: AnyDraft) -> tuple[ServedModel, ...]:
    """The draft models that a drafter runs; heads and parts of the target are none."""
    match draft:
        case DraftModel():
            return (draft,)
        case CascadeDraft():
            return (draft, draft.inner)
        case MergedDraft():
            return draft.models
        case RelayDraft():
            return tuple(leg.model for leg in draft.legs)
        case _:
            return ()
