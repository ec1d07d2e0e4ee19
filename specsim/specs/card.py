"""What every card of a catalogue has: a name, other names, and a source beside every figure."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from specsim.specs.fields import Name, record


@record
class Card:
    """The part that all cards share.

    Attributes:
        format: Version of the card format.
        name: The catalogue name; the file of a shipped card is called the same.
        title: The full name for people.
        aliases: Other names under which people ask for it.
        sources: Path of a field or section to where its figures were read.
        assumptions: Path of a field or section that nobody published to the reason for its value.
        notes: What a reader should know before trusting the figures.
    """

    format: Literal[1] = 1
    name: Name = "unnamed"
    title: str = ""
    aliases: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict, hash=False)
    assumptions: dict[str, str] = field(default_factory=dict, hash=False)
    notes: str = ""
