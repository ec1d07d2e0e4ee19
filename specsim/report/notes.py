"""What was assumed and what was extrapolated, in words."""

from __future__ import annotations

from specsim.planning.sweep import anchor_point
from specsim.report.columns import Answer
from specsim.specs.acceptance import Drafted, Length, Published
from specsim.specs.card import Card
from specsim.specs.drafter import DraftModel
from specsim.specs.scenario import Scenario


def assumed(scenario: Scenario) -> list[str]:
    """What a scenario takes for granted, one sentence each, without the full stop."""
    notes = []
    for card in (scenario.runtime, scenario.hardware, _kernels(scenario)):
        if card is not None and card.assumptions:
            notes.append(_unpublished(card))
    costs = scenario.costs
    if costs is not None and scenario.hardware is None:
        if costs.verify_cost_ratio is None:
            notes.append("verifying gamma + 1 tokens costs as much as a plain step (verify_cost_ratio 1)")
        if costs.draft_operations_ratio is None:
            notes.append("a draft step has the share of a plain step's operations and bytes that it has of its time")
    if costs is not None and scenario.hardware is not None and costs.plain_step_seconds is not None:
        batch, context = anchor_point(scenario.grid)
        notes.append(
            f"the plain step of {costs.plain_step_seconds * 1e3:g} ms was measured at batch {batch}, "
            f"context {context}, and fixes the cost per layer everywhere"
        )
    for draft in scenario.drafts:
        acceptance = draft.acceptance
        if isinstance(acceptance, Published):
            spread = f"{acceptance.low.label} to {acceptance.high.label}"
            notes.append(f"acceptance of {_called(draft)}: {acceptance.basis}, {spread}")
        elif isinstance(acceptance, Length | Drafted):
            notes.append(f"acceptance of {_called(draft)}: one rate for all positions, from {acceptance.label}")
    return notes


def extrapolated(answer: Answer) -> list[str]:
    """Which draft lengths lie beyond the recorded acceptance."""
    beyond = answer.rounds.axes.gamma[answer.rounds.lengths.extrapolated]
    if not beyond.size:
        return []
    use = "" if answer.block.question.extrapolate else ", which is never called best unless asked for"
    return [f"gamma {beyond.min()} and above lies beyond the recorded {answer.draft.acceptance.label}{use}"]


def _called(draft: object) -> str:
    return draft.model.name if isinstance(draft, DraftModel) else "the draft"


def _kernels(scenario: Scenario) -> Card | None:
    """The kernels in force, unless the runtime, which brings its own, speaks for them."""
    if scenario.hardware is None or (scenario.runtime is not None and scenario.runtime.kernels is not None):
        return None
    return scenario.hardware.kernels


def _unpublished(card: Card) -> str:
    kind = getattr(card, "kind", "card")
    fields = ", ".join(card.assumptions)
    return f"{kind} {card.name}" if fields == "all" else f"{kind} {card.name} ({fields})"
