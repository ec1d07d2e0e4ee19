"""Passes of the engine on this machine: how long they take, and cards from which others are predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specsim.accuracy.this_machine import DraftedRun, Measurements, cards_of, pass_seconds, predicted_speedup
from specsim.catalog.calibration import runtime_card
from specsim.catalog.dump import document_of
from specsim.catalog.language_models import LanguageModel
from specsim.catalog.prompts import read_prompts
from specsim.catalog.strict_yaml import write_yaml
from specsim.catalog.timing import TimingQuestion, memory_bytes, processor
from specsim.cost.machine import Machine
from specsim.engine.clock import chosen_clock
from specsim.errors import Place
from specsim.reference.decoding import Decoded, Request, decode
from specsim.reference.drafters import Drafter
from specsim.reference.lookup import PromptLookup
from specsim.reference.model_drafter import ModelDrafter
from specsim.reference.sampling import RandomChance, Sampling
from specsim.reference.timing import (
    SQUARE,
    Point,
    attention_task,
    pass_task,
    products_task,
    square_task,
    time_in_turn,
)
from specsim.reference.trees import chain
from specsim.reference.variants import first_layers
from specsim.report.table import Table
from specsim.specs.precision import PRECISIONS
from specsim.specs.runtime import Runtime
from specsim.specs.served import ServedModel

Progress = Callable[[int], None] | None

FITTED = ((1, 64), (4, 64), (16, 64))
PREDICTED = ((2, 512), (8, 512), (32, 512))
"""Tokens and context of the passes that cards are fitted to, and of those that are predicted from them."""

ATTENTION_CONTEXT = 1024
REPEATS = 15
LOOKUP_GAMMA, LAYERS_GAMMA = 7, 2
TURNS = 6
"""How often plain decoding and the two drafters are timed in turn: often and shortly, since machines drift."""

PROMPT = "edit-ferry"
"""A text that is mostly copied, so that the lookup has something to find."""


def timing_table(question: TimingQuestion, progress: Progress = None) -> Table:
    """Medians and quartiles of every pass, and what they are beside one of one token and beside plain products."""
    model, (clock, told_clock) = question.model.transformer, chosen_clock()
    points = [
        Point(batch, width, context)
        for batch in question.batch_size
        for context in question.context_length
        for width in question.width
    ]
    tasks = [*(pass_task(model, point) for point in points), products_task(model)]
    generator = np.random.default_rng(question.seed)
    seconds = time_in_turn(tasks, question.repeats, clock, generator, progress)
    low, median, high = np.quantile(seconds, (0.25, 0.5, 0.75), axis=1)
    single = {(p.batch, p.context): median[i] for i, p in enumerate(points) if p.tokens == 1}
    columns = {
        "batch_size": np.array([p.batch for p in points]),
        "context_length": np.array([p.context for p in points]),
        "width": np.array([p.tokens for p in points]),
        "median_ms": median[:-1] * 1e3,
        "low_ms": low[:-1] * 1e3,
        "high_ms": high[:-1] * 1e3,
        "ratio_to_single": np.array(
            [median[i] / single.get((p.batch, p.context), np.nan) for i, p in enumerate(points)]
        ),
        "ratio_to_products": median[:-1] / median[-1],
    }
    assumed = (
        f"{question.repeats} turns, each in a new order; low and high are quartiles",
        "ratio_to_products is to numpy.dot of one row with every matrix, timed in the same turns",
        told_clock,
    )
    return Table(columns, (len(points),), assumed)


def timing_runs(question: TimingQuestion) -> int:
    """How many passes are timed."""
    points = len(question.batch_size) * len(question.width) * len(question.context_length)
    return (points + 1) * question.repeats


@dataclass(frozen=True, eq=False)
class ThisMachine:
    """Cards of this machine, and what they predict beside what was measured.

    Attributes:
        table: A row for each figure.
        hardware: The hardware card as YAML.
        runtime: The runtime card.
        model: The card of the model that was timed.
        machine: The cards as records.
    """

    table: Table
    hardware: str
    runtime: str
    model: str
    machine: Machine


def this_machine(model: LanguageModel, name: str, repeats: int = REPEATS, progress: Progress = None) -> ThisMachine:
    """Time this machine, make cards of it, and hold what they predict against what the same process measured.

    Args:
        model: What runs.
        name: What the cards are called.
        repeats: Turns of the passes.
        progress: Is told of every pass and of every text.
    """
    transformer, (clock, told_clock) = model.transformer, chosen_clock()
    target = ServedModel(model=model.card, precision=PRECISIONS["fp32"], kv_precision="fp32")
    layers = max(round(len(transformer.layers) * 5 / 6), 1)
    part = first_layers(transformer, layers)
    points = [Point(1, tokens, context) for tokens, context in (*FITTED, (1, PREDICTED[0][1]), *PREDICTED)]
    tasks = [
        *(pass_task(transformer, point) for point in points),
        pass_task(part, Point(1, 1, PREDICTED[0][1])),
        products_task(transformer),
        attention_task(transformer, ATTENTION_CONTEXT),
        square_task(transformer.head.dtype),
    ]
    generator = np.random.default_rng(0)
    seconds = time_in_turn(tasks, repeats, clock, generator, progress)
    median = [float(value) for value in np.median(seconds, axis=1)]
    drafting, products, attending, square = median[len(points) :]
    read = 2 * transformer.kv_heads * transformer.head_size * transformer.head.itemsize * len(transformer.layers)
    machine = cards_of(
        Measurements(
            bytes_per_second=transformer.weight_bytes / products,
            attention_bytes_per_second=read * ATTENTION_CONTEXT / attending,
            operations_per_second=2 * SQUARE**3 / square,
            memory_bytes=memory_bytes(),
            context=FITTED[0][1],
            pass_seconds={tokens: median[i] for i, (tokens, _) in enumerate(FITTED)},
        ),
        target,
        processor(),
    )
    rows = _passes(points, median, target, machine)
    plain = pass_seconds(target, machine, 1, PREDICTED[0][1])
    drafted = pass_seconds(replace(target, model=replace(target.model, layers=layers)), machine, 1, PREDICTED[0][1])
    single = median[len(FITTED)]
    rows.append(_row("draft_cost_ratio", f"layers:{layers}", 1, PREDICTED[0][1], drafted / plain, drafting / single))
    rows += _speedups(model, target, machine, layers, clock, progress)
    columns: dict[str, Any] = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    columns |= {key: columns[key].astype(object) for key in ("quantity", "draft", "use")}
    worst = max((row for row in rows if row["use"] == "predicted"), key=lambda row: abs(np.log1p(row["error"])))
    assumed = (
        f"{processor()}; medians of {repeats} turns, each in a new order",
        f"cards fitted to passes of {', '.join(str(tokens) for tokens, _ in FITTED)} tokens at context {FITTED[0][1]}",
        f"speedups are predicted from the tokens per round that were measured; measured ones are medians of {TURNS} "
        "turns of plain decoding and both drafters on one text",
        told_clock,
        f"the worst of these predictions, of {worst['quantity']}, is {1 + worst['error']:.3g} times what was measured"
        + ("" if abs(np.log1p(worst["error"])) < _FAR else "; of so small a model the interpreter is most of a pass"),
    )
    found = replace(machine, hardware=replace(machine.hardware, name=name), runtime=replace(machine.runtime, name=name))
    return ThisMachine(
        Table(columns, (len(rows),), assumed),
        _hardware_card(found),
        _runtime_card(found, name),
        _card(replace(model.card, name=f"{name}-model", sources={"all": f"the weights of {model.title}"})),
        machine,
    )


_FAR = float(np.log(1.5))
"""Predictions that are farther off do not stand."""


def machine_steps(repeats: int = REPEATS) -> int:
    """Passes and texts that ``this_machine`` tells of."""
    return (len(FITTED) + len(PREDICTED) + 5) * repeats + 3 * TURNS


def _row(quantity: str, draft: str, width: int, context: int, predicted: float, measured: float) -> dict[str, Any]:
    return {
        "quantity": quantity,
        "draft": draft,
        "width": width,
        "context_length": context,
        "predicted": predicted,
        "measured": measured,
        "error": predicted / measured - 1,
        "use": "predicted",
    }


def _passes(
    points: Sequence[Point], median: Sequence[float], target: ServedModel, machine: Machine
) -> list[dict[str, Any]]:
    """Times of passes, and their ratios to the plain step at the same context."""
    rows = []
    for point, seconds in zip(points, median, strict=False):
        predicted = pass_seconds(target, machine, point.tokens, point.context)
        row = _row("pass_ms", "", point.tokens, point.context, predicted * 1e3, seconds * 1e3)
        rows.append(row | {"use": "fitted" if (point.tokens, point.context) in FITTED else "predicted"})
    single = {point.context: i for i, point in enumerate(points) if point.tokens == 1}
    for i, point in enumerate(points):
        if (point.tokens, point.context) in PREDICTED:
            plain = pass_seconds(target, machine, 1, point.context)
            ratio = pass_seconds(target, machine, point.tokens, point.context) / plain
            measured = median[i] / median[single[point.context]]
            rows.append(_row("verify_cost_ratio", "", point.tokens, point.context, ratio, measured))
    return rows


def _speedups(
    model: LanguageModel,
    target: ServedModel,
    machine: Machine,
    layers: int,
    clock: Callable[[], float],
    progress: Progress,
) -> list[dict[str, Any]]:
    """Speedups of a lookup and of the first layers on one text: predicted from acceptance and cards, and measured."""
    sampling, transformer = Sampling(), model.transformer
    prompt = next(p for p in read_prompts(None, Place()) if p.name == PROMPT)
    tokens = tuple(model.tokens.of_prompt(prompt.text))
    part = first_layers(transformer, layers)
    ways: dict[str, tuple[Callable[[], Drafter | None], int, int]] = {
        "": (lambda: None, 0, 24),
        "lookup:3..1": (PromptLookup, LOOKUP_GAMMA, 60),
        f"layers:{layers}": (lambda: ModelDrafter(part, sampling), LAYERS_GAMMA, 24),
    }
    found: dict[str, list[Decoded]] = {label: [] for label in ways}
    for _ in range(TURNS):
        for label, (drafter, gamma, limit) in ways.items():
            chance = RandomChance(np.random.default_rng(0))
            request = Request(tokens, limit, chance, drafter(), chain(gamma))
            found[label] += decode(transformer, [request], sampling, end=model.end, clock=clock)
            if progress is not None:
                progress(1)
    rows = []
    for label, (_, gamma, _) in list(ways.items())[1:]:
        run = _drafted(found[label][0], gamma, len(tokens), None if label.startswith("lookup") else layers)
        predicted = predicted_speedup(run, target, machine)
        measured = _per_token(found[""]) / _per_token(found[label])
        rows.append(_row("speedup", label, gamma + 1, run.context, predicted, measured))
    return rows


def _per_token(turns: Sequence[Decoded]) -> float:
    """Time of a token: of each round the median over turns, in all of which it is the same round [s]."""
    seconds = [[r.proposal_seconds + r.verification_seconds + r.repair_seconds for r in one.rounds] for one in turns]
    return float(np.median(seconds, axis=0).sum()) / len(turns[0].output)


def _drafted(one: Decoded, gamma: int, prompt: int, layers: int | None) -> DraftedRun:
    hits = [r for r in one.rounds if r.drafted > 0]
    return DraftedRun(
        gamma=gamma,
        tokens_per_round=sum(r.emitted for r in hits) / len(hits) if hits else 1.0,
        hit_rate=len(hits) / len(one.rounds),
        host_seconds=0.0 if layers is not None else float(np.mean([r.proposal_seconds for r in one.rounds])),
        layers=layers,
        context=prompt + len(one.output) // 2,
    )


def _hardware_card(machine: Machine) -> str:
    told = "measured by specsim calibrate --this-machine"
    hardware = replace(
        machine.hardware,
        sources={"memory": told, "dense_rate": told, "kernels": told},
        notes="What numpy reaches, and not what a datasheet says: efficiencies are beside that.",
    )
    document = document_of(hardware)
    document["kernels"] = {key: value for key, value in document["kernels"].items() if key in _OF_KERNELS}
    return write_yaml(_without_empty(document))


_OF_KERNELS = (
    "memory_efficiency", "attention_memory_efficiency", "compute_efficiency", "several_rows_efficiency",
)  # fmt: skip


def _runtime_card(machine: Machine, name: str) -> str:
    told = "fitted to passes of the engine by specsim calibrate --this-machine"
    constants = {
        "layer_overhead_seconds": machine.runtime.layer_overhead_seconds,
        "token_overhead_seconds": machine.runtime.token_overhead_seconds,
    }
    base = Runtime(name=name, title=machine.runtime.title)
    return runtime_card(base, constants, name, {"layer_overhead": told, "token_overhead": told}, {})


def _card(record: Any) -> str:
    return write_yaml(_without_empty(document_of(record)))


def _without_empty(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value not in ("", [], {}, None)}
