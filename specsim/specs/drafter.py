"""What guesses the tokens, and how often it is right."""

from __future__ import annotations

from typing import Annotated, Literal

from specsim.specs.acceptance import Acceptance
from specsim.specs.fields import Tagged, record
from specsim.specs.served import ServedModel


@record
class DraftModel(ServedModel):
    """An independent, smaller language model that drafts one token after another."""

    method: Literal["draft_model"] = "draft_model"
    acceptance: Acceptance


@record
class MeasuredDraft:
    """A drafter of which only the cost is known, as measured by the user."""

    method: Literal["measured"] = "measured"
    acceptance: Acceptance


Draft = Annotated[DraftModel | MeasuredDraft, Tagged("method", (DraftModel, MeasuredDraft))]
