"""Where speculation stops paying: stretches of batch sizes and contexts, and why they end."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import question_of

import specsim
from specsim.planning.break_even import Stretch, paying_batches, paying_contexts
from specsim.planning.question import Axes
from specsim.planning.rounds import plan

GAMMA = np.arange(9)


@pytest.fixture
def llama():
    return question_of("h100-sxm5", "typical", "llama-3-8b", "llama-3.2-1b")


def pays(question, batch, context):
    rounds = plan(question, Axes.of([batch], [context], GAMMA))
    return bool(np.any((rounds.speedup > 1) & rounds.feasible))


def test_a_stretch_ends_where_the_next_value_no_longer_pays(llama):
    for stretch in paying_batches(llama, 128, GAMMA, 1024):
        assert pays(llama, stretch.first, 128)
        assert pays(llama, stretch.last, 128)
        assert not pays(llama, stretch.last + 1, 128)
        assert stretch.first == 1 or not pays(llama, stretch.first - 1, 128)


def test_why_a_stretch_ends(llama):
    ends = {
        "cost": paying_batches(llama, 128, GAMMA, 1024)[0],
        "draft_memory": paying_batches(llama, 1024, GAMMA, 1024)[-1],
        "search": paying_batches(llama, 1024, GAMMA, 64)[-1],
    }
    assert {name: stretch.ended_by for name, stretch in ends.items()} == {name: name for name in ends}
    full = question_of("h100-sxm5", "typical", "llama-3-8b", "llama-3.2-1b", memory=1e15)
    assert paying_contexts(full, 64, GAMMA[1:], 9000)[-1].ended_by == "memory"


def test_contexts_are_searched_one_by_one_in_parts(llama, monkeypatch):
    whole = paying_contexts(llama, 64, GAMMA, 8192)
    monkeypatch.setattr("specsim.planning.break_even._CONTEXTS_AT_ONCE", 700)
    assert paying_contexts(llama, 64, GAMMA, 8192) == whole == [Stretch(0, whole[0].last, "draft_memory")]


def test_nowhere_is_an_empty_list(llama):
    from dataclasses import replace

    from specsim.specs.acceptance import Independent

    hopeless = replace(llama, draft=replace(llama.draft, acceptance=Independent(rate=0.01)))
    assert paying_batches(hopeless, 1024, GAMMA, 64) == []
    told = specsim.explain(hardware="h100", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.01")
    assert "Batch, at context 1024: it pays nowhere that fits." in told.to_text()


def test_plain_decoding_is_unclear_where_only_high_acceptance_would_pay():
    table = specsim.optimal_gamma(
        hardware="h100", target="llama-3-8b", draft="llama-3.2-3b", acceptance="task=chat", batch_size="1..256*2"
    )
    off = table.where(table["gamma"] == 0)
    assert set(off["decision"].tolist()) == {"unclear", "off"}


def test_a_measured_step_counts_at_the_point_it_names():
    given = {"hardware": "h100", "target": "llama-3-8b", "draft": "llama-3.2-1b", "acceptance": "rate=0.8"}
    named = specsim.optimal_gamma(**given, batch_size="1,32", context_length=512, plain_step_ms="7.1@1,512")
    first = specsim.optimal_gamma(**given, batch_size="1,32", context_length=512, plain_step_ms=7.1)
    assert named.to_csv() == first.to_csv()
    alone = specsim.optimal_gamma(**given, batch_size=32, context_length=512, plain_step_ms="7.1@1,512")
    assert float(named["plain_step_ms"][0]) == pytest.approx(7.1, rel=1e-12)
    assert alone["plain_step_ms"][0] == named["plain_step_ms"][1]
    assert not any("layer_overhead" in note for note in named.assumed)
