"""What is known: the cards of the catalogue."""

from __future__ import annotations

import numpy as np

from specsim.catalog import library
from specsim.catalog.cards import RECORDS
from specsim.errors import Fault, InputError, Place, nearest
from specsim.report.table import Table


def catalog_list(kind: str | None = None) -> Table:
    """Name, title and aliases of the cards of one kind, or of every kind.

    Raises:
        InputError: If there is no such kind.
    """
    if kind is not None and (not isinstance(kind, str) or kind not in RECORDS):
        raise InputError(Fault(f"unknown kind {kind!r}. {nearest(kind, list(RECORDS))}", Place(parameter="kind")))
    found = []
    for one in [kind] if kind is not None else list(RECORDS):
        for name in library.names(one):
            document = library.read_card(one, name)
            title = document.get("title", document.get("name", "") if one == "scenario" else "")
            found.append((one, name, title, ", ".join(document.get("aliases", ()))))
    columns = zip(("kind", "name", "title", "aliases"), zip(*found, strict=True), strict=True)
    return Table({name: np.array(values, dtype=object) for name, values in columns}, (len(found),))
