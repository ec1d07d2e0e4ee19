"""Drafters on the target's hidden states: EAGLE, multi-token-prediction modules, Medusa."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specsim.cost.memory import Resident
from specsim.cost.passes import Pass, Projection
from specsim.drafting.draft_model import chain_or_one, step
from specsim.drafting.plan import Drafting, Repeated, Round, level_by_level, reading
from specsim.specs.attention import GroupedAttention
from specsim.specs.drafter import Eagle3Draft, EagleDraft, HeadDraft, MedusaDraft, MtpDraft
from specsim.specs.feed_forward import Mlp
from specsim.specs.head import Eagle3Head, EagleHead, MtpModule
from specsim.specs.model import Model
from specsim.specs.precision import SIXTEEN_BITS
from specsim.specs.served import ServedModel


def layer_model(head: EagleHead | Eagle3Head | MtpModule, target: Model) -> Model:
    """The one layer of a head with the output matrix that it reads, as a model of one layer."""
    experts = head.experts if isinstance(head, MtpModule) else None
    return Model(
        name=head.name,
        title=head.title,
        layers=1,
        hidden_size=head.hidden_size,
        vocab_size=head.draft_vocab_size if isinstance(head, Eagle3Head) else head.vocab_size,
        max_positions=target.max_positions,
        attention=head.attention,
        mlp=head.mlp,
        experts=experts,
    )


def _served(draft: HeadDraft, model: Model) -> ServedModel:
    return ServedModel(
        model=model,
        precision=draft.precision,
        kv_precision=draft.kv_precision,
        tensor_parallel=draft.tensor_parallel,
    )


def _own_bytes(draft: HeadDraft, layers: Model | None, projections: tuple[Projection, ...]) -> float:
    """Its own weights on one device; table and head of most are the target's."""
    head, bytes_of = draft.head, draft.precision.bytes_of
    matrices = [(p.module, float(p.inputs * p.outputs * p.count)) for p in projections]
    matrices += layers.decoder_modules().items() if layers is not None else ()
    matrices += [("head", float(head.draft_vocab_size * head.hidden_size))] if isinstance(head, Eagle3Head) else ()
    saved = sum(count * (SIXTEEN_BITS - bytes_of(module)) for module, count in matrices)
    return (head.parameters * SIXTEEN_BITS - saved) / draft.tensor_parallel


def eagle(draft: EagleDraft | Eagle3Draft | MtpDraft, target: Model, round_: Round) -> Drafting:
    """One layer a step, behind a projection of token and hidden state.

    EAGLE-1 and MTP modules join both by a projection to one hidden state; the layer of EAGLE-3 takes them side by
    side, and joins three hidden states of the target once a round.
    """
    head = draft.head
    h = head.hidden_size
    served = _served(draft, layer_model(head, target))
    plain = step(served, round_)
    once: tuple[Projection, ...] = ()
    if isinstance(head, Eagle3Head):
        attention = head.attention
        once = (Projection("join", 3 * head.target_hidden_size, h),)
        width = attention.query_width + 2 * attention.kv_width
        always = (Projection("qkv_hidden", h, width, "attention", small_parameters=h, summed=True),)
    else:
        # EAGLE has a bias, and lacks two of the three norms of a model of one layer; a module has five norms.
        vectors = -h if isinstance(head, EagleHead) else 2 * h
        always = (Projection("join", 2 * h, h, small_parameters=vectors),)
    first, later = (replace(plain, projections=(*parts, *always)) for parts in (once, ()))
    if draft.passes == "one" or not once:
        lane = chain_or_one(first, draft.passes, round_)
    else:
        started = np.minimum(round_.drafted, 1.0)
        lane = (Repeated("first_step", first, started), *level_by_level(later, round_, round_.narrow - started))
    return Drafting(
        lanes=(lane,),
        steps=round_.drafted if draft.passes == "chain" else round_.any_drafted,
        resident=Resident(_own_bytes(draft, served.model, first.projections), (served,)),
        readings=((reading(first),),),
    )


def medusa(draft: MedusaDraft, target: ServedModel, round_: Round) -> Drafting:
    """All heads at once, on hidden states that the verification before has left or that a pass of the target makes."""
    head = draft.head
    h = head.hidden_size
    bare = Model(
        name=head.name, layers=1, hidden_size=h, vocab_size=head.vocab_size, max_positions=target.model.max_positions,
        attention=GroupedAttention(heads=draft.tensor_parallel, kv_heads=1, head_dim=1), mlp=Mlp(intermediate_size=1),
    )  # fmt: skip
    parts = (
        Projection("residual", h, h, count=head.heads * head.layers_per_head, small_parameters=h),
        Projection("heads", h, head.vocab_size, "head", count=head.heads),
    )
    served = _served(draft, bare)
    at_once = Pass(served, round_.sequences, np.ones(()), round_.context_length, parts, bare=True)
    lane = [Repeated("heads", at_once, round_.any_drafted)]
    if not draft.merged:
        lane.insert(0, Repeated("prediction", step(target, round_), round_.any_drafted))
    return Drafting(
        lanes=(tuple(lane),),
        steps=round_.any_drafted,
        verified_tokens=np.minimum(round_.gamma, float(head.heads)) + 1 if round_.nodes is None else round_.nodes,
        resident=Resident(_own_bytes(draft, None, parts)),
    )
