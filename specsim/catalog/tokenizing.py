"""Text to tokens and back: characters for toys, byte pairs by the ``tokenizers`` library for trained models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.reference.toys import ALPHABET


class Tokens(Protocol):
    """What text is for a model."""

    def of_prompt(self, text: str) -> list[int]:
        """The tokens of a user's turn, ready to be answered."""

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text."""


@dataclass(frozen=True)
class Characters:
    """One token for each character of the toy's alphabet; others become spaces."""

    vocabulary: int

    def of_prompt(self, text: str) -> list[int]:
        """The characters of a text, small letters for capital ones."""
        blank = ALPHABET.index(" ")
        found = [ALPHABET.index(c) if c in ALPHABET else blank for c in text.lower()]
        return [token % self.vocabulary for token in found] or [blank % self.vocabulary]

    def text(self, tokens: Sequence[int]) -> str:
        """The characters."""
        return "".join(ALPHABET[token] for token in tokens)


@dataclass(frozen=True, eq=False)
class BytePairs:
    """A tokenizer of the ``tokenizers`` library, and how a chat is written.

    Attributes:
        tokenizer: The library's object.
        system: The default system message of a chat in ``<|im_start|>`` form; None if the model has no such form, and
            prompts are continued as they are.
    """

    tokenizer: Any
    system: str | None

    def of_prompt(self, text: str) -> list[int]:
        """The tokens of a user's turn, ready to be answered."""
        if self.system is None:
            return list(self.tokenizer.encode(text).ids)
        turns = ([("system", self.system)] if self.system else []) + [("user", text)]
        written = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns)
        return list(self.tokenizer.encode(written + "<|im_start|>assistant\n", add_special_tokens=False).ids)

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text, control tokens included."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False))


def chat_system(template: str | None) -> str | None:
    """The default system message of a chat template, "" if it has none, None if the template is of another form."""
    if not template or "<|im_start|>" not in template:
        return None
    default = template.partition("<|im_start|>system\\n")[2] or template.partition("<|im_start|>system\n")[2]
    message = default.partition("<|im_end|>")[0]
    return "" if "{" in message or "'" in message else message


_LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_SPLITS = ("smollm", "gpt-2", "default", "llama-bpe")
_CONTROL = 3


def from_gguf(fields: dict[str, Any], path: Path) -> BytePairs:
    """The byte-level tokenizer that the metadata of a GGUF file describes.

    Raises:
        InputError: If it is of another kind.
    """
    tokenizers = library("tokenizers", "gguf")
    kind, split = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2":
        raise InputError(Fault(f"expected a byte-level tokenizer (gpt2), found {shown(kind)}.", Place(str(path))))
    if split not in _SPLITS:
        message = f"tokens are split in a way that is not known, {shown(split)}. {nearest(split, _SPLITS)}"
        raise InputError(Fault(message, Place(str(path))))
    words, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields.get("tokenizer.ggml.merges", [])]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=merges)
    )
    before = tokenizers.pre_tokenizers
    plain = before.ByteLevel(add_prefix_space=False, use_regex=split != "llama-bpe")
    if split == "smollm":
        # Single digits first: that changes which white space stands before a digit, and so its token.
        tokenizer.pre_tokenizer = before.Sequence([before.Digits(individual_digits=True), plain])
    elif split == "llama-bpe":
        regex = before.Split(tokenizers.Regex(_LLAMA_3), "isolated")
        tokenizer.pre_tokenizer = before.Sequence([regex, plain])
    else:
        tokenizer.pre_tokenizer = plain
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    control = [word for word, kind in zip(words, kinds, strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([tokenizers.AddedToken(word, normalized=False) for word in control])
    if fields.get("tokenizer.ggml.add_bos_token"):
        first = words[fields["tokenizer.ggml.bos_token_id"]]
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{first} $A", special_tokens=[(first, fields["tokenizer.ggml.bos_token_id"])]
        )
    return BytePairs(tokenizer, chat_system(fields.get("tokenizer.chat_template")))


def library(name: str, extra: str) -> Any:
    """A library that an extra brings.

    Raises:
        InputError: If it is not installed.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        message = f"{name} is not installed: pip install 'specsim-llm[{extra}]'."
        raise InputError(Fault(message, Place(parameter="model"))) from None
