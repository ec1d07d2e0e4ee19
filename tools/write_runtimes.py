"""Writes the fitted constants into the runtime cards; the rest of a card stays as it is. Run by ``make runtimes``."""

from __future__ import annotations

from pathlib import Path

from specsim.accuracy.fit import TYPICAL
from specsim.api import accuracy
from specsim.catalog import library

ROOT = Path(__file__).resolve().parents[1]
FITTED = (TYPICAL, "gpt-fast", "huggingface", "huggingface-graphs", "llama.cpp", "sglang", "tensorrt-llm", "vllm")


def main() -> None:
    """Rewrite every fitted card."""
    cards = {name: accuracy.calibrate_evidence(runtime=name)[1] for name in FITTED}
    for name, text in cards.items():
        (ROOT / library.SHELVES["runtime"].folder / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
