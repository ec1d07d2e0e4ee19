"""Cards for the machine that the reference engine runs on, from the times of a few of its passes.

The hardware card says what numpy reaches by itself: products of one row with every matrix (bandwidth), attention of one
token over a long cache, and a product of two square matrices (arithmetic). The runtime card says what the engine adds:
a fixed cost of each layer, from a pass of one token, and a cost of every further token, from the widest pass; the pass
in between says how much of the bandwidth is left for products of several rows. Nothing else is fitted, and what is
predicted from the cards was not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from specsim.cost.machine import Machine
from specsim.cost.passes import Pass
from specsim.cost.roofline import pass_time
from specsim.planning.question import Axes, Question
from specsim.planning.rounds import plan
from specsim.specs.acceptance import Length
from specsim.specs.drafter import LayersDraft, LookupDraft
from specsim.specs.hardware import DenseRates, Hardware, Kernels, Memory
from specsim.specs.runtime import Runtime
from specsim.specs.served import ServedModel

STEPS = 60
"""Steps towards constants that give the measured times; each takes the error down by much more than half."""


@dataclass(frozen=True)
class Measurements:
    """What was measured of a machine; medians.

    Attributes:
        bytes_per_second: Weights that plain products of one row read [bytes/s].
        attention_bytes_per_second: Keys and values that attention of one token reads [bytes/s].
        operations_per_second: Arithmetic of a product of square matrices [operations/s].
        memory_bytes: Memory of the machine [bytes].
        context: Tokens in the cache of the passes.
        pass_seconds: Time of a pass by its new tokens, one of them 1 [s].
    """

    bytes_per_second: float
    attention_bytes_per_second: float
    operations_per_second: float
    memory_bytes: float
    context: int
    pass_seconds: Mapping[int, float]


def pass_seconds(target: ServedModel, machine: Machine, tokens: int, context: int, sequences: int = 1) -> float:
    """Predicted time of one pass of the engine [s]."""
    count, new, before = (np.asarray(float(value)) for value in (sequences, tokens, context))
    return float(pass_time(Pass(target, count, new, before), machine).seconds)


def cards_of(measured: Measurements, target: ServedModel, title: str) -> Machine:
    """The machine in cards that give the measured passes back.

    Args:
        measured: Passes of one token, of the most, and of a number in between.
        target: The model that ran.
        title: What the machine is called.
    """
    few, middle, most = (sorted(measured.pass_seconds)[place] for place in (0, 1, -1))
    kernels = Kernels(
        name="this-machine",
        memory_efficiency=1.0,
        attention_memory_efficiency=min(measured.attention_bytes_per_second / measured.bytes_per_second, 1.0),
        compute_efficiency=1.0,
    )
    hardware = Hardware(
        name="this-machine",
        title=title,
        memory=Memory(capacity_bytes=measured.memory_bytes, bandwidth_bytes_per_second=measured.bytes_per_second),
        dense_rate=DenseRates(fp32_operations_per_second=measured.operations_per_second),
        kernels=kernels,
    )
    machine = Machine(hardware, Runtime(name="this-machine", title="the reference engine in numpy"))
    layers = target.model.layers
    for _ in range(STEPS):
        runtime, kernels = machine.runtime, machine.hardware.kernels
        of_one, of_some, of_many = (
            measured.pass_seconds[tokens] - pass_seconds(target, machine, tokens, measured.context)
            for tokens in (few, middle, most)
        )
        # Weights that are read by a product of several rows; what is missing there is a share of the bandwidth.
        read = target.device_weight_bytes / measured.bytes_per_second
        of_rows = read / kernels.several_rows_efficiency + (of_some - of_one) / 2
        token = runtime.token_overhead_seconds + (of_many - of_some) / (most - middle) / 2
        machine = Machine(
            replace(
                machine.hardware,
                kernels=replace(kernels, several_rows_efficiency=float(np.clip(read / max(of_rows, read), 0.05, 1.0))),
            ),
            replace(
                runtime,
                layer_overhead_seconds=max(runtime.layer_overhead_seconds + of_one / layers / 2, 0.0),
                token_overhead_seconds=max(token, 0.0),
            ),
        )
    return machine


@dataclass(frozen=True)
class DraftedRun:
    """What a drafter did on this machine, for a prediction of its speedup.

    Attributes:
        gamma: Draft length.
        tokens_per_round: Of rounds with a draft.
        hit_rate: Share of the rounds that had one.
        host_seconds: Time of a drafter that runs no model, per round [s].
        layers: Layers of the target that draft, None for a lookup.
        context: Tokens in the cache, on average.
    """

    gamma: int
    tokens_per_round: float
    hit_rate: float
    host_seconds: float
    layers: int | None
    context: int


def predicted_speedup(run: DraftedRun, target: ServedModel, machine: Machine) -> float:
    """What the planner expects of such a drafter: speedup over plain decoding."""
    acceptance = Length(tokens_per_round=min(run.tokens_per_round, run.gamma + 1), gamma=run.gamma)
    draft = (
        LookupDraft(acceptance=acceptance, hit_rate=run.hit_rate, host_time_seconds=run.host_seconds)
        if run.layers is None
        else LayersDraft(acceptance=acceptance, layers=run.layers)
    )
    rounds = plan(Question(machine=machine, target=target, draft=draft), Axes.of([1], [run.context], [run.gamma]))
    return float(rounds.speedup.reshape(-1)[0])
