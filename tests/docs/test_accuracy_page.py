"""docs/accuracy.md is what ``make accuracy`` would write, and the README quotes it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("write_accuracy", ROOT / "tools" / "write_accuracy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.page()


def test_the_page_is_fresh(page):
    assert (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8") == page, "run `make accuracy`"


def test_the_readme_quotes_the_page(page):
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for name in ("plain step, engines with captured graphs", "speedup, tokens per round measured"):
        _, _, median, most, _ = (cell.strip() for cell in re.search(rf"\| {name} (.*)", page)[0].strip("| ").split("|"))
        assert re.search(rf"{median} %( at the median)? \((90th percentile )?{most}\)", readme), name
    lost = re.search(r"loses ([\d.]+) % at the median", page)[1]
    assert f"draft length loses {lost} % of the measured best at the median" in readme
