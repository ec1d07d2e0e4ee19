"""Independent draft models: one, several at the same time, one after another, or one sped up by another."""

from __future__ import annotations

import numpy as np

from specsim.acceptance import rounds_for_tokens
from specsim.cost.memory import Resident
from specsim.cost.passes import Array, Pass
from specsim.drafting.plan import Drafting, Repeated, Round, level_by_level, reading
from specsim.specs.drafter import CascadeDraft, DraftModel, MergedDraft, RelayDraft
from specsim.specs.served import ServedModel


def chain_or_one(of: Pass, passes: str, round_: Round) -> tuple[Repeated, ...]:
    """The same pass for every drafted token or level of a tree, or one pass over all of them.

    In one pass, the candidates for a position are alternatives of one output: a tree takes a token for each level.

    The token that a fully accepted round leaves for the draft's cache rides along in the next round's first
    step, where a second token of a small batch costs next to nothing; it is not charged.
    """
    if passes == "chain":
        return level_by_level(of, round_)
    tokens = np.maximum(round_.gamma, 1.0)
    whole = Pass(of.served, of.sequences, tokens, of.context_length, of.projections, of.bare)
    return (Repeated("draft_pass", whole, round_.any_drafted),)


def step(served: ServedModel, round_: Round, tokens: Array | None = None) -> Pass:
    """A pass of one new token, or of some, of every sequence."""
    return Pass(served, round_.sequences, np.ones(()) if tokens is None else tokens, round_.context_length)


def _resident(*models: ServedModel) -> Resident:
    return Resident(sum(model.device_weight_bytes for model in models), models)


def draft_model(draft: DraftModel, round_: Round) -> Drafting:
    """One model: a pass for every drafted token, or one for all."""
    served = draft.served
    kept, one = _resident(served), step(served, round_)
    return Drafting(
        lanes=(chain_or_one(one, draft.passes, round_),),
        steps=round_.drafted if draft.passes == "chain" else round_.any_drafted,
        resident=Resident() if draft.own_device else kept,
        apart=kept if draft.own_device else None,
        readings=((reading(one),),),
    )


def merged(draft: MergedDraft, round_: Round) -> Drafting:
    """Several models at the same time; no two of their sequences are taken to share a token."""
    passes = [step(model, round_) for model in draft.models]
    return Drafting(
        lanes=tuple((Repeated("draft_step", one, round_.drafted),) for one in passes),
        steps=round_.drafted,
        verified_tokens=len(draft.models) * round_.gamma + 1,
        resident=_resident(*draft.models),
        readings=tuple((reading(one),) for one in passes),
    )


def cascade(draft: CascadeDraft, round_: Round) -> Drafting:
    """A model that verifies what a smaller one drafts for it, again and again, until enough is drafted.

    Its own rounds are whole: what the last one drafts beyond gamma is lost.
    """
    g = draft.inner_gamma
    rounds = rounds_for_tokens(draft.inner_rate, g, round_.gamma.astype(np.int64))
    inner, middle = step(draft.inner, round_), step(draft, round_, np.asarray(g + 1.0))
    return Drafting(
        lanes=((Repeated("inner_draft_step", inner, rounds * g), Repeated("draft_verification", middle, rounds)),),
        steps=rounds * (g + 1),
        resident=_resident(draft, draft.inner),
        readings=((reading(inner), reading(middle)),),
    )


def relay(draft: RelayDraft, round_: Round) -> Drafting:
    """Models one after another in one draft, each for its number of tokens; the last one for the rest."""
    left, found = round_.drafted, list[Repeated]()
    for index, leg in enumerate(draft.legs):
        last = index == len(draft.legs) - 1
        turn = left if last else np.minimum(left, float(leg.tokens))
        found.append(Repeated(f"draft_step_{index + 1}", step(leg.model, round_), turn))
        left = left - turn
    return Drafting(
        lanes=(tuple(found),),
        steps=round_.drafted,
        resident=_resident(*(leg.model for leg in draft.legs)),
        readings=(tuple(reading(part.of) for part in found),),
    )
