"""What ``import specsim`` offers, and nothing else."""

from __future__ import annotations

import specsim
from specsim.catalog import library


def test_exported_names():
    assert specsim.__all__ == [
        "Explanation", "InputError", "SpecsimError", "Table", "__version__", "calibrate", "capacity",
        "catalog_list", "explain", "fit", "measure", "optimal_gamma", "optimal_tree", "resolve", "rules", "simulate",
        "sweep", "validate",
    ]  # fmt: skip
    assert dir(specsim) == sorted(specsim.__all__)
    for name in specsim.__all__:
        assert getattr(specsim, name) is not None


def test_sweep_and_resolve_from_python():
    table = specsim.sweep("lecture-grid")
    assert len(table) == 7 * 2 * 9
    assert "paper accelerator" in specsim.resolve("lecture-grid")
    assert len(specsim.catalog_list("runtime")) == len(library.names("runtime"))
