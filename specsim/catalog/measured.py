"""Measured set-ups in cards: names of a source to names of the catalogue, and what has to be taken for granted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from specsim.accuracy.possible import impossible
from specsim.accuracy.set_up import SetUp, Shape
from specsim.catalog import library
from specsim.catalog.cards import card
from specsim.cost.machine import Machine
from specsim.errors import Contradiction, nearest
from specsim.specs.acceptance import Independent
from specsim.specs.attention import GroupedAttention
from specsim.specs.drafter import (
    AnyDraft,
    DraftModel,
    Eagle3Draft,
    EagleDraft,
    LookaheadDraft,
    LookupDraft,
    MedusaDraft,
    MtpDraft,
    WindowDraft,
)
from specsim.specs.feed_forward import Mlp
from specsim.specs.hardware import Hardware
from specsim.specs.head import Eagle3Head, EagleHead, MedusaHeads, MtpModule
from specsim.specs.measurement import Measurement
from specsim.specs.model import Model
from specsim.specs.node import DEVICES_WITHOUT_A_NODE
from specsim.specs.precision import KV_BYTES, PRECISIONS, Precision
from specsim.specs.runtime import Runtime
from specsim.specs.served import ServedModel

MOST_OF_MEMORY = 0.97
"""Weights take no more of a device than that."""
CHAT_CONTEXT = 512
"""Tokens in the cache where a source names none: chat prompts with half an answer."""


class Refused(Exception):
    """That a row cannot be held against a prediction, and what is missing."""


@dataclass(frozen=True, eq=False)
class Mapped:
    """A measured set-up with what was taken for granted about it, by field."""

    set_up: SetUp
    assumed: tuple[str, ...]


class Names:
    """Names of a source to cards.

    Args:
        aliases: What the user says of names: a name of the catalogue or a file for each.
    """

    def __init__(self, aliases: Mapping[str, str] | None = None) -> None:
        self.aliases = {library.comparable(name): card for name, card in (aliases or {}).items()}

    def find(self, kind: str, name: str) -> str | None:
        """The catalogue name or file that stands behind a name, None if nothing does."""
        if (own := self.aliases.get(library.comparable(name))) is not None:
            return own
        return next((known for text in _spellings(name) if (known := library.known_name(kind, text))), None)

    def card(self, kind: str, name: str) -> Any:
        """The card behind a name.

        Raises:
            Refused: If there is none.
        """
        found = self.find(kind, name)
        if found is None:
            close = nearest(library.comparable(name), library.names(kind), list_all_up_to=0)
            raise Refused(f"no {library.SHELVES[kind].what} is known as {name!r}" + (f"; {close}" if close else ""))
        return _card(kind, found)


@lru_cache
def _card(kind: str, name: str) -> Any:
    return card(kind, name)


_VARIANTS = re.compile(
    r"-(instruct|chat|it|hf|base|v1\.[35]|v0\.[123]|\d+k|\d{4}|fp8|bf16|fp16|nvfp4|int4|int8|awq|gptq)$"
)
"""Endings of names that change neither shape nor speed, or that the number format says."""


def _spellings(name: str) -> list[str]:
    """A name as it stands, without what is in brackets or stands before a slash, and without endings of variants."""
    bare = re.sub(r"\s*\(.*?\)", "", name).strip()
    found = [name, bare, bare.rpartition("/")[2]]
    text = library.comparable(found[-1])
    for vendor in ("meta-", "jackfram-", "lmsys-", "google-", "nvidia-"):
        text = text.removeprefix(vendor)
    found.append(text)
    while (shorter := _VARIANTS.sub("", text)) != text:
        text = shorter
        found.append(text)
    return found


_FORMATS = {
    "bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16", "half": "fp16",
    "fp8": "fp8-w8a8", "int8": "int8-w8a16", "int4": "int4-w4a16-g128",
    "nvfp4": "nvfp4", "fp4": "nvfp4", "mxfp4": "mxfp4", "nf4": "int4-w4a16-g128",
}  # fmt: skip


def _precision(dtype: str, name: str, model: Model, hardware: Hardware, assumed: list[str]) -> Precision:
    sixteen = hardware.rate_of_16_bits or "bf16"
    text = library.comparable(dtype)
    quantised = re.search(r"q[4568]_[01k]", text.replace("-", "_"))
    if not text and name.lower().endswith("fp8"):
        text = "fp8"
    if text in PRECISIONS:
        found = PRECISIONS[text]
    elif quantised:
        found = PRECISIONS[quantised[0]]
    elif (known := _FORMATS.get(text.partition("-")[0])) is not None:
        found = PRECISIONS[known]
    elif text:
        raise Refused(f"no number format is known as {dtype!r}; {nearest(text, [*_FORMATS, *PRECISIONS])}")
    else:
        assumed.append("dtype")
        found = model.published_precision or PRECISIONS[sixteen]
        found = found if found.narrow else PRECISIONS[sixteen]
    if not found.narrow and hardware.dense_rate.of(found.rate) is None:
        found = PRECISIONS[sixteen]
    return found


def map_row(row: Measurement, names: Names) -> Mapped:
    """The set-up of a row.

    Raises:
        Refused: With what is missing.
    """
    assumed: list[str] = list(row.inferred)
    for field in ("hardware", "target"):
        if not getattr(row, field):
            raise Refused(field)
    hardware: Hardware = names.card("hardware", row.hardware)
    if library.comparable(row.hardware) in ("h100", "a100", "a100-80gb", "a100-40gb", "v100"):
        assumed.append("hardware variant")
    model: Model = names.card("model", row.target)
    machine = Machine(hardware, _runtime(row, names, assumed))
    if row.batch is None:
        raise Refused("batch")
    precision = _precision(row.dtype, row.target, model, hardware, assumed)
    target = _served(model, precision, row, hardware, assumed)
    context = float(CHAT_CONTEXT if row.context is None else row.context)
    if row.context is None:
        assumed.append("context")
    elif row.output:
        context += row.output / 2
    set_up = SetUp(machine, target, row.batch, context)
    if row.kind == "speculative" and row.method:
        draft = _draft(row, names, target, assumed)
        shape = _shape(row, draft, assumed)
        set_up = replace(set_up, draft=draft, shape=shape, tokens_per_round=_tokens_per_round(row, shape))
    if (contradiction := impossible(row, set_up)) is not None:
        raise Refused(contradiction)
    return Mapped(set_up, tuple(dict.fromkeys(assumed)))


def kernel_machine(row: Measurement, names: Names) -> tuple[Machine, ServedModel | None, Precision, str]:
    """What a table of kernels was measured on: machine, model if layers were measured, formats of weights and cache.

    Raises:
        Refused: With what is missing.
    """
    if not row.hardware:
        raise Refused("hardware")
    assumed: list[str] = []
    hardware: Hardware = names.card("hardware", row.hardware)
    machine = Machine(hardware, _runtime(row, names, assumed))
    model = names.card("model", row.target) if row.linear_layers_ms_by_tokens else None
    precision = PRECISIONS["fp8-w8a8" if row.dtype.startswith("fp8") else hardware.rate_of_16_bits or "bf16"]
    target = _served(model, precision, row, hardware, assumed) if model is not None else None
    return machine, target, precision, _cached(row, hardware)


def _cached(row: Measurement, hardware: Hardware) -> str:
    """Number format of the cache."""
    known = _FORMATS.get(row.kv_dtype.partition(" ")[0], "")
    return "fp8" if known.startswith("fp8") else known if known in KV_BYTES else (hardware.rate_of_16_bits or "bf16")


def _runtime(row: Measurement, names: Names, assumed: list[str]) -> Runtime:
    found = _named_runtime(row.engine, names)
    if found is None:
        assumed.append("engine")
    typical: Runtime = _card("runtime", "typical")
    return found or typical


def _named_runtime(engine: str, names: Names) -> Runtime | None:
    """The runtime whose name stands first in what a source says of the engine, None if there is none."""
    if engine and (own := names.aliases.get(library.comparable(engine))) is not None:
        named: Runtime = _card("runtime", own)
        return named
    found = []
    for name in library.names("runtime"):
        runtime: Runtime = _card("runtime", name)
        for alias in (runtime.name, *runtime.aliases):
            at = engine.lower().find(alias.lower())
            if at >= 0:
                found.append((at, -len(alias), name))
    first: Runtime | None = _card("runtime", min(found)[2]) if found else None
    return first


def unknown_engines(rows: Iterable[Measurement], names: Names) -> list[str]:
    """A remark for each engine that no runtime is known for."""
    engines = dict.fromkeys(row.engine for row in rows if row.engine and _named_runtime(row.engine, names) is None)
    return [
        f"no runtime is known as {engine!r}, so typical stands for it. {nearest(engine, library.names('runtime'))}"
        for engine in engines
    ]


def _served(
    model: Model, precision: Precision, row: Measurement, hardware: Hardware, assumed: list[str]
) -> ServedModel:
    kv = _cached(row, hardware)
    devices = row.tensor_parallel or row.accelerators
    if devices is None:
        assumed.append("accelerators")
    try:
        served = ServedModel(model=model, precision=precision, kv_precision=kv, tensor_parallel=devices or 1)
    except Contradiction as error:
        raise Refused(str(error).rstrip(".")) from None
    if served.devices > DEVICES_WITHOUT_A_NODE:
        raise Refused("how nodes are linked")
    if served.devices > 1 and hardware.interconnect is None and hardware.host_link is None:
        raise Refused("how accelerators are linked")
    if served.device_weight_bytes > MOST_OF_MEMORY * hardware.memory.capacity_bytes:
        raise Refused("accelerators" if devices is None else f"memory for the weights on {devices} x {hardware.name}")
    return served


def _tokens_per_round(row: Measurement, shape: Shape) -> float | None:
    if row.tau is not None:
        return row.tau + (0.0 if row.tau_includes_bonus else 1.0)
    if row.alpha is None or shape.is_tree:
        return None
    told = row.alpha_definition.lower()
    if "drafted" in told or "draft-token" in told:
        return 1 + row.alpha * shape.levels
    if row.alpha == 1:
        return shape.levels + 1.0
    return (1 - row.alpha ** (shape.levels + 1)) / (1 - row.alpha)


_DEFAULT_SHAPES = {
    "eagle": Shape(5, 8, 26),
    "eagle2": Shape(6, 10, 60),
    "hass": Shape(6, 10, 60),
    "eagle3": Shape(8, 10, 60),
    "medusa": Shape(1, 1, 64),
    "medusa1": Shape(1, 1, 64),
    "medusa2": Shape(1, 1, 64),
    "hydra": Shape(1, 1, 64),
    "rest": Shape(1, 1, 64),
    "token_recycling": Shape(1, 1, 80),
    "lookahead": Shape(4, 1, 121),
    "prompt_lookup": Shape(10, 1, 11),
    "ngram": Shape(5, 1, 6),
    "draft_model": Shape(5, 1, 6),
    "mtp": Shape(1, 1, 2),
}
"""What the published code of a method does where a table does not say."""

_DYNAMIC = (
    re.compile(r"(?P<levels>\d+)\s*/\s*(?P<width>\d+)\s*/\s*(?P<verified>\d+)"),
    re.compile(r"steps (?P<levels>\d+), top-k (?P<width>\d+), draft tokens (?P<verified>\d+)"),
    re.compile(r"(?P<levels>\d+) steps, top-k (?P<width>\d+), (?P<verified>\d+) draft tokens"),
)


def _shape(row: Measurement, draft: AnyDraft, assumed: list[str]) -> Shape:
    if row.draft_steps and row.verified_tokens:
        return Shape(row.draft_steps, row.draft_topk or 1, row.verified_tokens)
    for pattern in _DYNAMIC:
        if (found := pattern.search(row.tree)) is not None:
            return Shape(*(int(found[name]) for name in ("levels", "width", "verified")))
    if row.tree_size and row.tree_depth:
        return Shape(row.tree_depth, max(round(row.tree_size / row.tree_depth), 1), row.tree_size + 1)
    if row.gamma and (not row.tree or re.fullmatch(r"(\d+) steps, (\d+) verified tokens", row.tree)):
        return Shape(row.gamma, 1, row.gamma + 1)
    if (found := re.search(r"(\d+) draft tokens \(incl\. root\)", row.tree)) is not None:
        return Shape(int(found[1]) - 1, 1, int(found[1]))
    if row.gamma:
        raise Refused(f"the shape of the tree {row.tree!r}: expected draft_steps, draft_topk and verified_tokens")
    if (default := _DEFAULT_SHAPES.get(row.method)) is not None:
        assumed.append("draft shape")
        return default
    raise Refused("draft_shape")


def _draft(row: Measurement, names: Names, target: ServedModel, assumed: list[str]) -> AnyDraft:
    acceptance = Independent(rate=0.5)
    model, method = target.model, row.method
    layout: Any = {
        "kv_precision": target.kv_precision, "tensor_parallel": target.tensor_parallel, "acceptance": acceptance,
    }  # fmt: skip
    sixteen = PRECISIONS["fp16" if target.precision.rate == "fp16" else "bf16"]
    if method in ("draft_model", "draft_model_sparse_kv", "sequoia_tree", "specinfer_tree"):
        if not row.draft:
            raise Refused("draft")
        small: Model = names.card("model", row.draft)
        shards = min(layout["tensor_parallel"], _most_shards(small))
        precision = PRECISIONS["int4-w4a16-g128"] if "int4" in row.draft else sixteen
        return DraftModel(
            model=small,
            **{**layout, "tensor_parallel": shards},
            precision=precision,
            window=row.draft_kv_budget if method.endswith("sparse_kv") else None,
        )
    if method == "self_speculation_sparse_kv":
        return WindowDraft(acceptance=acceptance, window=row.draft_kv_budget or 512)
    if method in ("eagle", "eagle2", "hass", "eagle_frspec"):
        head = _head(names, "eagle", model, assumed) or _like_eagle(model)
        return EagleDraft(head=head, precision=sixteen, **layout)
    if method in ("eagle3", "p_eagle"):
        head = _head(names, "eagle3", model, assumed) or _like_eagle3(model)
        return Eagle3Draft(head=head, precision=sixteen, passes="one" if method == "p_eagle" else "chain", **layout)
    if method == "mtp":
        head = _head(names, "mtp", model, assumed) or MtpModule(
            name=f"module of {model.name}", target=model.name, hidden_size=model.hidden_size,
            vocab_size=model.vocab_size, attention=model.attention,
            experts=replace(model.experts, first_dense_layers=0, every=1) if model.experts is not None else None,
            mlp=None if model.experts is not None else model.mlp,
        )  # fmt: skip
        return MtpDraft(head=head, precision=target.precision, **layout)
    if method in ("medusa", "medusa1", "medusa2", "hydra"):
        head = _head(names, "medusa", model, assumed) or MedusaHeads(
            name=f"heads of {model.name}", target=model.name, hidden_size=model.hidden_size,
            vocab_size=model.vocab_size, heads=4,
        )  # fmt: skip
        return MedusaDraft(head=head, precision=sixteen, **layout)
    if method in ("prompt_lookup", "ngram", "rest", "token_recycling", "suffix"):
        return LookupDraft(acceptance=acceptance, name=method)
    if method == "lookahead":
        return LookaheadDraft(acceptance=acceptance, window=15, guesses=15)
    raise Refused(f"the cost of the method {method}")


def _most_shards(model: Model) -> int:
    return next(n for n in (8, 4, 2, 1) if model.attention.heads % n == 0)


def _head(names: Names, method: str, model: Model, assumed: list[str]) -> Any:
    """The published head of a method for a target, None if the catalogue has none."""
    for name in library.names("head"):
        found = _card("head", name)
        if found.method == method and names.find("model", found.target) == model.name:
            return found
    assumed.append("draft head")
    return None


def _like_eagle(model: Model) -> EagleHead:
    return EagleHead(
        name=f"eagle head of {model.name}", target=model.name, hidden_size=model.hidden_size,
        vocab_size=model.vocab_size, attention=_grouped(model), mlp=_mlp(model),
    )  # fmt: skip


def _like_eagle3(model: Model) -> Eagle3Head:
    return Eagle3Head(
        name=f"eagle3 head of {model.name}", target=model.name, hidden_size=model.hidden_size,
        target_hidden_size=model.hidden_size, vocab_size=model.vocab_size,
        draft_vocab_size=min(32_000, model.vocab_size), attention=_grouped(model), mlp=_mlp(model),
    )  # fmt: skip


def _grouped(model: Model) -> GroupedAttention:
    attention = model.attention
    if isinstance(attention, GroupedAttention):
        return attention
    heads = max(model.hidden_size // 128, 1)
    return GroupedAttention(heads=heads, kv_heads=max(heads // 4, 1), head_dim=128)


def _mlp(model: Model) -> Mlp:
    return model.mlp or Mlp(intermediate_size=4 * model.hidden_size)
