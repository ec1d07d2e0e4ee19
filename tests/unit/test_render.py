"""Tables in a terminal: numbers whole at any width, columns left out and said so."""

from __future__ import annotations

import pytest

import specsim
from specsim.cli.render import short, table_text


@pytest.fixture
def table():
    return specsim.optimal_gamma(
        hardware="h100", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8", batch_size="1,64"
    )


@pytest.fixture
def terminal(monkeypatch):
    def of(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    return of


SHOWN = ["batch_size", "gamma", "speedup", "near_best", "plain_step_ms", "round_ms", "draft_cost_ratio", "decision"]


@pytest.mark.parametrize("columns", [20, 40, 60, 200])
def test_every_shown_value_is_whole(table, terminal, columns):
    terminal(columns)
    text = table_text(table, SHOWN)
    left_out = text.partition("Left out for want of room: ")[2]
    for name in SHOWN:
        if name not in left_out:
            speedups = [short(float(value)) for value in table["speedup"]]
            for value in speedups if name == "speedup" else ("speculate",) if name == "decision" else ("64",):
                assert value in text
    assert "\u2026" not in text


def test_a_narrow_terminal_is_told_what_is_left_out(table, terminal):
    terminal(50)
    assert "Left out for want of room: draft_cost_ratio, near_best" in table_text(table, SHOWN)
    terminal(200)
    assert "Left out" not in table_text(table, SHOWN)


def test_a_pipe_has_every_column_aligned(table):
    lines = table_text(table, SHOWN, screen=False).splitlines()
    assert lines[0].split() == SHOWN
    assert lines[0].index("decision") == lines[1].index("speculate") == lines[2].index("speculate")
