"""Pictures of predictions against measurements; needs the extra ``charts``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specsim.accuracy.comparison import QUANTITIES, Comparison
from specsim.errors import Fault, InputError, Place

_SHOWN = ("plain_step_ms", "speedup", "verification_ms", "matrix_us")
_SUFFIXES = (".svg", ".png")


def draw_comparisons(comparisons: Sequence[Comparison], output: str) -> None:
    """Predicted against measured, one panel for each of some quantities, one colour for each runtime.

    Raises:
        InputError: If matplotlib is missing, or the file cannot be written.
    """
    path = Path(output)
    if path.suffix.lower() not in _SUFFIXES:
        message = f"expected a file called {' or '.join(f'*{suffix}' for suffix in _SUFFIXES)}, found {output!r}."
        raise InputError(Fault(message, Place(parameter="picture")))
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        message = "a picture needs matplotlib: pip install 'specsim-llm[charts]'."
        raise InputError(Fault(message, Place(parameter="picture"))) from None
    shown = [name for name in _SHOWN if any(one.quantity == name for one in comparisons)]
    if not shown:
        message = f"nothing to draw: no comparison of {', '.join(_SHOWN)}."
        raise InputError(Fault(message, Place(parameter="picture")))
    # The same picture for the same figures, letter by letter.
    with matplotlib.rc_context({"svg.hashsalt": "specsim", "svg.fonttype": "none"}):
        figure = Figure(figsize=(5.2 * len(shown), 5.0), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            _panel(axes, [one for one in comparisons if one.quantity == name], name)
        try:
            figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            message = f"cannot write {path}: {error.strerror}."
            raise InputError(Fault(message, Place(parameter="picture"))) from None


def _panel(axes: Any, found: Sequence[Comparison], name: str) -> None:
    for runtime in sorted({one.runtime for one in found}):
        points = [(one.measured, one.predicted) for one in found if one.runtime == runtime]
        axes.plot(*zip(*points, strict=True), ".", markersize=5, alpha=0.5, label=runtime)
    ends = [bound for one in found for bound in (one.measured, one.predicted)]
    low, high = 0.8 * min(ends), 1.25 * max(ends)
    axes.plot([low, high], [low, high], "-", color="black", linewidth=0.8)
    for factor in (0.8, 1.25):
        axes.plot([low, high], [factor * low, factor * high], ":", color="black", linewidth=0.8)
    if name == "speedup":
        axes.axhline(1, color="grey", linewidth=0.6)
        axes.axvline(1, color="grey", linewidth=0.6)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), xlabel="measured", ylabel="predicted")
    axes.set_title(QUANTITIES[name] if len(QUANTITIES[name]) < 48 else name)
    axes.legend(fontsize="small", frameon=False)
