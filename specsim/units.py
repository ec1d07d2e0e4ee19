"""The only place that knows 10^9, 2^30 and bits: quantities with a unit to SI numbers and back."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}

_QUANTITY = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(\S.*?)?\s*")


@dataclass(frozen=True)
class Dimension:
    """A physical dimension with the units that users may write.

    Attributes:
        name: Plain name, as used in messages.
        suffix: Ending of field names in the core that hold this dimension in SI.
        example: A correct value, shown in messages.
        scales: Accepted unit to its size in SI.
    """

    name: str
    suffix: str
    example: str
    scales: dict[str, float]

    def parse(self, text: object) -> float:
        """Read a quantity such as ``"3.35 TB/s"`` into SI.

        Raises:
            ValueError: With what was expected, if the text is not a quantity of this dimension.
        """
        expected = f'{self.name} with its unit, such as "{self.example}"'
        if not isinstance(text, str):
            raise ValueError(expected)
        match = _QUANTITY.fullmatch(text)
        if match is None:
            raise ValueError(expected)
        number, unit = float(match[1]), match[2] or ""
        if unit not in self.scales:
            wrong = next((d for d in DIMENSIONS if unit in d.scales), None)
            if wrong is not None:
                raise ValueError(f"{expected}; {unit} is a unit of {wrong.name}")
            raise ValueError(f"{expected}; known units are {', '.join(self.main_units())}")
        value = number * self.scales[unit]
        if not math.isfinite(value) or value < 0:
            raise ValueError(f'{self.name} that is finite and not negative, such as "{self.example}"')
        return value

    def main_units(self) -> list[str]:
        """The accepted units without rare prefixes and alternative spellings, for messages."""
        rare = ("k", "K", "P", "E", "µ", "μ")
        main = [unit for unit in self.scales if not unit.startswith(rare) and not unit.endswith(("OPS", "bit/s"))]
        return main if len(main) > 1 else list(self.scales)

    def format(self, value: float) -> str:
        """Write an SI number with the unit that makes it short; parsing gives the same number back.

        >>> BANDWIDTH.format(3.35e12)
        '3.35 TB/s'
        >>> MEMORY.format(2.0**35)
        '32 GiB'
        """
        value, candidates = float(value), []
        for unit, scale in self.scales.items():
            number = value / scale
            text = f"{number:.17g}" if not number.is_integer() or abs(number) >= 1e15 else str(int(number))
            short = repr(number) if "e" not in repr(number) else text
            text = min((short.removesuffix(".0"), text), key=len)
            if float(text) * scale == value:
                candidates.append(
                    (len(text), not 1 <= abs(number) < 1000, list(self.scales).index(unit), f"{text} {unit}")
                )
        return min(candidates)[-1]


def _scaled(units: dict[str, dict[str, float]], factor: dict[str, float] | None = None) -> dict[str, float]:
    factors = factor or {}
    return {
        prefix + unit: scale * factors.get(unit, 1.0)
        for unit, prefixes in units.items()
        for prefix, scale in prefixes.items()
    }


_SIZES = {**_DECIMAL, **_BINARY}

MEMORY = Dimension("an amount of memory", "_bytes", "80 GB", _scaled({"B": _SIZES}))
BANDWIDTH = Dimension(
    "a bandwidth",
    "_bytes_per_second",
    "3.35 TB/s",
    _scaled({"B/s": _SIZES, "b/s": _DECIMAL, "bit/s": _DECIMAL}, {"b/s": 1 / 8, "bit/s": 1 / 8}),
)
RATE = Dimension(
    "a dense rate of operations",
    "_operations_per_second",
    "989.5 TFLOP/s",
    _scaled(dict.fromkeys(("FLOP/s", "OP/s", "FLOPS", "OPS"), _DECIMAL)),
)
TIME = Dimension("a duration", "_seconds", "0.5 ms", _scaled({"s": _SMALL}))
POWER = Dimension("a power", "_watts", "700 W", _scaled({"W": {"": 1.0, "k": 1e3}}))
PRICE = Dimension("a price", "_usd_per_hour", "3.29 USD/h", {"USD/h": 1.0})

DIMENSIONS = (MEMORY, BANDWIDTH, RATE, TIME, POWER, PRICE)


def written_name(field: str) -> str:
    """The name under which a field is written in YAML: without its unit, which the value carries.

    >>> written_name("bandwidth_bytes_per_second"), written_name("layers")
    ('bandwidth', 'layers')
    """
    for dimension in DIMENSIONS:
        if field.endswith(dimension.suffix):
            return field.removesuffix(dimension.suffix)
    return field
