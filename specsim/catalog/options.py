"""A question posed by options, of a function or of a command line, as a document to resolve.

Text is read as YAML would read it, and every value remembers the option it came from, so that faults name it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np

from specsim.catalog.drafters import fields_of
from specsim.catalog.dump import document_of
from specsim.catalog.library import is_path
from specsim.catalog.located import LocatedDict, LocatedList, place_of
from specsim.catalog.resolve import Resolution, resolve
from specsim.catalog.strict_yaml import plain_value
from specsim.errors import Fault, InputError, Place, shown
from specsim.specs.acceptance import NO_RANKS, Published, knows_ranks
from specsim.specs.drafter import deepest_tree
from specsim.specs.fields import LONGEST_DRAFT, axis


class Options(TypedDict, total=False):
    """What a question about one machine may say; what is left out has the default of the command.

    Attributes:
        hardware: The accelerator.
        target: The target model.
        draft: The draft model, or several to compare; ``NAME:ACCEPTANCE`` gives one its own acceptance.
        acceptance: Acceptance of all drafts that have none of their own.
        runtime: Serving software; ``typical`` if left out.
        node: How the accelerators are wired; needed where one server of eight is not enough.
        precision: Number format of the target's weights; ``bf16``.
        kv_precision: Number format of the target's cache; that of the weights where it is a cache format.
        draft_precision: Number format of the draft's weights; ``bf16``.
        draft_kv_precision: Number format of the draft's cache; that of its weights where it is a cache format.
        tensor_parallel: Devices that split each layer of the target; 1.
        pipeline_parallel: Stages, each with its part of the target's layers; 1.
        expert_parallel: Groups of the devices of a stage that hold whole experts of the target; 1.
        attention_data_parallel: Groups of these devices that run attention for a part of the batch each; 1.
        offloaded: Share of the target's weights that stay in the memory of the host; 0.
        source_tokens: Tokens of source text for the encoder of target and draft; as many as it has positions.
        draft_tensor_parallel: Devices that split each layer of the draft; as for the target.
        draft_cost_ratio: Measured: one draft step / one plain target step.
        ranks: Acceptance of the children of rank 1, 2, 3, ... in token trees, in place of ``acceptance``: text such as
            ``"0.6,0.2,0.1"``, with levels apart by ``;``, numbers, or the path of a YAML file.
        verification: The rule among several candidates, where ranks come from paired probabilities; ``multi-step``.
        path_by_path: Whether the candidates of a tree are verified as sequences of their own.
        verify_cost_ratio: Measured: verifying gamma + 1 tokens / one plain target step.
        plain_step_ms: Measured: one plain target step [ms]; with cards it anchors the runtime, at the batch and
            context of ``"7.1@1,512"``, or else at the first ones of the grid.
        draft_operations_ratio: Operations of one draft step / of one plain step.
        repair: Extra target call after a rejection, in plain steps.
        overhead: Fixed cost of a round, in plain steps.
        output_length: Tokens of an output: the drafter's reading of the context is spread over them, and the last round
            of an output is cut short. Outputs have no end if left out.
        extrapolate: Whether draft lengths beyond the recorded acceptance may be called best.
    """

    hardware: Any
    target: Any
    draft: Any
    acceptance: Any
    runtime: Any
    node: Any
    precision: Any
    kv_precision: Any
    draft_precision: Any
    draft_kv_precision: Any
    tensor_parallel: Any
    pipeline_parallel: Any
    expert_parallel: Any
    attention_data_parallel: Any
    offloaded: Any
    source_tokens: Any
    draft_tensor_parallel: Any
    draft_cost_ratio: Any
    ranks: Any
    verification: Any
    path_by_path: Any
    verify_cost_ratio: Any
    plain_step_ms: Any
    draft_operations_ratio: Any
    repair: Any
    overhead: Any
    output_length: Any
    extrapolate: Any


DEFAULT_BATCHES = "1..256*2"
DEFAULT_CONTEXT = 1024
DEFAULT_MAX_GAMMA = 8

_OF_TARGET = (
    "precision",
    "kv_precision",
    "tensor_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "attention_data_parallel",
    "offloaded",
    "source_tokens",
)
_OF_DRAFT = ("precision", "kv_precision", "tensor_parallel")
_RATIOS = ("draft_cost_ratio", "verify_cost_ratio", "draft_operations_ratio", "repair", "overhead")


def ask(
    batch_size: Any,
    context_length: Any,
    gammas: Sequence[int],
    gammas_at: str = "max_gamma",
    tree: Any = None,
    **options: Unpack[Options],
) -> Resolution:
    """The question that some options pose, resolved.

    Args:
        batch_size: Batch sizes, the default ones if None.
        context_length: Contexts, the default one if None.
        gammas: Draft lengths.
        gammas_at: The option that they come from.
        tree: A token tree beside them, if any.
        options: See ``Options``.

    Raises:
        InputError: With one fault for everything that is wrong; faults name the option.
    """
    given = {name: value for name, value in options.items() if value is not None}
    with_cards = "hardware" in given or "target" in given
    _check(given, with_cards)
    document = LocatedDict()
    for name in ("hardware", "node", "runtime"):
        if name in given:
            _put_name(document, name, given[name], name)
    for name in ("extrapolate", "output_length"):
        if name in given:
            _put(document, name, given[name], name)
    if "target" in given:
        _put(document, "target", served_document(given, "target", _OF_TARGET), "target")
    _put(document, "drafts", _drafts(given), "draft")
    costs = costs_document(given)
    if costs or not with_cards:
        document["costs"] = costs
    grid = LocatedDict()
    defaults = (DEFAULT_BATCHES, DEFAULT_CONTEXT) if with_cards else (1, 0)
    _put(grid, "batch_size", defaults[0] if batch_size is None else batch_size, "batch_size")
    _put(grid, "context_length", defaults[1] if context_length is None else context_length, "context_length")
    _put(grid, "gamma", list(gammas), gammas_at)
    if tree is not None:
        _put(grid, "tree", tree, "tree")
    _put(document, "grid", grid, "batch_size")
    resolution = resolve(document)
    own = [draft.places["acceptance"].parameter == "draft" for draft in document["drafts"] if "acceptance" in draft]
    for name in ("acceptance", "ranks"):
        if name in given and all(own):
            _refuse("every draft has an acceptance of its own; this one is not used.", name)
    for field in _OF_DRAFT:
        if f"draft_{field}" in given and not any(field in fields_of(draft) for draft in resolution.document["drafts"]):
            which = "no draft has" if len(resolution.document["drafts"]) > 1 else "the draft does not have"
            _refuse(f"it says nothing: {which} the field {field}.", f"draft_{field}")
    return resolution


def check_trees_can_be_drafted(resolution: Resolution) -> None:
    """Refuse a search for trees where a drafter drafts none, or its acceptance knows no ranks.

    Raises:
        InputError: With the option or the field at fault.
    """
    document = resolution.document
    for scenario in resolution.scenarios:
        for index, draft in enumerate(scenario.drafts):
            if deepest_tree(draft) == 0:
                message = f"token trees are not modelled for the drafter {draft.label}."
                raise InputError(Fault(message, *place_of(document, ("drafts", index))))
            if isinstance(draft.acceptance, Published) or not knows_ranks(draft.acceptance):
                place, path = place_of(document, ("drafts", index, "acceptance"))
                of = "What is published" if isinstance(draft.acceptance, Published) else draft.acceptance.label
                raise InputError(Fault(NO_RANKS.replace("It", of, 1), place, path))


def draft_length(value: Any, option: str) -> int:
    """A draft length as an option gives it.

    Raises:
        InputError: If it is no whole number from 0 to ``LONGEST_DRAFT``.
    """
    return whole_number(value, option, 0, LONGEST_DRAFT)


def whole_number(value: Any, option: str, least: int, most: int) -> int:
    """A whole number as an option gives it.

    Raises:
        InputError: If it is none, or outside its bounds.
    """
    number = _value(value)
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        _refuse(f"expected a whole number from {least} to {most}, found {shown(number)}.", option)
    return int(number)


def _check(given: dict[str, Any], with_cards: bool) -> None:
    unknown = given.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"unexpected option {', '.join(sorted(unknown))}")
    if not with_cards and "draft_cost_ratio" not in given:
        raise InputError(
            "Nothing to plan for: expected an accelerator, a target and a draft model, or the measured cost ratio of a "
            "draft step with an acceptance."
        )
    of_cards = (
        "runtime",
        "node",
        "draft",
        "draft_precision",
        "draft_kv_precision",
        "draft_tensor_parallel",
        "output_length",
        *_OF_TARGET,
    )
    if not with_cards:
        for name in of_cards:
            if name in given:
                _refuse("it says nothing without an accelerator and a target model.", name)


def _refuse(message: str, option: str) -> None:
    raise InputError(Fault(message, Place(parameter=option)))


def _put(document: LocatedDict, field: str, value: Any, option: str) -> None:
    document[field] = _value(value)
    document.places[field] = Place(parameter=option)


def _put_name(document: LocatedDict, field: str, value: Any, option: str) -> None:
    """The name of a card, which is text even if it looks like a number: 4090 is an accelerator."""
    document[field] = value if isinstance(value, str) else _value(value)
    document.places[field] = Place(parameter=option)


def _value(value: Any) -> Any:
    """Text as YAML reads it, records as documents, numpy numbers, tuples and ranges as numbers and lists."""
    if isinstance(value, str):
        found = plain_value(value)
        return value if found is None else found
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        try:
            return LocatedDict(document_of(value))
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"This {type(value).__name__} holds something that it cannot hold: {error}.") from None
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, range | tuple) else value


def served_document(given: dict[str, Any], model: str, fields: Iterable[str], prefix: str = "") -> LocatedDict:
    served = LocatedDict(place=Place(parameter=model))
    _put_name(served, "model", given[model], model)
    for field in fields:
        if prefix + field in given:
            _put(served, field, given[prefix + field], prefix + field)
    return served


def _drafts(given: dict[str, Any]) -> LocatedList:
    if "ranks" in given:
        if "acceptance" in given:
            _refuse("they are an acceptance, and acceptance is given too: leave one of the two out.", "ranks")
        given = {**given, "acceptance": _ranks(given["ranks"])}
    at = "ranks" if "ranks" in given else "acceptance"
    wanted = given.get("draft", [])
    wanted = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    entries = []
    for index, draft in enumerate(wanted):
        if isinstance(draft, str) and draft in wanted[:index]:
            _refuse(f"{draft} is given twice.", "draft")
        name, acceptance = split_draft(draft)
        entry = served_document({**given, "draft": name}, "draft", _OF_DRAFT, "draft_")
        if acceptance is not None:
            _put_acceptance(entry, acceptance, "draft")
        elif "acceptance" in given:
            _put_acceptance(entry, given["acceptance"], at)
        entries.append(entry)
    if not entries and "draft_cost_ratio" in given:
        entries.append(LocatedDict())
        if "acceptance" in given:
            _put_acceptance(entries[0], given["acceptance"], at)
    for entry in entries:
        for name in ("verification", "path_by_path"):
            if name in given:
                _put(entry, name, given[name], name)
    if not entries:
        _refuse("expected a draft model, or the measured cost ratio of a draft step in its place.", "draft")
    place = Place(parameter="draft")
    return LocatedList(entries, place, [place] * len(entries))


def _ranks(value: Any) -> Any:
    """Ranks as an acceptance: numbers, text of numbers, or a file."""
    if isinstance(value, str):
        return value if is_path(value) or "=" in value else f"ranks={value}"
    found = _value(value)
    return {"kind": "ranks", "ranks": found} if isinstance(found, list) else found


def split_draft(draft: Any) -> tuple[Any, str | None]:
    """``NAME:ACCEPTANCE`` in two; a colon inside a path is not a separator."""
    if isinstance(draft, str) and ":" in draft:
        name, _, acceptance = draft.rpartition(":") if "=" not in draft else draft.partition(":")
        return name, acceptance
    return draft, None


def _put_acceptance(draft: LocatedDict, acceptance: Any, option: str) -> None:
    # Numbers stay text here: 0.8 is one of the forms of an acceptance.
    is_text = isinstance(acceptance, str | int | float) and not isinstance(acceptance, bool)
    draft["acceptance"] = str(acceptance) if is_text else _value(acceptance)
    draft.places["acceptance"] = Place(parameter=option)


def costs_document(given: dict[str, Any]) -> LocatedDict:
    costs = LocatedDict()
    for name in _RATIOS:
        if name in given:
            _put(costs, name, given[name], name)
    if "plain_step_ms" in given:
        _put_plain_step(costs, given["plain_step_ms"])
    return costs


def _put_plain_step(costs: LocatedDict, given: Any) -> None:
    """``7.1``, or ``7.1@1,512`` with the batch and context at which it was measured."""
    time, at, point = str(given).partition("@")
    milliseconds = _value(time)
    try:
        is_number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
        if not is_number or not 0 < milliseconds < np.inf:
            raise ValueError
        batch, context = (axis(1).read(part.strip()) for part in point.split(",")) if at else ((1,), (1,))
        if len(batch) + len(context) != 2:
            raise ValueError
    except ValueError:
        expected = "a number of milliseconds above 0, as in 7.1, or 7.1@1,512 if measured at batch 1, context 512"
        _refuse(f"expected {expected}, found {shown(given)}.", "plain_step_ms")
    _put(costs, "plain_step", f"{milliseconds!r} ms", "plain_step_ms")
    if at:
        measured_at = LocatedDict(place=Place(parameter="plain_step_ms"))
        _put(measured_at, "batch_size", batch[0], "plain_step_ms")
        _put(measured_at, "context_length", context[0], "plain_step_ms")
        _put(costs, "plain_step_at", measured_at, "plain_step_ms")
