"""A Llama-type model from a local folder in Hugging Face's layout: config.json, safetensors, tokenizer.json."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from specsim.catalog.gguf_file import layer_of
from specsim.catalog.tokenizing import BytePairs, chat_system, library
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.reference.transformer import Array, Transformer, rotary_frequencies

TYPES = ("llama", "mistral", "smollm")
"""Model types whose layers are those of Llama."""


def read_folder(folder: Path) -> tuple[str, Transformer, BytePairs, frozenset[int]]:
    """The title of a model, its weights, its tokenizer, and the tokens that end a text.

    Raises:
        InputError: If a file is missing, or the model is of another type.
    """
    config = _json(folder / "config.json")
    place = Place(str(folder / "config.json"))
    kind = config.get("model_type")
    if kind not in TYPES:
        raise InputError(Fault(f"expected a Llama-type model, found {shown(kind)}. {nearest(kind, TYPES)}", place))
    if config.get("attention_bias") or config.get("mlp_bias"):
        raise InputError(Fault("projections with biases are not known here.", place))
    if config.get("hidden_act", "silu") != "silu":
        raise InputError(Fault(f"expected the activation silu, found {shown(config['hidden_act'])}.", place))
    tensors = _tensors(folder)

    def matrix(name: str) -> Array:
        if name not in tensors:
            raise InputError(Fault(f"the tensor {name} is missing.", Place(str(folder))))
        return tensors.pop(name)

    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        number_of_layers, epsilon = int(config["num_hidden_layers"]), float(config["rms_norm_eps"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(Fault(f"a field is missing or no number: {error}.", place)) from None
    layers = []
    for number in range(number_of_layers):
        start = f"model.layers.{number}."
        qkv = [matrix(f"{start}self_attn.{part}_proj.weight") for part in "qkv"]
        out = matrix(f"{start}self_attn.o_proj.weight")
        gate, up, down = (matrix(f"{start}mlp.{part}_proj.weight") for part in ("gate", "up", "down"))
        norms = [matrix(f"{start}{part}_layernorm.weight") for part in ("input", "post_attention")]
        layers.append(layer_of(norms[0], qkv, out, norms[1], gate, up, down))
    embedding = matrix("model.embed_tokens.weight")
    tied = bool(config.get("tie_word_embeddings", False))
    head = np.ascontiguousarray((embedding if tied else matrix("lm_head.weight")).T)
    model = Transformer(
        embedding=head.T if tied else embedding,
        layers=tuple(layers),
        norm=matrix("model.norm.weight"),
        head=head,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads", heads)),
        frequencies=_frequencies(config, int(config.get("head_dim") or hidden // heads), place),
        epsilon=epsilon,
        tied=tied,
    )
    return folder.name, model, _tokens(folder), _ends(folder, config)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror}.", Place(str(path)))) from None
    except ValueError as error:
        raise InputError(Fault(f"not valid JSON: {error}.", Place(str(path)))) from None
    if not isinstance(found, dict):
        raise InputError(Fault("expected a mapping.", Place(str(path))))
    return found


def _tensors(folder: Path) -> dict[str, Array]:
    safetensors = library("safetensors", "safetensors")
    found: dict[str, Array] = {}
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(Fault("holds no file *.safetensors.", Place(str(folder))))
    for file in files:
        try:
            entries = safetensors.deserialize(file.read_bytes())
        except (OSError, safetensors.SafetensorError) as error:
            raise InputError(Fault(f"cannot be read as safetensors: {error}.", Place(str(file)))) from None
        for name, entry in entries:
            found[name] = _widened(entry, file)
    return found


def _widened(entry: dict[str, Any], file: Path) -> Array:
    kinds = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "F64": np.float64}
    if entry["dtype"] not in kinds:
        raise InputError(Fault(f"weights of type {entry['dtype']} are not known here.", Place(str(file))))
    values = np.frombuffer(entry["data"], dtype=kinds[entry["dtype"]]).reshape(entry["shape"])
    if entry["dtype"] == "BF16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def _frequencies(config: dict[str, Any], size: int, place: Place) -> Array:
    """Angles by position; those of Llama 3.1 are stretched where a turn takes longer than the context it learned."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    base = float(config.get("rope_theta") or scaling.get("rope_theta") or 10000.0)
    plain = rotary_frequencies(size, base)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return plain
    if kind != "llama3":
        raise InputError(Fault(f"expected rope_scaling of type llama3 or none, found {shown(kind)}.", place))
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    turns = float(scaling["original_max_position_embeddings"]) * plain / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return plain * (share + (1 - share) / float(scaling["factor"]))


def _tokens(folder: Path) -> BytePairs:
    tokenizers = library("tokenizers", "safetensors")
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InputError(Fault("holds no tokenizer.json.", Place(str(folder))))
    beside = folder / "tokenizer_config.json"
    template = _json(beside).get("chat_template") if beside.is_file() else None
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(Fault(f"cannot be read as a tokenizer: {error}.", Place(str(path)))) from None
    return BytePairs(tokenizer, chat_system(template if isinstance(template, str) else None))


def _ends(folder: Path, config: dict[str, Any]) -> frozenset[int]:
    beside = folder / "generation_config.json"
    found = (_json(beside) if beside.is_file() else {}).get("eos_token_id", config.get("eos_token_id"))
    tokens = found if isinstance(found, list) else [] if found is None else [found]
    return frozenset(map(int, tokens))
