"""``specsim fit`` and ``specsim.fit`` as a user meets them: what is read, what comes out, what is refused."""

# ruff: noqa: E501  (messages stand on one line, as they are printed)

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

import specsim
from specsim.acceptance import RegimeChain
from specsim.acceptance.regimes import runs_to_transitions
from specsim.acceptance.simulate import simulate_log
from specsim.cli import main

LINE = (
    "INFO 06-01 10:15:00 SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 150.00 tokens/s, "
    "Drafted throughput: 300.00 tokens/s, Accepted: 1500 tokens, Drafted: 3000 tokens, Per-position acceptance rate: "
    "0.750, 0.450, 0.300, Avg Draft acceptance rate: 50.0%"
)


def counters(times, *, engines=1, model="m", positions=(750, 450, 300), drafted=3000, created=True):
    """A dump of vLLM's counters, as often as there were ``times`` x 1000 rounds."""
    lines = ["# HELP vllm:spec_decode_num_drafts_total Number of drafts.", "vllm:num_requests_running 3.0"]
    for engine in range(engines):
        labels = f'engine="{engine}",model_name="{model}"'
        lines += [
            f"vllm:spec_decode_num_drafts_total{{{labels}}} {1000.0 * times}",
            f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {drafted * times}",
            f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {sum(positions) * times}",
            *(
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{p}"}} {count * times}'
                for p, count in enumerate(positions)
            ),
        ]
        if created:
            lines.append(f"vllm:spec_decode_num_drafts_created{{{labels}}} 1.75e+09")
    return "\n".join(lines) + "\n"


def counts():
    chain = RegimeChain.of([0.95, 0.3], runs_to_transitions([30, 30]))
    return simulate_log(chain, 4, 4000, 10, np.random.default_rng(2))[0].reshape(10, -1).tolist()


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments, **files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit) as stop:
            main(["fit", *arguments, "--replicates", "50"])
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


def tokens(out):
    return [float(row["tokens_per_round"]) for row in csv.DictReader(io.StringIO(out))]


def test_counts_in_their_order_to_a_file_that_other_commands_read(run, tmp_path, capsys):
    lines = "".join(json.dumps({"accepted": request, "drafted": 4}) + "\n" for request in counts())
    code, out, err = run("log.jsonl", "-o", "found.yaml", log_jsonl=lines)
    assert (code, out, err) == (0, "", "")
    text = (tmp_path / "found.yaml").read_text(encoding="utf-8")
    assert text.startswith("format: 1\ntitle: Fitted by specsim ")
    assert "kind: regimes" in text
    assert "recorded_gamma: 4" in text
    assert "acceptance: log.jsonl, sha256 " in text
    table = specsim.optimal_gamma(acceptance="found.yaml", draft_cost_ratio=0.1, max_gamma=4, all_gammas=True)
    rounds = [count for request in counts() for count in request]
    assert table["tokens_per_round"][4] == pytest.approx(1 + np.mean(rounds), rel=1e-6)
    assert specsim.simulate(acceptance="found.yaml", rounds=1000)["tokens_per_round"][0] == pytest.approx(
        1 + np.mean(rounds), rel=1e-6
    )


def test_every_form_of_the_same_counts_gives_the_same_fit(run):
    requests = counts()
    flat = [count for request in requests for count in request]
    forms = {
        "a_jsonl": "".join(json.dumps({"accepted": request, "drafted": [4] * len(request)}) + "\n" for request in requests),
        "b_json": json.dumps([{"accepted": request, "gamma": 4} for request in requests]),
        "c_jsonl": "".join(
            json.dumps({"request": r, "accepted": count, "drafted": 4}) + "\n"
            for r, request in enumerate(requests)
            for count in request
        ),
        "d_csv": "request,accepted,drafted\n"
        + "".join(f"{r},{count},4\n" for r, request in enumerate(requests) for count in request),
        "e_json": json.dumps(
            [
                {"id": "x", "metrics": {"speculative_decoding": {
                    "per_step_accepted": request, "per_step_drafted": [4] * len(request)}}}
                for request in requests
            ]
        ),
    }  # fmt: skip
    outputs = [run(name.replace("_", "."), "--format", "csv", **{name: text})[1] for name, text in forms.items()]
    assert len(set(outputs)) == 1
    assert tokens(outputs[0])[3] == pytest.approx(1 + np.mean(flat))
    code, out, _ = run("f.jsonl", "--gamma", "4", f_jsonl="".join(f"{json.dumps(request)}\n" for request in requests))
    assert (code, "regimes easy" in out) == (0, True)


def test_rounds_are_grouped_by_the_request_that_they_name(run):
    """Rounds in the order in which a server makes them, the first of each request and then the second."""
    requests = counts()
    served = [(r, request[k]) for k in range(len(requests[0])) for r, request in enumerate(requests)]
    files = {
        "a_csv": "request,accepted,drafted\n" + "".join(f"{r},{n},4\n" for r, request in enumerate(requests) for n in request),
        "b_csv": "request,accepted,drafted\n" + "".join(f"{r},{n},4\n" for r, n in served),
        "c_jsonl": "".join(json.dumps({"request": f"r{r}", "accepted": n, "drafted": 4}) + "\n" for r, n in served),
        "d_jsonl": "".join(
            json.dumps({"request": r, "accepted": request[k : k + 7], "drafted": 4}) + "\n"
            for k in range(0, len(requests[0]), 7) for r, request in enumerate(requests)
        ),
    }  # fmt: skip
    outputs = [run(name.replace("_", "."), "--format", "csv", **{name: text})[1] for name, text in files.items()]
    assert len(set(outputs)) == 1


def test_a_draft_length_that_is_missing_is_filled_in(run):
    requests = counts()
    lines = ("".join(json.dumps(form(request)) + "\n" for request in requests) for form in (
        lambda request: {"accepted": request, "drafted": 4}, lambda request: {"per_step_accepted": request},
    ))  # fmt: skip
    whole, filled = (run("a.jsonl", "--gamma", "4", "--format", "csv", a_jsonl=text)[1] for text in lines)
    assert whole == filled != ""


def test_counts_that_never_are_0_by_chance_are_taken_as_they_are(run):
    """Of 200 first drafts accepted at 0.99 none is rejected once in seven times."""
    rows = json.dumps({"accepted": [4] * 190 + [1, 2, 3, 3, 2] * 2, "drafted": 4})
    assert run("a.jsonl", a_jsonl=rows)[0] == 0


def test_lines_that_end_early_are_left_out_and_that_is_said(run):
    code, _, err = run("v.log", v_log=f"{LINE}\n{LINE[:-40]}")
    assert (code, err) == (0, "v.log, line 2: the line is cut off and was left out\n")
    code, _, err = run("v.log", v_log=f"{LINE.partition('Per-position')[0]}\n{LINE}\n")
    assert (code, err) == (0, "v.log, line 1: lines without rates by position were left out\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"accepted,drafted\n1,3\n\xff,3\n", "a.csv, line 3: not text in UTF-8: byte 0xff."),
        (b"\x1f\x8b\x08rest", "a.csv: this is a gzip file: unpack it first."),
        ("accepted,drafted\n".encode("utf-16"), "a.csv: this is UTF-16: save it as UTF-8."),
    ],
)
def test_files_that_are_no_text(run, tmp_path, data, message):
    (tmp_path / "a.csv").write_bytes(data)
    assert run("a.csv") == (2, "", f"Error: {message}\n")


def test_standard_input_is_a_log(run, monkeypatch):
    text = "".join(json.dumps({"accepted": request, "drafted": 4}) + "\n" for request in counts())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, _ = run("-", "--format", "yaml")
    assert (code, "standard input, sha256" in out) == (0, True)


def test_vllm_log_counters_histograms_and_rates_agree(run):
    histogram = {"acceptance_histogram": [250, 300, 150, 300], "num_spec_tokens": 3}
    outputs = [
        run("v.log", "--format", "csv", v_log=f"starting\n{LINE}\nbetween\n{LINE}\n")[1],
        run("--before", "b.txt", "--after", "a.txt", "--format", "csv", b_txt=counters(1, engines=2),
            a_txt=counters(2, engines=2))[1],
        run("h.csv", "--format", "csv", h_csv="accepted,rounds\n0,500\n1,600\n2,300\n3,600\n")[1],
        run("r.csv", "--format", "csv",
            r_csv="position,rate,rounds\n1,0.75,2000\n2,0.45,2000\n3,0.3,2000\n")[1],
        run("m.jsonl", "--format", "csv", m_jsonl=(json.dumps({"metrics": {"speculative_decoding": histogram}}) + "\n") * 2)[1],
    ]  # fmt: skip
    assert len(set(outputs)) == 1
    assert tokens(outputs[0])[:3] == pytest.approx([1.75, 2.2, 2.5])


def test_created_series_are_left_out_and_that_is_said(run):
    code, _, err = run("c.txt", c_txt=counters(1))
    assert (code, err) == (0, "_created series are times and were left out\n")
    assert run("c.txt", "-q", c_txt=counters(1))[2] == ""


def test_lines_without_drafts_are_passed_over(run):
    nothing = (
        LINE.replace("1500 tokens", "0 tokens").replace("3000 tokens", "0 tokens").replace("0.750, 0.450, 0.300", "nan")
    )
    assert run("v.log", v_log=f"{nothing}\n{LINE}\n")[0] == 0


def lookup_log(rounds=3000):
    """Rounds of a drafter that finds something in stretches: what was asked for, proposed and accepted."""
    chain = RegimeChain.of([0.9, 0.02], runs_to_transitions([12, 12]))
    accepted, generator = (
        simulate_log(chain, 4, rounds, 1, np.random.default_rng(4))[0].reshape(-1),
        np.random.default_rng(5),
    )
    # Half of the rounds that accept nothing had nothing to offer; others ran out where they would have been rejected.
    empty = (accepted == 0) & (generator.random(len(accepted)) < 0.5)
    short = (accepted > 0) & (accepted < 4) & (generator.random(len(accepted)) < 0.3)
    proposed = np.where(empty, 0, np.where(short, accepted, 4))
    return accepted, proposed


def test_drafts_that_were_asked_for_and_not_made_count_as_rejected(run):
    accepted, proposed = lookup_log()
    line = {"accepted": accepted.tolist(), "drafted": proposed.tolist()}
    code, with_gamma, _ = run("a.jsonl", a_jsonl=json.dumps({**line, "gamma": 4}))
    assert code == 0
    whole = {"accepted": accepted.tolist(), "drafted": 4}
    _, as_rejected, _ = run("b.jsonl", b_jsonl=json.dumps(whole))
    columns = [line for line in with_gamma.splitlines() if line.split()[-1:] in (["yes"], ["no"])]
    assert columns == [line for line in as_rejected.splitlines() if line.split()[-1:] in (["yes"], ["no"])]
    assert f"{(proposed == 0).mean():.1%} of the rounds had no draft" in with_gamma
    assert "one rate does not suffice: with the same mean it is at most" in with_gamma
    examined = (accepted + (accepted < proposed)).sum()
    assert f"accepted / examined over the proposed drafts alone is {accepted.sum() / examined:.4f}" in with_gamma
    assert "as one rate it is rejected" in with_gamma
    rows = "\n".join(f"{a},{p},4" for a, p in zip(accepted, proposed, strict=True))
    _, from_csv, _ = run("c.csv", c_csv="accepted,drafted,gamma\n" + rows)
    assert [line for line in from_csv.splitlines() if line.split()[-1:] in (["yes"], ["no"])] == columns


def test_one_rate_suffices_where_drafts_are_independent(run):
    drawn = np.random.default_rng(0).geometric(0.4, 4000) - 1
    _, out, _ = run("a.jsonl", a_jsonl=json.dumps({"accepted": np.minimum(drawn, 4).tolist(), "drafted": 4}))
    assert "one rate suffices: with the same mean it is at most" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"accepted": [1], "drafted": [3], "gamma": 2}, "drafted: 3 tokens drafted at gamma 2."),
        ({"accepted": [1, 1], "drafted": 2, "gamma": [2]}, "gamma: 1 draft lengths are asked for in 2 rounds."),
        ({"accepted": [1], "drafted": 2, "gamma": "x"}, "gamma: expected whole numbers from 0 to 1000, found 'x'."),
    ],
)
def test_what_was_asked_for_is_checked(run, line, message):
    code, _, err = run("a.jsonl", a_jsonl=json.dumps(line))
    assert (code, err) == (2, f"Error: a.jsonl, line 1, {message}\n")


def test_the_table_says_what_was_found_assumed_and_extrapolated(run):
    code, out, _ = run("survival=0.75,0.60,0.50,0.41")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("regimes easy 0.8")
    assert any(line.startswith("  run lengths cannot be told from rates: ") for line in lines)
    assert lines[-2].startswith("Assumed: intervals of 90 % by bootstrap over rounds")
    assert lines[-1] == "Extrapolated: gamma 5 and above lies beyond what was recorded."


@pytest.mark.parametrize(
    ("given", "recorded"), [("survival=0.72", 1), ("survival=0.75,0.6,0.5,0.41", 4), ("survival=0.7,0.5", 2)]
)
def test_positions_that_nobody_gave_are_extrapolated(given, recorded):
    """Rates of the first positions of rounds that draft 8."""
    found = specsim.fit(given, gamma=8, replicates=20)
    assert found.table["extrapolated"].tolist() == [gamma > recorded for gamma in range(1, 13)]
    plan = specsim.optimal_gamma(acceptance=found.acceptance, draft_cost_ratio=0.01)
    assert plan["gamma"].tolist() == [recorded]


def test_a_log_of_independent_drafts_remembers_how_long_they_were(run, tmp_path):
    accepted = simulate_log(RegimeChain.of([0.75], [[1.0]]), 5, 3000, 10, np.random.default_rng(1))[0].reshape(10, -1)
    lines = "".join(json.dumps({"accepted": request, "drafted": 5}) + "\n" for request in accepted.tolist())
    assert run("a.jsonl", "-o", "found.yaml", a_jsonl=lines)[0] == 0
    text = (tmp_path / "found.yaml").read_text(encoding="utf-8")
    assert ("kind: independent" in text, "recorded_gamma: 5" in text) == (True, True)
    plan = specsim.optimal_gamma(acceptance="found.yaml", draft_cost_ratio=0.01)
    assert plan["gamma"].tolist() == [5]
    assert plan.extrapolated[0].startswith("gamma 6 and above lies beyond the recorded rate=0.")


def test_requests_of_one_kind_each_are_written_so_that_other_commands_read_them(run, tmp_path):
    generator = np.random.default_rng(4)
    parts = [simulate_log(RegimeChain.of([rate], [[1.0]]), 3, 1500, 15, generator)[0] for rate in (0.9, 0.4)]
    requests = np.concatenate(parts).reshape(30, -1).tolist()
    lines = "".join(json.dumps({"accepted": request, "drafted": 3}) + "\n" for request in requests)
    assert run("a.jsonl", "-o", "found.yaml", a_jsonl=lines)[0] == 0
    text = (tmp_path / "found.yaml").read_text(encoding="utf-8")
    assert ("mean_run_tokens" in text, "transitions" in text, "token_share" in text) == (False, False, True)
    assert len(specsim.optimal_gamma(acceptance="found.yaml", draft_cost_ratio=0.1)) == 1


def test_python(tmp_path):
    found = specsim.fit("survival=0.75,0.45,0.3", replicates=20)
    assert found.acceptance.survival == (0.75, 0.45, 0.3)
    assert list(found.to_frame().columns) == [
        "gamma", "tokens_per_round", "tokens_low", "tokens_high", "extrapolated",
    ]  # fmt: skip
    assert "survival=0.75,0.45,0.3" in str(found)
    assert "<table" in found._repr_html_()
    plan = specsim.optimal_gamma(acceptance=found.acceptance, draft_cost_ratio=0.1)
    assert len(plan) == 1


GOOD = '{"accepted": [1, 2], "drafted": 3}\n'
BONUS = (
    "no round rejected its first draft, and later drafts are rejected often: is the bonus token of every round counted in? "
    "Leave it out."
)
FORMS = (
    "expected JSON lines of accepted counts, a CSV file with a column accepted or rate, vLLM's log lines with "
    "'SpecDecoding metrics:', its counters, or its metrics of requests."
)


@pytest.mark.parametrize(
    ("files", "arguments", "message"),
    [
        ({}, [], "LOG: expected a log, or counters before and after."),
        ({}, ["no.jsonl"], "LOG: no such file: 'no.jsonl'."),
        ({"e_jsonl": "  \n"}, ["e.jsonl"], "e.jsonl: the file is empty."),
        ({"e_txt": "hello\n"}, ["e.txt"], "e.txt, line 1: expected JSON lines of accepted counts, a CSV file with a column "
         "accepted or rate, vLLM's log lines with 'SpecDecoding metrics:', its counters, or its metrics of requests."),
        ({"a_jsonl": GOOD + '{"accepted": [1, 4], "drafted": 3}\n'}, ["a.jsonl"],
         "a.jsonl, line 2, accepted: 4 tokens accepted of 3 drafted. Is the bonus token counted in?"),
        ({"a_jsonl": GOOD + '{"accepted": [1, -1], "drafted": 3}\n'}, ["a.jsonl"],
         "a.jsonl, line 2, accepted: expected whole numbers from 0 to 1000, found -1."),
        ({"a_jsonl": '{"accepted": [0.5], "drafted": 3}\n'}, ["a.jsonl"],
         "a.jsonl, line 1, accepted: expected whole numbers from 0 to 1000, found 0.5."),
        ({"a_jsonl": '{"accepted": [1, 2], "drafted": [3]}\n'}, ["a.jsonl"],
         "a.jsonl, line 1, drafted: 2 rounds are accepted and 1 drafted."),
        ({"a_jsonl": '{"accepted": [1, 2]}\n'}, ["a.jsonl"], "a.jsonl, line 1: what was drafted is missing: add drafted to "
         "every line, or give the draft length as --gamma."),
        ({"a_jsonl": GOOD + '{"acepted": [1], "drafted": 3}\n'}, ["a.jsonl"], "a.jsonl, line 2: expected a field accepted, "
         "found ['acepted', 'drafted']. Known: accepted, drafted, gamma, request, speculative_decoding."),
        ({"a_jsonl": '{"accepted": [1], "drafted": 3, "drafts": 3}\n'}, ["a.jsonl"], "a.jsonl, line 1, drafts: unknown field. "
         "Nearest: drafted. Known: accepted, drafted, gamma, request."),
        ({"a_jsonl": GOOD + "{broken\n"}, ["a.jsonl"],
         "a.jsonl, line 2: not valid JSON: Expecting property name enclosed in double quotes."),
        ({"a_jsonl": "[]\n"}, ["a.jsonl", "--gamma", "3"], "a.jsonl, line 1: no round was recorded."),
        ({"a_jsonl": GOOD}, ["a.jsonl"], "a.jsonl: 2 rounds are too few to fit anything: log 100 or more."),
        ({"a_csv": "accepted,drafted\n1,3\n5,3\n"}, ["a.csv"], "a.csv, line 3, accepted: 5 tokens accepted of 3 drafted."),
        ({"a_csv": "accepted,drafted\n1,x\n"}, ["a.csv"], "a.csv, line 2, drafted: expected a whole number, found 'x'."),
        ({"a_csv": "accepted,drafted\n"}, ["a.csv"], "a.csv, line 1: no row follows the header."),
        ({"a_csv": "accepted,draftd\n1,3\n"}, ["a.csv"], "a.csv, line 1: unknown column 'draftd'. Nearest: drafted, rate. Known: "
         "accepted, drafted, gamma, request, rounds, position, rate."),
        ({"a_csv": "position,rate\n1,75.0\n2,45.0\n"}, ["a.csv"], "a.csv, line 2, rate: expected a number from 0 to 1, a "
         "fraction and not a percentage, found 75."),
        ({"a_csv": "position,rate\n1,75%\n"}, ["a.csv"],
         "a.csv, line 2, rate: expected a fraction and not a percentage, found '75%'."),
        ({"a_csv": "position,rate\n1,0.5\n2,0.6\n"}, ["a.csv"], "a.csv, line 2: rates of all rounds cannot rise, yet position 2 "
         "has 0.6 and the one before it 0.5. Are they conditional (accepted once all before were)?"),
        ({"a_csv": "position,rate\n1,0.5\n3,0.4\n"}, ["a.csv"], "a.csv, line 3, position: expected position 2, found 3."),
        ({"v_log": LINE.replace("0.750, 0.450", "75.0, 45.0") + "\n"}, ["v.log"],
         "v.log, line 1: expected fractions from 0 to 1 and not percentages as rates by position, found 75.0."),
        ({"v_log": LINE + "\n" + LINE.replace("0.450, 0.300", "0.450") + "\n"}, ["v.log"], "v.log, line 2: draft lengths are "
         "mixed: 3 in line 1 and 2 here. Fit the lines of one length alone."),
        ({"v_log": LINE.replace("3000 tokens", "3001 tokens") + "\n"}, ["v.log"], "v.log, line 1: 3001 drafted tokens are no "
         "multiple of 3 positions: draft lengths are mixed. Log counts in their order (per_step_accepted, "
         "per_step_drafted)."),
        ({"c_txt": "vllm:spec_decode_num_drafts_created{engine=\"0\"} 1.75e+09\n"}, ["c.txt"],
         "c.txt: only _created series, which are times: the counters end in _total."),
        ({"b_txt": counters(2), "a_txt": counters(1)}, ["--before", "b.txt", "--after", "a.txt"],
         "a.txt: num_drafts of engine 0 has gone down: the server was started anew in between."),
        ({"b_txt": counters(1), "a_txt": counters(1)}, ["--before", "b.txt", "--after", "a.txt", "-q"],
         "a.txt: nothing was drafted in between."),
        ({"b_txt": counters(1), "a_txt": counters(2, model="n")}, ["--before", "b.txt", "--after", "a.txt"],
         "a.txt: before and after are of different models: m, n."),
        ({"c_txt": counters(1) + counters(1, model="n")}, ["c.txt"],
         "c.txt: counters of several models, m, n: keep the lines of one."),
        ({"c_txt": counters(1, drafted=2800)}, ["c.txt"], "c.txt: 2800 drafted tokens in 1000 rounds are not 3 each: draft "
         "lengths are mixed. Log counts in their order (per_step_accepted, per_step_drafted)."),
        ({"b_txt": counters(1)}, ["--before", "b.txt"], "--after: counters need a dump before and one after."),
        ({"m_json": json.dumps({"acceptance_histogram_by_draft_length": {"2": [1, 2, 3], "3": [1, 2, 3, 4]}})}, ["m.json"],
         "m.json, line 1, acceptance_histogram_by_draft_length: draft lengths 2 and 3 are mixed, which looks like regimes in "
         "histograms: ask for detailed metrics, with per_step_accepted and per_step_drafted."),
        ({"a_jsonl": GOOD, "v_log": LINE}, ["a.jsonl", "v.log"],
         "LOG: counts in their order and rates by position do not go together: fit them one by one."),
        ({}, ["survival=0.5,0.6"], "LOG: rates of all rounds cannot rise, yet position 2 has 0.6 and the one before it 0.5. Are "
         "they conditional (accepted once all before were)?"),
        ({}, ["survival=75,45"], "LOG: expected numbers from 0 to 1, as fractions and not as percentages, found [75.0, 45.0]."),
        ({}, ["rate=0.8"], "LOG: 'rate=0.8' holds nothing to fit. Known: survival, conditional, length, drafted."),
        ({}, ["length=5@3"], "LOG: a round at gamma 3 emits 1 to 4 tokens, found 5."),
        ({}, ["survival=0.7,0.5", "--regimes", "2"], "LOG: 2 positions do not tell two regimes: log three or more."),
        ({}, ["length=2.5@3", "--regimes", "2"],
         "LOG: a mean length does not tell regimes: log rates by position, or counts in their order."),
        ({}, ["survival=0.7,0.5", "--gamma", "1"],
         "--gamma: expected a draft length of at least the 2 positions, found 1."),
        # Draft lengths that contradict each other.
        ({"a_jsonl": GOOD}, ["a.jsonl", "--gamma", "5"], "--gamma: 5 contradicts a.jsonl, where drafts have 3 tokens."),
        ({"a_csv": "accepted,drafted\n1,3\n"}, ["a.csv", "--gamma", "5"],
         "--gamma: 5 contradicts a.csv, where drafts have 3 tokens."),
        ({"v_log": LINE + "\n"}, ["v.log", "--gamma", "5"], "--gamma: 5 contradicts v.log, where drafts have 3 tokens."),
        ({"b_txt": counters(1), "a_txt": counters(2)}, ["--before", "b.txt", "--after", "a.txt", "--gamma", "5"],
         "--gamma: 5 contradicts a.txt, where drafts have 3 tokens."),
        ({"m_jsonl": json.dumps({"acceptance_histogram": [1, 2, 3]})}, ["m.jsonl", "--gamma", "3"],
         "--gamma: 3 contradicts m.jsonl, where drafts have 2 tokens."),
        ({"m_jsonl": json.dumps({"acceptance_histogram": [1, 2, 3], "num_spec_tokens": 3})}, ["m.jsonl"],
         "m.jsonl, line 1, acceptance_histogram: counts of 0 to 2 accepted tokens at num_spec_tokens 3."),
        ({"a_jsonl": '{"accepted": [1, 2], "drafted": 4, "gamma": 3}\n'}, ["a.jsonl"],
         "a.jsonl, line 1, drafted: 4 tokens drafted at gamma 3."),
        ({"a_csv": "accepted,drafted,gamma\n1,3,3\n1,4,3\n"}, ["a.csv"], "a.csv, line 3, drafted: 4 tokens drafted at gamma 3."),
        ({"a_jsonl": '{"per_step_accepted": [1], "per_step_drafted": [4], "num_spec_tokens": 3}\n'}, ["a.jsonl"],
         "a.jsonl, line 1, per_step_drafted: 4 tokens drafted at num_spec_tokens 3."),
        ({"a_jsonl": '{"per_step_accepted": [1]}\n'}, ["a.jsonl"], "a.jsonl, line 1, per_step_drafted: what was drafted is "
         "missing: log it, or give the draft length as --gamma."),
        # What a line of vLLM says twice.
        ({"v_log": LINE.replace("Accepted: 1500", "Accepted: 3500")}, ["v.log"],
         "v.log, line 1: 3500 tokens accepted of 3000 drafted."),
        ({"v_log": LINE.replace("Accepted: 1500", "Accepted: 1600")}, ["v.log"], "v.log, line 1: 1600 tokens accepted, where the "
         "rates by position make 1500 of 3000 drafted."),
        ({"v_log": LINE.replace("length: 2.50", "length: 2.60")}, ["v.log"],
         "v.log, line 1: a mean length of 2.60, where the rates by position sum to 2.50."),
        ({"v_log": LINE.replace("Accepted: 1500 tokens, Drafted: 3000 tokens, ", "")}, ["v.log"], "v.log: no line says how much "
         "was accepted and drafted; give its rates alone, as survival=0.750,0.450,0.300."),
        ({"v_log": LINE.partition("Per-position")[0] + "\n"}, ["v.log"], "v.log, line 1: this line has no rates by position, which "
         "older versions leave out; its mean can be given as length=TOKENS@GAMMA."),
        ({"v_log": LINE[:-30]}, ["v.log"], "v.log, line 1: no whole line with 'SpecDecoding metrics:' has drafts."),
        # Engines and servers that are not the same.
        ({"b_txt": counters(1, engines=2), "a_txt": counters(2)}, ["--before", "b.txt", "--after", "a.txt"], "a.txt: engine 1 is "
         "in the dump before and not in the one after: compare dumps of the same engines."),
        ({"b_txt": counters(1), "a_txt": counters(2, engines=2)}, ["--before", "b.txt", "--after", "a.txt"], "a.txt: engine 1 is "
         "in the dump after and not in the one before: compare dumps of the same engines."),
        ({"b_txt": counters(1), "a_txt": counters(2).replace("1.75e+09", "1.76e+09")}, ["--before", "b.txt", "--after", "a.txt"],
         "a.txt: num_drafts of engine 0 was created anew in between: the server was started again."),
        ({"c_txt": counters(1, positions=(450, 750, 300))}, ["c.txt", "-q"], "c.txt: rates of all rounds cannot rise, yet position "
         "2 has 0.75 and the one before it 0.45. Are they conditional (accepted once all before were)?"),
        # The bonus token counted in.
        ({"a_jsonl": json.dumps({"accepted": [1, 2, 1, 3] * 50, "drafted": 4})}, ["a.jsonl"], f"a.jsonl: {BONUS}"),
        ({"h_csv": "accepted,rounds\n1,500\n2,600\n3,300\n"}, ["h.csv"], f"h.csv: {BONUS}"),
        ({"r_csv": "position,rate\n1,1\n2,0.6\n3,0.4\n"}, ["r.csv"], f"r.csv: {BONUS}"),
        ({}, ["survival=1,0.6,0.4"], f"LOG: {BONUS}"),
        # Files that are no log that is read.
        ({"s_log": "[2025-11-01 10:00:00 TP0] Decode batch, #running-req: 1, accept len: 2.53, gen throughput: 100\n"}, ["s.log"],
         f"s.log, line 1: {FORMS} Log lines of SGLang are not read: their accept len is tokens per round, as in length=2.5@3."),
        ({"v_log": "INFO 05-01 10:00:00 metrics.py:477] Speculative metrics: Draft acceptance rate: 0.6, System efficiency: 0.5\n"},
         ["v.log"], f"v.log, line 1: {FORMS} Log lines of vLLM before its version 1 are not read: their system efficiency x "
         "(gamma + 1) is tokens per round, as in length=2.5@3."),
        ({"o_log": "[2025-11-01 10:00:00] other, x: 3\n"}, ["o.log"], f"o.log, line 1: {FORMS}"),
        ({"o_log": "2025-11-01 10:00:00 other, x: 3\n"}, ["o.log"], f"o.log, line 1: {FORMS}"),
        ({}, ["survival=0.7,0.5", "--regimes", "0"], "--regimes: expected a whole number of at least 1, found 0."),
        ({}, ["survival=0.7,0.5", "--source", "vlm"],
         "--source: unknown source 'vlm'. Nearest: vllm. Known: auto, counts, csv, vllm."),
    ],
)  # fmt: skip
def test_mistakes(run, files, arguments, message):
    code, out, err = run(*arguments, **files)
    assert (code, out) == (2, "")
    assert err == f"Error: {message}\n"
