"""Request traces: three layouts, what is left out and said, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specsim.catalog.traces import cut_and_scaled, read_trace
from specsim.errors import InputError, Place
from specsim.specs.workload import TraceLoad

TRACES = Path(__file__).resolve().parents[1] / "traces"
HERE = Place(parameter="trace")
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


def read(tmp_path, text, layout="auto", name="trace.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_trace(path, layout, HERE)


@pytest.mark.parametrize("name", ["azure-sample.csv", "burstgpt-sample.csv", "mooncake-sample.jsonl"])
def test_layouts_are_told_from_the_first_line(name):
    trace = read_trace(TRACES / name, "auto", HERE)
    requests = trace.requests
    assert len(requests) > 50
    assert requests.arrival_seconds[0] == 0
    assert (np.diff(requests.arrival_seconds) >= 0).all()
    assert requests.output_tokens.min() >= 1
    named = read_trace(TRACES / name, name.split("-")[0], HERE)
    assert named.requests.arrival_seconds.tolist() == requests.arrival_seconds.tolist()


def test_times_of_azure_have_seven_digits_and_in_2024_an_offset(tmp_path):
    lines = ["2023-11-16 18:17:03.9799600,4808,10", "2023-11-16 18:17:04.0319600,3180,8"]
    found = read(tmp_path, AZURE + "\n".join(lines)).requests
    assert found.arrival_seconds[1] == pytest.approx(0.052)
    assert found.prompt_tokens.tolist() == [4808, 3180]
    lines = ["2024-05-10 00:00:00.009930+00:00,2162,5", "2024-05-10T00:00:01.509930+00:00,2399,6"]
    assert read(tmp_path, AZURE + "\n".join(lines)).requests.arrival_seconds[1] == pytest.approx(1.5)


def test_failed_requests_are_left_out_and_counted():
    trace = read_trace(TRACES / "burstgpt-sample.csv", "auto", HERE)
    assert len(trace.requests) == 58
    assert trace.notes == ("2 of 60 requests of burstgpt-sample.csv without output left out, the first in line 9",)


def test_lines_out_of_order_are_put_in_order_and_counted(tmp_path):
    trace = read(tmp_path, BURST + "5,a,10,3,13,x\n2,a,20,4,24,x\n9,a,30,5,35,x\n")
    assert trace.requests.prompt_tokens.tolist() == [20, 10, 30]
    assert trace.requests.arrival_seconds.tolist() == [0, 3, 7]
    assert trace.notes == ("1 requests of trace.csv stand before an earlier one and were put in order, the first in "
                           "line 3",)  # fmt: skip


def test_time_runs_at_another_speed_over_a_part():
    whole = read_trace(TRACES / "azure-sample.csv", "auto", HERE).requests
    part = cut_and_scaled(whole, TraceLoad(file="x", start_seconds=50, duration_seconds=100, speed=4), HERE, "load")
    inside = (whole.arrival_seconds >= 50) & (whole.arrival_seconds < 150)
    assert len(part) == inside.sum()
    assert part.arrival_seconds[0] == 0
    assert part.arrival_seconds[-1] == pytest.approx(np.ptp(whole.arrival_seconds[inside]) / 4)
    scaled = cut_and_scaled(whole, TraceLoad(file="x", requests_per_second=8), HERE, "load")
    assert len(scaled) / scaled.arrival_seconds[-1] == pytest.approx(8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (AZURE + "2023-11-16 18:17:03.97,4808\n", "trace.csv, line 2: expected 3 values, found 2."),
        (AZURE + "2023-11-16 18:17:03.97,many,3\n",
         "trace.csv, line 2, ContextTokens: expected a number of tokens from 0, found 'many'."),
        (AZURE + "2023-11-16 18:17:03.97,4808,\n",
         "trace.csv, line 2, GeneratedTokens: expected a number of tokens from 0, found nothing."),
        (AZURE + "2023-11-16 18:17:03.97,4808,-1\n",
         "trace.csv, line 2, GeneratedTokens: expected a number of tokens from 0, found '-1'."),
        (AZURE + "yesterday,4808,3\n",
         "trace.csv, line 2, TIMESTAMP: expected a time such as 2023-11-16 18:17:03.97, found 'yesterday'."),
        (BURST + "nan,a,1,1,2,x\n", "trace.csv, line 2, Timestamp: expected a time, found .nan."),
        (BURST + "soon,a,1,1,2,x\n", "trace.csv, line 2, Timestamp: expected a number of seconds, found 'soon'."),
        (BURST + "1,a,10,0,10,x\n", "trace: no request of trace.csv has an output."),
        (AZURE, "trace: trace.csv holds no request."),
        ('{"timestamp": 1, "input_length": 5}\n', "trace.csv, line 1, output_length: this field is missing."),
        ('{"timestamp": 1, "input_length": 5, "output_length": 2}\nnonsense\n',
         "trace.csv, line 2: not valid JSON; expected one request a line."),
        ("time,prompt,answer\n1,2,3\n", "trace: the layout of trace.csv is not told by its first line. Known: azure "
         "(TIMESTAMP, ContextTokens, GeneratedTokens), burstgpt (Timestamp, Request tokens, Response tokens), mooncake "
         "(timestamp, input_length, output_length)."),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused_with_its_line(tmp_path, text, said):
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert str(error.value).replace(str(tmp_path) + "/", "") == said


def test_a_column_that_is_missing_is_named(tmp_path):
    with pytest.raises(InputError, match="expected a column GeneratedTokens in a trace of the layout azure"):
        read(tmp_path, "TIMESTAMP,ContextTokens\n2023-11-16 18:17:03.97,4808\n", "azure")


def test_a_part_without_requests_is_refused():
    whole = read_trace(TRACES / "azure-sample.csv", "auto", HERE).requests
    with pytest.raises(InputError, match="fewer than two requests arrive in the part"):
        cut_and_scaled(whole, TraceLoad(file="x", start_seconds=1e6), HERE, "load")
