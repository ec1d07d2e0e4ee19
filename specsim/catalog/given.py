"""Options as they are given, read one after another, so that everything that is wrong is told at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specsim.catalog.strict_yaml import plain_value
from specsim.errors import Fault, InputError, Place, shown
from specsim.specs.fields import Kind


class Given:
    """Options by name, and what is wrong about those that were read.

    Attributes:
        options: What was given; None is nothing.
        faults: One for each option that is wrong.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options, self.faults = options, list[Fault]()

    def read(self, name: str, reads: Callable[[Any], Any] | Kind, default: Any) -> Any:
        """An option as it is read, its default where it was not given or is wrong."""
        value = self.options.get(name)
        if value is None:
            return default
        try:
            return of_kind(reads)(value) if isinstance(reads, Kind) else reads(value)
        except ValueError as error:
            self.fault(name, str(error))
        except InputError as error:
            self.faults.extend(error.faults)
        return default

    def fault(self, name: str, message: str) -> None:
        """Note that an option is wrong."""
        self.faults.append(Fault(message, Place(parameter=name)))

    def check(self) -> None:
        """Stop here if something is wrong.

        Raises:
            InputError: With every fault once.
        """
        if self.faults:
            raise InputError(dict.fromkeys(self.faults))


def of_kind(kind: Kind) -> Callable[[Any], Any]:
    """Reads a value of a kind, or its text."""

    def read(value: Any) -> Any:
        found = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(found, str):
            plain = plain_value(found)
            found = found if plain is None else plain
            # 1e5 is a whole number to those who write it.
            found = int(found) if isinstance(found, float) and found.is_integer() else found
        try:
            return kind.read(list(found) if isinstance(found, range | tuple) else found)
        except ValueError as error:
            raise ValueError(f"expected {error}, found {shown(found)}.") from None

    return read
