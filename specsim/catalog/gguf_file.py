"""A Llama-type model from a GGUF file, its weights widened to 32 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from specsim.catalog.tokenizing import BytePairs, from_gguf, library
from specsim.errors import Fault, InputError, Place, shown
from specsim.reference.transformer import Array, Layer, Transformer, rotary_frequencies


class Fields(dict[str, Any]):
    """Metadata of a file; what is missing is a fault of that file."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise InputError(Fault(f"the field {name} is missing.", Place(str(self.path))))


def read_gguf(path: Path) -> tuple[str, Transformer, BytePairs, frozenset[int]]:
    """The title of a model, its weights, its tokenizer, and the tokens that end a text.

    Raises:
        InputError: If the file is no GGUF file, or holds a model of another type.
    """
    gguf = library("gguf", "gguf")
    try:
        reader = gguf.GGUFReader(str(path))
        fields = Fields(path, {name: field.contents() for name, field in reader.fields.items()})
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise InputError(Fault(f"cannot be read as GGUF: {error}.", Place(str(path)))) from None
    architecture = fields.get("general.architecture")
    if architecture != "llama":
        raise InputError(Fault(f"expected a Llama-type model, found {shown(architecture)}.", Place(str(path))))
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def matrix(name: str) -> Array:
        """Shape (out, in)."""
        if name not in tensors:
            raise InputError(Fault(f"the tensor {name} is missing.", Place(str(path))))
        return gguf.dequantize(tensors[name].data, tensors[name].tensor_type).astype(np.float32)

    odd = sorted(name for name in tensors if name.endswith(".bias") or name == "rope_freqs.weight")
    if odd:
        raise InputError(Fault(f"tensors of a kind that is not known, such as {odd[0]}.", Place(str(path))))
    heads = int(fields["llama.attention.head_count"])
    kv_heads = int(fields.get("llama.attention.head_count_kv", heads))
    size = int(fields.get("llama.rope.dimension_count", fields["llama.embedding_length"] // heads))
    layers = []
    for number in range(int(fields["llama.block_count"])):
        query, key, value, out = (matrix(f"blk.{number}.attn_{part}.weight") for part in ("q", "k", "v", "output"))
        gate, up, down = (matrix(f"blk.{number}.ffn_{part}.weight") for part in ("gate", "up", "down"))
        norms = [matrix(f"blk.{number}.{part}_norm.weight") for part in ("attn", "ffn")]
        qkv = [halves(query, heads), halves(key, kv_heads), value]
        layers.append(layer_of(norms[0], qkv, out, norms[1], gate, up, down))
    embedding = matrix("token_embd.weight")
    tied = "output.weight" not in tensors
    head = np.ascontiguousarray((embedding if tied else matrix("output.weight")).T)
    model = Transformer(
        embedding=head.T if tied else embedding,
        layers=tuple(layers),
        norm=matrix("output_norm.weight"),
        head=head,
        heads=heads,
        kv_heads=kv_heads,
        frequencies=rotary_frequencies(size, float(fields.get("llama.rope.freq_base", 10000.0))),
        epsilon=float(fields["llama.attention.layer_norm_rms_epsilon"]),
        tied=tied,
    )
    return str(fields.get("general.name", path.stem)), model, from_gguf(fields, path), _ends(fields)


def _ends(fields: dict[str, Any]) -> frozenset[int]:
    names = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    return frozenset(int(fields[name]) for name in names if name in fields)


def halves(matrix: Array, heads: int) -> Array:
    """Rows of adjacent rotary pairs (2 i, 2 i + 1), as GGUF has them, to pairs of halves (i, i + D / 2)."""
    rows = matrix.reshape(heads, -1, 2, matrix.shape[1])
    return rows.transpose(0, 2, 1, 3).reshape(matrix.shape)


def layer_of(
    attention_norm: Array, qkv: list[Array], out: Array, feed_forward_norm: Array, gate: Array, up: Array, down: Array
) -> Layer:
    """A layer from matrices as files have them, shape (out, in)."""
    return Layer(
        attention_norm=attention_norm,
        qkv=np.ascontiguousarray(np.concatenate(qkv).T),
        out=np.ascontiguousarray(out.T),
        feed_forward_norm=feed_forward_norm,
        gate_up=np.ascontiguousarray(np.concatenate([gate, up]).T),
        down=np.ascontiguousarray(down.T),
    )
