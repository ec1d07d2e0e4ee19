"""A question: what runs where, with which drafters, over which grid."""

from __future__ import annotations

from typing import Annotated, Literal

from specsim.errors import Contradiction
from specsim.specs.acceptance import NO_RANKS, knows_ranks, typical_of
from specsim.specs.attention import GroupedAttention
from specsim.specs.drafter import (
    HEAD_DRAFTS,
    AnyDraft,
    Draft,
    DraftModel,
    LayersDraft,
    LookaheadDraft,
    LookupDraft,
    MeasuredDraft,
    MergedDraft,
    RelayDraft,
    WindowDraft,
    deepest_tree,
    models_of,
)
from specsim.specs.fields import (
    LONGEST_DRAFT,
    Count,
    CountOrZero,
    Flag,
    Length,
    PositiveRatio,
    PositiveSeconds,
    Ratio,
    Trees,
    axis,
    record,
)
from specsim.specs.hardware import Hardware
from specsim.specs.head import Eagle3Head
from specsim.specs.node import DEVICES_WITHOUT_A_NODE, Node
from specsim.specs.ranked import TreeLength
from specsim.specs.runtime import Runtime
from specsim.specs.served import ServedModel
from specsim.specs.tree import Shape


@record
class OperatingPoint:
    """A batch and a context."""

    batch_size: Count
    context_length: CountOrZero


@record
class MeasuredCosts:
    """Costs that a user measured, in plain target steps; each replaces what the roofline would say.

    Attributes:
        draft_cost_ratio: One draft step / one plain target step (c).
        verify_cost_ratio: Verifying gamma + 1 tokens / one plain target step.
        plain_step_seconds: One plain target step [s].
        plain_step_at: Where that was measured; the first batch and context of the grid if absent.
        repair: An extra target call after a rejection, in plain steps.
        overhead: Fixed cost of a round, in plain steps.
        draft_operations_ratio: Operations of one draft step / of one plain step; the draft cost ratio if absent.
    """

    kind: Literal["measured"] = "measured"
    draft_cost_ratio: Ratio | None = None
    verify_cost_ratio: PositiveRatio | None = None
    plain_step_seconds: PositiveSeconds | None = None
    plain_step_at: OperatingPoint | None = None
    repair: Ratio = 0.0
    overhead: Ratio = 0.0
    draft_operations_ratio: Ratio | None = None

    def __post_init__(self) -> None:
        if self.plain_step_at is not None and self.plain_step_seconds is None:
            raise Contradiction("It says where a plain step was measured, and plain_step is missing.", "plain_step_at")


@record
class Grid:
    """The points at which a question is asked; every combination of batch, context and draft is one row.

    Attributes:
        gamma: Draft lengths.
        tree: Token trees beside them, if any.
    """

    batch_size: Annotated[tuple[int, ...], axis(1)]
    context_length: Annotated[tuple[int, ...], axis(0)]
    gamma: Annotated[tuple[int, ...], axis(0, LONGEST_DRAFT)]
    tree: Trees | None = None

    def __post_init__(self) -> None:
        for tree in self.trees:
            if tree.is_chain and tree.depth in self.gamma:
                raise Contradiction(f"The tree {tree.label} is gamma {tree.depth}, which is there already.", "tree")

    @property
    def trees(self) -> tuple[Shape, ...]:
        """Token trees, which stand behind the draft lengths on the same axis."""
        return self.tree or ()

    @property
    def drafts(self) -> int:
        """Draft lengths and trees at each batch and context."""
        return len(self.gamma) + len(self.trees)


@record
class Scenario:
    """One resolved question: every card filled in, every default present."""

    format: Literal[1] = 1
    kind: Literal["sweep"] = "sweep"
    name: str = ""
    hardware: Hardware | None = None
    node: Node | None = None
    runtime: Runtime | None = None
    target: ServedModel | None = None
    drafts: tuple[Draft, ...]
    costs: MeasuredCosts | None = None
    extrapolate: Flag = False
    output_length: Length = 0
    grid: Grid

    def __post_init__(self) -> None:
        cards = [name for name in ("hardware", "runtime", "target") if getattr(self, name) is None]
        if cards and self.costs is None:
            raise Contradiction(f"{' and '.join(cards)} missing: without measured costs the roofline needs all three.")
        if (self.hardware is None) != (self.target is None):
            missing = "hardware" if self.hardware is None else "target"
            raise Contradiction(
                f"{missing} missing: the roofline needs hardware and target; measured costs need neither."
            )
        for field in ("runtime", "node"):
            if self.hardware is None and getattr(self, field) is not None:
                raise Contradiction(f"A {field} says nothing without hardware and target.", field)
        if self.hardware is None and self.costs is not None and self.costs.plain_step_at is not None:
            raise Contradiction("Without hardware and target a plain step holds everywhere; leave out where.", "costs")
        measured = any(isinstance(draft, MeasuredDraft) for draft in self.drafts)
        if (cards or measured) and (self.costs is None or self.costs.draft_cost_ratio is None):
            raise Contradiction(
                "The cost of drafting is missing: name a draft model or give draft_cost_ratio.", "drafts"
            )
        if self.hardware is not None:
            served = [(self.target, "target"), *((model, "drafts") for d in self.drafts for model in models_of(d))]
            for one, field in served:
                if one is not None:
                    _check_runs_on(one, self.hardware, field)
                    _check_wiring(one, self.hardware, self.node, field)
        if self.output_length and self.hardware is None:
            raise Contradiction(
                "An output length spreads the reading of the context, which needs cards.", "output_length"
            )
        if self.costs is not None and self.costs.plain_step_seconds and self.target and self.target.offloaded:
            raise Contradiction(
                "A measured plain step fixes the cost per layer, and with weights on the host nothing can be said of "
                "that: the pass waits for them. Give host_link_efficiency in a runtime card instead.",
                "costs",
            )
        if self.costs is not None and self.costs.draft_operations_ratio is not None and not measured:
            raise Contradiction("draft_operations_ratio says nothing beside a draft model.", "costs")
        at = self.costs.plain_step_at if self.costs is not None else None
        if at is not None and self.target is not None and at.context_length >= self.target.model.max_positions:
            most = self.target.model.max_positions
            sentence = f"A plain step at context {at.context_length} is more than the {most} positions of the target."
            raise Contradiction(sentence, "costs")
        told_apart = [(draft.label, draft.acceptance.label) for draft in self.drafts]
        for index, draft in enumerate(self.drafts):
            if told_apart[index] in told_apart[:index]:
                sentence = f"Two drafts are called {draft.label}; give one of them a name of its own."
                raise Contradiction(sentence, "drafts", index)
            if self.target is None and not isinstance(draft, MeasuredDraft):
                sentence = f"A drafter of the method {draft.method} needs hardware and target."
                raise Contradiction(sentence, "drafts", index)
            if any(not tree.is_chain for tree in self.grid.trees):
                _check_drafts_trees(draft, self.grid.trees, index)
            if self.target is not None:
                for model in models_of(draft):
                    _check_shares_devices(model, self.target, index)
                _check_fits_target(draft, self.target, index)


def _check_drafts_trees(draft: AnyDraft, trees: tuple[Shape, ...], index: int) -> None:
    """Whether a drafter can draft trees of such a depth, and its acceptance says what they are worth."""
    deepest, here = deepest_tree(draft), ("grid", "tree")
    if deepest == 0:
        raise Contradiction(f"Token trees are not modelled for the drafter {draft.label}.", *here)
    for tree in trees:
        if deepest is not None and tree.depth > deepest:
            sentence = f"{draft.label} reaches {deepest} levels, one for each of its heads, and {tree.label} has "
            raise Contradiction(f"{sentence}{tree.depth}.", *here)
    acceptance = typical_of(draft.acceptance)
    if isinstance(acceptance, TreeLength):
        unknown = [tree.label for tree in trees if tree not in acceptance.measured]
        if unknown:
            sentence = f"Tokens per round of {unknown[0]} are not among those measured, {acceptance.label}."
            raise Contradiction(sentence, *here)
    elif not knows_ranks(acceptance):
        raise Contradiction(NO_RANKS, "drafts", index, "acceptance")
    if draft.path_by_path and isinstance(draft, LookupDraft) and draft.hit_rate < 1:
        sentence = "Verification path by path is not modelled where only some rounds find anything."
        raise Contradiction(sentence, "drafts", index, "path_by_path")


def _check_runs_on(served: ServedModel, hardware: Hardware, field: str) -> None:
    name, precision = served.model.name, served.precision
    known = ", ".join(hardware.dense_rate.known)
    if precision.narrow:
        if hardware.rate_of_16_bits is None:
            sentence = f"{hardware.name} has no dense rate of 16 bits, which {name} needs in {precision.name} too"
            raise Contradiction(f"{sentence}; it has {known}.", field)
    elif hardware.dense_rate.of(precision.rate) is None:
        sentence = f"{hardware.name} has no dense rate for {precision.rate}, which {name} needs; it has {known}."
        raise Contradiction(sentence, field)
    if served.offloaded and hardware.host_link is None:
        sentence = f"Weights of {name} cannot come from the host: {hardware.name} has no host_link."
        raise Contradiction(sentence, field)


def _check_wiring(served: ServedModel, hardware: Hardware, node: Node | None, field: str) -> None:
    """Whether the devices of a model are linked: inside a node, and between nodes if one is not enough."""
    devices, name = served.devices, hardware.name
    if devices == 1:
        return
    linked = node is not None and node.link is not None
    if not linked and hardware.interconnect is None and hardware.host_link is None:
        raise Contradiction(f"{devices} devices need an interconnect or host_link on {name}, or a node's link.", field)
    if node is None:
        if devices > DEVICES_WITHOUT_A_NODE:
            sentence = f"{devices} devices are more than one server of {DEVICES_WITHOUT_A_NODE}: a node card must say "
            raise Contradiction(f"{sentence}how many stand in one node, and how nodes are linked.", field)
        return
    if devices <= node.devices:
        return
    if devices % node.devices:
        sentence = f"{devices} devices do not fill nodes of {node.devices} devices ({node.name})."
        raise Contradiction(sentence, field)
    inside = served.tensor_parallel
    if (inside > node.devices and inside % node.devices) or (inside < node.devices and node.devices % inside):
        raise Contradiction(f"tensor_parallel {inside} does not fit into nodes of {node.devices} devices.", field)
    if node.network is None:
        raise Contradiction(f"{devices} devices are more than one {node.name}, which has no network to others.", field)


def _check_shares_devices(draft: ServedModel, target: ServedModel, index: int) -> None:
    with_encoder = [served.model.name for served in (draft, target) if served.model.encoder is not None]
    if len(with_encoder) == 1:
        sentence = f"{with_encoder[0]} has an encoder and the other model has none: they do not read the same text."
        raise Contradiction(sentence, "drafts", index)
    if draft.pipeline_parallel > 1:
        sentence = "A draft model in several stages is not modelled: it runs on the devices of one stage."
        raise Contradiction(sentence, "drafts", index)
    apart = isinstance(draft, DraftModel) and draft.own_device
    if draft.tensor_parallel > target.tensor_parallel and not apart:
        raise Contradiction(
            f"The draft's tensor_parallel {draft.tensor_parallel} exceeds the target's {target.tensor_parallel}: "
            "it runs on the same devices.",
            "drafts",
            index,
        )


def _check_fits_target(draft: AnyDraft, target: ServedModel, index: int) -> None:
    """Whether what drafts on a target's own layers or states is made for such a target."""
    model, name, here = target.model, target.model.name, ("drafts", index)
    if isinstance(draft, HEAD_DRAFTS):
        head = draft.head
        states = head.target_hidden_size if isinstance(head, Eagle3Head) else head.hidden_size
        for what, own, wanted in (
            ("vocab_size", head.vocab_size, model.vocab_size), ("hidden_size", states, model.hidden_size),
        ):  # fmt: skip
            if own != wanted:
                sentence = f"{head.name} is made for {head.target}, with a {what} of {own}, and {name} has {wanted}."
                raise Contradiction(sentence, *here)
        if draft.tensor_parallel > target.tensor_parallel:
            sentence = f"The tensor_parallel {draft.tensor_parallel} of {head.name} exceeds the target's "
            raise Contradiction(f"{sentence}{target.tensor_parallel}: it runs on the same devices.", *here)
    if isinstance(draft, LayersDraft) and draft.layers > model.layers:
        raise Contradiction(f"{draft.layers} layers are more than the {model.layers} of {name}.", *here, "layers")
    if isinstance(draft, WindowDraft) and not isinstance(model.attention, GroupedAttention):
        raise Contradiction(f"A window over the latent cache of {name} is not modelled.", *here, "window")
    if isinstance(draft, LayersDraft | WindowDraft | LookaheadDraft) and model.encoder is not None:
        raise Contradiction(f"The method {draft.method} is not modelled for {name}, which has an encoder.", *here)
    if isinstance(draft, MergedDraft) and not draft.models:
        raise Contradiction("A merged drafter needs models.", *here, "models")
    if isinstance(draft, RelayDraft) and not draft.legs:
        raise Contradiction("A relay needs legs.", *here, "legs")
