"""The commands as Python functions, under the same names.

``hardware``, ``target``, ``draft`` and ``runtime`` take a catalogue name, an alias, the path of a YAML file, or a
record of ``specsim.specs``; ``acceptance`` takes the forms of the command line, a path, or a record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from specsim.catalog import library
from specsim.catalog.cards import RECORDS
from specsim.catalog.dump import document_of
from specsim.catalog.located import LocatedDict, LocatedList
from specsim.catalog.resolve import Resolution, read_scenario
from specsim.catalog.resolve import resolve as resolve_document
from specsim.catalog.strict_yaml import plain_value, write_yaml
from specsim.errors import Fault, InputError, Place
from specsim.planning.rounds import plan
from specsim.planning.sweep import Block, blocks
from specsim.report.columns import Answer, rows
from specsim.report.explanation import Explanation, explain_point
from specsim.report.notes import notes_of
from specsim.report.table import Table, joined

__all__ = [
    "Explanation",
    "Options",
    "Table",
    "ask",
    "catalog_list",
    "explain",
    "optimal_gamma",
    "resolve",
    "sweep",
]


class Options(TypedDict, total=False):
    """What a question about one machine may say; what is left out has the default of the command.

    Attributes:
        hardware: The accelerator.
        target: The target model.
        draft: The draft model, or several to compare; ``NAME:ACCEPTANCE`` gives one its own acceptance.
        acceptance: Acceptance of all drafts that have none of their own.
        runtime: Serving software; ``typical`` if left out.
        precision: Number format of the target's weights; ``bf16``.
        kv_precision: Number format of the target's cache; that of the weights where it is a cache format.
        draft_precision: Number format of the draft's weights; ``bf16``.
        tensor_parallel: Devices that split each tensor of the target; 1.
        draft_tensor_parallel: The same for the draft; as for the target.
        draft_cost_ratio: Measured: one draft step / one plain target step.
        verify_cost_ratio: Measured: verifying gamma + 1 tokens / one plain target step.
        plain_step_ms: Measured: one plain target step [ms]; with cards it anchors the runtime, at the batch and
            context of ``"7.1@1,512"``, or else at the first ones of the grid.
        draft_operations_ratio: Operations of one draft step / of one plain step.
        repair: Extra target call after a rejection, in plain steps.
        overhead: Fixed cost of a round, in plain steps.
        extrapolate: Whether draft lengths beyond the recorded acceptance may be called best.
    """

    hardware: Any
    target: Any
    draft: Any
    acceptance: Any
    runtime: Any
    precision: Any
    kv_precision: Any
    draft_precision: Any
    tensor_parallel: Any
    draft_tensor_parallel: Any
    draft_cost_ratio: Any
    verify_cost_ratio: Any
    plain_step_ms: Any
    draft_operations_ratio: Any
    repair: Any
    overhead: Any
    extrapolate: bool


DEFAULT_BATCHES = "1,2,4,8,16,32,64,128,256"
DEFAULT_CONTEXT = "1024"
DEFAULT_MAX_GAMMA = 8


def optimal_gamma(
    *,
    batch_size: Any = None,
    context_length: Any = None,
    max_gamma: Any = DEFAULT_MAX_GAMMA,
    all_gammas: bool = False,
    **options: Unpack[Options],
) -> Table:
    """The best draft length for each batch and context; gamma 0 means: do not speculate.

    Args:
        batch_size: Numbers, a list, or text such as ``"1..256*2"``.
        context_length: The same.
        max_gamma: The longest draft that is tried.
        all_gammas: Give every draft length and not only the best.
        options: See ``Options``.

    Raises:
        InputError: With one fault for everything that is wrong.

    >>> table = optimal_gamma(acceptance="rate=0.8", draft_cost_ratio=0.1)
    >>> int(table["gamma"][0]), round(float(table["speedup"][0]), 2)
    (6, 2.47)
    """
    table = all_rows(ask(batch_size, context_length, max_gamma, **options))
    return table if all_gammas else best_rows(table)


def best_rows(table: Table) -> Table:
    """The best draft length of each batch and context; where nothing fits, the row of the shortest one."""
    nothing_fits = np.array([near is None for near in table.cells("near_best")]) & (
        table["gamma"] == table["gamma"].min()
    )
    return table.where(table["best"] | nothing_fits)


def all_rows(resolution: Resolution) -> Table:
    """Every row of a resolved scenario, in the order of its grid."""
    return joined([block_table(block) for block in sweep_blocks(resolution)])


def sweep(config: str | Path) -> Table:
    """All rows of the grid of a scenario file.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    return all_rows(read_scenario(library.find("scenario", str(config), Place(parameter="config"))))


def sweep_blocks(resolution: Resolution) -> Iterator[Block]:
    """The blocks of a resolved scenario.

    Raises:
        InputError: If a measured plain step contradicts the hardware card.
    """
    for scenario in resolution.scenarios:
        yield from blocks(scenario)


def block_table(block: Block) -> Table:
    """The rows of one block of a grid."""
    answer = Answer(block, plan(block.question, block.axes))
    return rows(answer, **notes_of(answer))


def explain(
    *, batch_size: Any = 1, context_length: Any = 1024, gamma: Any = None, **options: Unpack[Options]
) -> Explanation:
    """Where the time of one operating point goes, what the draft costs, and where speculation stops paying.

    Args:
        batch_size: One batch size.
        context_length: One context length.
        gamma: The draft length; the best one up to 8 if left out.
        options: See ``Options``.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    resolution = ask(batch_size, context_length, DEFAULT_MAX_GAMMA if gamma is None else gamma, **options)
    scenario = resolution.scenarios[0]
    for name in ("batch_size", "context_length"):
        if len(getattr(scenario.grid, name)) > 1:
            raise InputError(Fault("explain looks at one operating point: expected one number.", Place(parameter=name)))
    if len(scenario.drafts) > 1:
        raise InputError(
            Fault("explain looks at one draft; compare several with optimal-gamma.", Place(parameter="draft"))
        )
    return explain_point(scenario, best_gamma=gamma is None)


def resolve(config: str | Path) -> str:
    """A scenario file with every default and card filled in, as YAML that reads back as the same scenario.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    return write_yaml(
        resolved_document(read_scenario(library.find("scenario", str(config), Place(parameter="config"))))
    )


def resolved_document(resolution: Resolution) -> dict[str, Any]:
    """The document of a resolution with every field; axes that vary a field stay in its grid as written."""
    document = document_of(resolution.scenarios[0])
    written = resolution.document.get("grid", {})
    document["grid"] |= {
        path: list(v) if isinstance(v, list) else v for path, v in written.items() if path not in document["grid"]
    }
    return document


def ask(batch_size: Any, context_length: Any, max_gamma: Any, **options: Unpack[Options]) -> Resolution:
    """The question that some options pose, resolved; faults name the option.

    Raises:
        InputError: With one fault for everything that is wrong.
    """
    given = {name: value for name, value in options.items() if value is not None}
    _refuse_unknown(given)
    if "hardware" not in given and "target" not in given and "draft_cost_ratio" not in given:
        raise InputError(
            "Nothing to plan for: expected hardware, target and draft, or draft_cost_ratio and acceptance."
        )
    with_cards = "hardware" in given or "target" in given
    document = _document({})
    for name in ("hardware", "runtime", "extrapolate"):
        if name in given and (with_cards or name == "extrapolate"):
            _put(document, name, _value(given[name]), name)
    if "target" in given:
        _put(
            document,
            "target",
            _served(given, "target", ("precision", "kv_precision", "tensor_parallel")),
            "target",
        )
    _drafts(document, given)
    _costs(document, given, with_cards)
    grid = _document({})
    for name, value, default in (
        ("batch_size", batch_size, DEFAULT_BATCHES if with_cards else "1"),
        ("context_length", context_length, DEFAULT_CONTEXT if with_cards else "0"),
    ):
        _put(grid, name, default if value is None else _value(value), name)
    _put(grid, "gamma", _gammas(max_gamma), "max_gamma")
    _put(document, "grid", grid, "batch_size")
    return resolve_document(document)


def _gammas(max_gamma: Any) -> list[int]:
    value = _value(max_gamma)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1000:
        raise InputError(
            Fault(f"expected a whole number from 0 to 1000, found {value!r}.", Place(parameter="max_gamma"))
        )
    return list(range(value + 1))


def _refuse_unknown(given: dict[str, Any]) -> None:
    unknown = given.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"unexpected option {', '.join(sorted(unknown))}")


def _document(values: dict[str, Any]) -> LocatedDict:
    return LocatedDict(values)


def _put(document: LocatedDict, field: str, value: Any, parameter: str) -> None:
    document[field] = value
    document.places[field] = Place(parameter=parameter)


def _value(value: Any) -> Any:
    """Text of the command line as YAML would read it; records as documents; numpy numbers and ranges as lists."""
    if isinstance(value, str):
        found = plain_value(value)
        return value if found is None else found
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return LocatedDict(document_of(value))
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, range | tuple) else value


def _served(given: dict[str, Any], model: str, fields: Sequence[str], prefix: str = "") -> LocatedDict:
    served = _document({})
    served.place = Place(parameter=model)
    _put(served, "model", _value(given[model]), model)
    for field in fields:
        if prefix + field in given:
            _put(served, field, _value(given[prefix + field]), prefix + field)
    return served


def _drafts(document: LocatedDict, given: dict[str, Any]) -> None:
    wanted = given.get("draft", ())
    wanted = [wanted] if isinstance(wanted, str) or dataclasses.is_dataclass(wanted) else list(wanted)
    entries = []
    for draft in wanted:
        name, acceptance = _split_draft(draft)
        entry = _served({**given, "draft": name}, "draft", ("precision", "tensor_parallel"), "draft_")
        own = acceptance if acceptance is not None else given.get("acceptance")
        if own is not None:
            _put(entry, "acceptance", _acceptance(own), "draft" if acceptance is not None else "acceptance")
        entries.append(entry)
    place = Place(parameter="draft")
    if not entries and "draft_cost_ratio" in given:
        entry = _document({})
        if "acceptance" in given:
            _put(entry, "acceptance", _acceptance(given["acceptance"]), "acceptance")
        entries.append(entry)
    if not entries:
        raise InputError(Fault("expected a draft model, or a measured draft_cost_ratio in its place.", place))
    document["drafts"] = LocatedList(entries, place, [place] * len(entries))
    document.places["drafts"] = place


def _split_draft(draft: Any) -> tuple[Any, str | None]:
    """``NAME:ACCEPTANCE`` in two; a colon inside a path is not a separator."""
    if isinstance(draft, str) and ":" in draft:
        name, _, acceptance = draft.rpartition(":") if "=" not in draft else draft.partition(":")
        return name, acceptance
    return draft, None


def _acceptance(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return str(value)
    return _value(value)


def _costs(document: LocatedDict, given: dict[str, Any], with_cards: bool) -> None:
    costs = _document({})
    for name in ("draft_cost_ratio", "verify_cost_ratio", "draft_operations_ratio", "repair", "overhead"):
        if name in given:
            _put(costs, name, _value(given[name]), name)
    if "plain_step_ms" in given:
        _plain_step(costs, given["plain_step_ms"])
    if costs or not with_cards:
        document["costs"] = costs


def _plain_step(costs: LocatedDict, given: Any) -> None:
    """``7.1``, or ``7.1@1,512`` with the batch and context at which it was measured."""
    time, at, point = str(given).partition("@")
    milliseconds, where = _value(time), [_value(part) for part in point.split(",")]
    numbers = [milliseconds, *where] if at else [milliseconds]
    known = all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers)
    if not known or not 0 < milliseconds < np.inf or len(where) != (2 if at else 1):
        expected = "a number of milliseconds above 0, as in 7.1, or 7.1@1,512 if measured at batch 1, context 512"
        raise InputError(Fault(f"expected {expected}, found {str(given)!r}.", Place(parameter="plain_step_ms")))
    _put(costs, "plain_step", f"{milliseconds!r} ms", "plain_step_ms")
    if at:
        point_at = _document({})
        for name, value in zip(("batch_size", "context_length"), where, strict=True):
            _put(point_at, name, value, "plain_step_ms")
        _put(costs, "plain_step_at", point_at, "plain_step_ms")


def catalog_list(kind: str | None = None) -> Table:
    """Name, title and aliases of the cards of one kind, or of every kind."""
    found = []
    for one in [kind] if kind is not None else list(RECORDS):
        for name in library.names(one):
            document = library.read_card(one, name)
            title = document.get("title", document.get("name", "") if one == "scenario" else "")
            found.append((one, name, title, ", ".join(document.get("aliases", ()))))
    columns = zip(("kind", "name", "title", "aliases"), zip(*found, strict=True), strict=True)
    return Table({name: np.array(values, dtype=object) for name, values in columns}, (len(found),))
