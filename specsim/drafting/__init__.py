"""Drafters: each a list of passes, the memory it takes, and what it has verified."""

from __future__ import annotations

from specsim.drafting.draft_model import cascade, draft_model, merged, relay
from specsim.drafting.heads import eagle, medusa
from specsim.drafting.own import layers, lookahead, lookup, window
from specsim.drafting.plan import Drafting, Repeated, Round
from specsim.specs.drafter import (
    AnyDraft,
    CascadeDraft,
    DraftModel,
    Eagle3Draft,
    EagleDraft,
    LayersDraft,
    LookaheadDraft,
    LookupDraft,
    MedusaDraft,
    MergedDraft,
    MtpDraft,
    RelayDraft,
    WindowDraft,
)
from specsim.specs.served import ServedModel

__all__ = ["Drafting", "Repeated", "Round", "drafting_of"]


def drafting_of(draft: AnyDraft, target: ServedModel, round_: Round) -> Drafting | None:
    """What a drafter does in a round, None where only its cost was measured."""
    match draft:
        case DraftModel():
            return draft_model(draft, round_)
        case EagleDraft() | Eagle3Draft() | MtpDraft():
            return eagle(draft, target.model, round_)
        case MedusaDraft():
            return medusa(draft, target, round_)
        case LookupDraft():
            return lookup(draft)
        case LayersDraft():
            return layers(draft, target, round_)
        case WindowDraft():
            return window(draft, target, round_)
        case LookaheadDraft():
            return lookahead(draft, round_)
        case MergedDraft():
            return merged(draft, round_)
        case CascadeDraft():
            return cascade(draft, round_)
        case RelayDraft():
            return relay(draft, round_)
        case _:
            return None
