"""Drafters that are no other model: a part of the target, its own guesses, or text that was there before."""

from __future__ import annotations

from dataclasses import replace

from specsim.cost.memory import Resident
from specsim.drafting.draft_model import step
from specsim.drafting.plan import Drafting, Round, level_by_level
from specsim.specs.drafter import LayersDraft, LookaheadDraft, LookupDraft, WindowDraft, windowed
from specsim.specs.model import Model
from specsim.specs.served import ServedModel


def layers(draft: LayersDraft, target: ServedModel, round_: Round) -> Drafting:
    """Some layers of the target and its head; weights and cache are the target's."""
    part = replace(target, model=first_layers(target.model, draft.layers), pipeline_parallel=1)
    return Drafting(lanes=(level_by_level(step(part, round_), round_),), steps=round_.drafted)


def first_layers(model: Model, layers: int) -> Model:
    """The first layers of a model with its tables; layers skipped in between cost what as many first ones cost."""
    pattern = model.layer_pattern[:layers]
    experts = model.experts if model.experts is not None and model.experts.layers_among(layers) else None
    dense = layers - (experts.layers_among(layers) if experts is not None else 0)
    return replace(
        model,
        layers=layers,
        layer_pattern=pattern,
        sliding_window=model.sliding_window if "sliding" in pattern else None,
        linear_attention=model.linear_attention if "linear" in pattern else None,
        experts=experts,
        mlp=model.mlp if dense else None,
    )


def window(draft: WindowDraft, target: ServedModel, round_: Round) -> Drafting:
    """The whole target over a short window, of which it keeps a cache of its own."""
    short = replace(target, model=windowed(target.model, draft.window))
    return Drafting(
        lanes=(level_by_level(step(short, round_), round_),),
        steps=round_.drafted,
        resident=Resident(cached=(short,)),
    )


def lookahead(draft: LookaheadDraft, round_: Round) -> Drafting:
    """Nothing but a wider pass: W (N - 1) tokens of the iteration and G (N - 1) of guesses, with N - 1 = gamma."""
    return Drafting(verified_tokens=(draft.window + draft.guesses) * round_.gamma + (round_.gamma == 0))


def lookup(draft: LookupDraft) -> Drafting:
    """Time of the host alone."""
    return Drafting(host_seconds=draft.host_time_seconds)
