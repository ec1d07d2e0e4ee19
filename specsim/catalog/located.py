"""Documents that remember where each value was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specsim.errors import Place


class LocatedDict(dict[str, Any]):
    """A mapping that knows its own place and the place of each of its keys.

    Attributes:
        inside: Where it stands in the file of its place, if it is a part of a card that is used by itself.
    """

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        place: Place | None = None,
        places: Mapping[str, Place] | None = None,
        inside: str = "",
    ) -> None:
        super().__init__(values or {})
        self.place = place or Place()
        self.places = dict(places or {})
        self.inside = inside

    def copy(self) -> LocatedDict:
        """A shallow copy that keeps the places."""
        return LocatedDict(self, self.place, self.places, self.inside)


class LocatedList(list[Any]):
    """A list that knows its own place and the place of each entry.

    Attributes:
        alone: The key under which its one entry was written without a list; empty if it was written as a list.
    """

    def __init__(self, values: list[Any], place: Place, places: list[Place], alone: str = "") -> None:
        super().__init__(values)
        self.place = place
        self.places = places
        self.alone = alone


def place_of(document: object, path: tuple[str | int, ...]) -> tuple[Place, str]:
    """Where the value at a path was written, and the path as a user writes it in the file at that place.

    The place of a missing last part is that of the mapping that lacks it.
    """
    root = place = getattr(document, "place", Place())
    whole = in_file = ""
    for depth, part in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(document, dict) and (part in document or last):
            place = getattr(document, "places", {}).get(part, place)
            document = document.get(part)
            whole, in_file = (f"{before}.{part}" if before else str(part) for before in (whole, in_file))
        elif isinstance(document, list) and isinstance(part, int) and part < len(document):
            places = getattr(document, "places", [])
            place = places[part] if part < len(places) else place
            alone = getattr(document, "alone", "")
            document = document[part]
            whole, in_file = (alone or f"{before}[{part}]" for before in (whole, in_file))
        own, inside = getattr(document, "place", place), getattr(document, "inside", "")
        if own.file is not None and own.file != place.file and not (inside and last):
            # A card from a file of its own: its fields are called as they are there.
            place, in_file = own, inside
    return place, whole if place.file in (None, root.file) else in_file
