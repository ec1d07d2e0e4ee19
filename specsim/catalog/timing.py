"""A question of ``measure --timing``, and the memory of this machine."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specsim.catalog.given import Given
from specsim.catalog.language_models import LanguageModel, language_model
from specsim.specs.fields import axis, whole

_MOST_BATCH, _MOST_WIDTH, _MOST_CONTEXT = 256, 4096, 32_768


@dataclass(frozen=True, eq=False)
class TimingQuestion:
    """A question of ``measure --timing`` that can be answered.

    Attributes:
        model: Whose passes are timed.
        batch_size: Sequences of a pass.
        width: New tokens of each sequence.
        context_length: Tokens in the cache of each.
        repeats: How often each pass is timed.
        seed: Of the order.
    """

    model: LanguageModel
    batch_size: tuple[int, ...]
    width: tuple[int, ...]
    context_length: tuple[int, ...]
    repeats: int
    seed: int


def ask_timing(**given: Any) -> TimingQuestion:
    """The question that the options pose; what is None takes its default.

    Raises:
        InputError: With one fault for each option that is wrong.
    """
    asked = Given(given)
    read = asked.read

    batch = read("batch_size", axis(1, _MOST_BATCH), (1,))
    width = read("width", axis(1, _MOST_WIDTH), (1, 2, 4, 8, 16, 32))
    context = read("context_length", axis(0, _MOST_CONTEXT), (64, 512))
    repeats = read("repeats", whole(1, 10_000), 9)
    seed = read("seed", whole(0, 2**63 - 1), 0)
    model = read("model", lambda name: language_model(str(name)), None)
    asked.check()
    return TimingQuestion(model or language_model("toy"), batch, width, context, repeats, seed)


def memory_bytes() -> float:
    """Memory of this machine [bytes]; 8 GB where the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return 8e9


def processor() -> str:
    """What the processor is called, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine() or "this machine"
