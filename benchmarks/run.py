"""How fast specsim itself is, in ratios that another machine can be held against; benchmarks/README.md explains them.

A time above its limit is printed as ABOVE and is not a failure; wrong behaviour is: a heavy import where none is
needed, rows that are missing, a progress bar that is not drawn.

Usage: python benchmarks/run.py [--smoke]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

# Before anything imports numpy, and for every child.
for _library in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMEXPR"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
# Installed packages are compiled; a checkout should not be compiled anew at every start beside them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

PYTHON = sys.executable
SPECSIM = str(Path(sys.executable).with_name("specsim"))

ANSWER = (
    "optimal-gamma", "--hardware", "h100", "--target", "llama-3-8b", "--draft", "llama-3.2-1b",
    "--acceptance", "rate=0.8",
)  # fmt: skip

SCENARIO = """\
format: 1
kind: sweep
name: {name}
hardware: h100-sxm5
runtime: typical
target: {target}
draft: {{model: llama-3.2-1b, tensor_parallel: 1, acceptance: {acceptance}}}
grid:
  batch_size: {batches}
  context_length: {contexts}
  gamma: 0..8
"""

INDEPENDENT = "{kind: independent, rate: 0.8}"
REGIMES = """{kind: regimes, regimes: {easy: {acceptance_probability: 0.95, mean_run_tokens: 30},
  hard: {acceptance_probability: 0.3, mean_run_tokens: 30}}}"""

GAMMAS = 9
ARRAY = 100_000
"""Elements of the arrays of the yardstick numpy.exp."""


@dataclass(frozen=True)
class Size:
    """How much is run: enough to see that all of it works, or enough to trust the figures.

    Attributes:
        sweeps: Sweeps, each followed by as many elements of numpy.exp as it has points.
        starts: Starts of each command.
        batches: Batch sizes of the streamed grid.
        contexts: Context lengths of the streamed grid.
    """

    sweeps: int
    starts: int
    batches: int
    contexts: int


SMOKE = Size(sweeps=7, starts=11, batches=100, contexts=112)
FULL = Size(sweeps=31, starts=31, batches=1000, contexts=1112)


class BenchmarkError(Exception):
    """Something behaves wrongly, however fast."""


@dataclass(frozen=True)
class Result:
    """One line: what was measured and what it should stay below, if anything."""

    name: str
    figure: float
    limit: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        figure = f"{self.figure:.0f}" if self.figure >= 1000 else f"{self.figure:.3g}"
        if self.limit is None:
            return f"{self.name:<58}{figure:>9} {self.unit}"
        verdict = "ok" if self.figure <= self.limit else "ABOVE"
        return f"{self.name:<58}{figure:>9} {self.unit:<4} limit {self.limit:<6g} {verdict}"


def main() -> int:
    """Run all of them, one line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="fewer repetitions, and 10^5 streamed rows and not 10^7")
    size = SMOKE if parser.parse_args().smoke else FULL
    for benchmark in (
        point_of_a_sweep, simulated_position, best_trees, engine_step, rate_of_the_quick_answer, engine_pass,
        help_page, first_answer, streamed_sweep,
    ):  # fmt: skip
        for result in benchmark(size):
            print(result, flush=True)
    return 0


DENSE = "llama-3-8b"
MIXTURE = "{model: gpt-oss-120b, precision: mxfp4, tensor_parallel: 8, expert_parallel: 8}"
"""The most that a target can ask for: windows beside full attention, experts in groups, two number formats."""


def point_of_a_sweep(size: Size) -> Iterator[Result]:
    """All columns of a sweep as arrays, per point, in elements of numpy.exp."""
    asked = ((DENSE, INDEPENDENT), (MIXTURE, INDEPENDENT), (DENSE, REGIMES))
    dense, mixture, regimes = (in_a_child(seconds_of_a_point, size.sweeps, *one) for one in asked)
    yield Result("point of a sweep / element of numpy.exp", dense, 100)
    yield Result("the same of experts over 8 devices / of a dense model", mixture / dense, 2)
    yield Result("the same of two regimes / of independent drafts", regimes / dense, 3)


def seconds_of_a_point(repeats: int, target: str, acceptance: str) -> float:
    """The ratio of ``point_of_a_sweep``: 128 batches x 64 contexts x 9 draft lengths."""

    from specsim.api import planning
    from specsim.catalog.resolve import read_scenario

    batches, contexts = 128, 64
    points = batches * contexts * GAMMAS
    with tempfile.TemporaryDirectory() as folder:
        resolution = read_scenario(scenario(Path(folder), batches, contexts, target, acceptance))

    def sweep() -> None:
        seen = 0
        for block in planning.sweep_blocks(resolution):
            table = planning.block_table(block)
            seen += len(table)
            for name in table.columns:
                _ = table.columns[name]
        if seen != points:
            raise BenchmarkError(f"a sweep of {points} points has {seen} rows.")

    return elements_of_exp(repeats, sweep)[0] / points


def simulated_position(size: Size) -> Iterator[Result]:
    """The time for one token position of a simulation, in elements of random numbers."""
    figure = in_a_child(seconds_of_a_position, size.sweeps)
    yield Result("position of a simulation / element of rng.random", figure, 30)


def seconds_of_a_position(repeats: int) -> float:
    """The ratio of ``simulated_position``: two regimes, gamma 4, 100,000 rounds."""
    import numpy as np

    from specsim.acceptance.regimes import RegimeChain, runs_to_transitions
    from specsim.acceptance.simulate import simulate_rounds

    chain = RegimeChain.of([0.95, 0.3], runs_to_transitions([30, 30]))
    generator, positions = np.random.default_rng(0), 0
    drawn = np.empty(ARRAY)  # written again and again, so that no time goes into fetching memory

    def simulate() -> None:
        nonlocal positions
        found = simulate_rounds(chain, 4, 100_000, generator)
        positions = found.positions * len(found.ended)

    def yardstick() -> None:
        for _ in range(10):
            generator.random(out=drawn)

    per_run, per_yardstick = interleaved(repeats, simulate, yardstick)
    return (per_run / positions) / (per_yardstick / (10 * ARRAY))


def best_trees(size: Size) -> Iterator[Result]:
    """The time for the best tree of each of 10 batches x 10 contexts, in elements of numpy.exp."""
    asked = (
        "0.634,0.108,0.057,0.0225,0.0195,0.021,0.012,0.009",
        "0.634,0.108,0.057,0.0225,0.0195,0.012,0.009,0.008",
    )
    rising, falling = (in_a_child(elements_of_a_search, size.sweeps, ranks) for ranks in asked)
    yield Result("best trees of 100 points / element of numpy.exp", rising, 50_000_000)
    yield Result("the same where no rank rises", falling, 50_000_000)


def elements_of_a_search(repeats: int, ranks: str) -> float:
    """The ratio of ``best_trees``: up to 128 nodes, 10 levels and 8 branches, resolved cards to the rows."""

    from specsim.api import trees

    batches, contexts = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32], [128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8000]
    cards = {"hardware": "h100", "target": "llama-3-8b", "draft": "llama-3.2-1b"}
    question = trees.tree_question(batches, contexts, 128, 10, 8, ranks=ranks, **cards)

    def search() -> None:
        rows = trees.tree_rows(question)
        if len(rows) != 100:
            raise BenchmarkError(f"a search over 100 points has {len(rows)} rows.")

    return elements_of_exp(repeats, search)[0]


def engine_step(size: Size) -> Iterator[Result]:
    """The time for one step of a simulated engine with a batch of 64, in elements of numpy.exp."""
    for policy in ("fixed:4", "table"):
        step, hour = in_a_child(seconds_of_an_engine_step, size.sweeps, policy)
        yield Result(f"engine step of a batch of 64, {policy} / numpy.exp", step, 20_000)
        yield Result(f"an hour of such a replica, {policy}: speed", hour, unit="times real time")


USERS, ANSWERED = 64, 1500


def seconds_of_an_engine_step(repeats: int, policy: str) -> tuple[float, float]:
    """The ratio of ``engine_step``, and simulated / real seconds: 64 users who ask again at once."""

    from specsim.api import loads
    from specsim.catalog.capacity import without_simulation
    from specsim.serving.capacity import job_of, simulated

    question = loads.capacity_question(
        hardware="h100", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8", users=USERS, prompt=500,
        output_length=512, policy=policy, max_gamma=4, requests=ANSWERED,
    )  # fmt: skip
    plan = loads.priced_plans(without_simulation(question))[-1].plan
    job = job_of(plan, question.task)
    run = simulated(job)
    if not 60 < run.in_flight_seconds / run.busy_seconds <= USERS:
        raise BenchmarkError(f"{USERS} users keep a batch of {run.in_flight_seconds / run.busy_seconds:.3g} busy.")

    elements, seconds = elements_of_exp(min(repeats, 11), lambda: simulated(job) and None)
    return elements / run.steps, run.end_seconds / seconds


def rate_of_the_quick_answer(size: Size) -> Iterator[Result]:
    """The time of the quick answer for one rate of many, in elements of numpy.exp."""
    figure = in_a_child(seconds_of_a_rate, size.sweeps)
    yield Result("rate of the quick answer / element of numpy.exp", figure, 100_000)


def seconds_of_a_rate(repeats: int) -> float:
    """The ratio of ``rate_of_the_quick_answer``: mean latencies at 256 rates, batches up to 256."""
    import numpy as np

    from specsim.api import loads
    from specsim.catalog.capacity import without_simulation
    from specsim.serving.profile import profile_of
    from specsim.serving.steady_state import steady_state

    question = loads.capacity_question(
        hardware="h100", target="llama-3-8b", draft="llama-3.2-1b", acceptance="rate=0.8", rate=5, prompt=500,
        output_length="300,1500", policy="table",
    )  # fmt: skip
    plan = loads.priced_plans(without_simulation(question))[-1].plan
    known = profile_of(plan.replica, question.task.workload.sizes)
    rates = np.linspace(0.01, 0.95, 256) * known.saturation

    def answer() -> None:
        found = steady_state(known, rates)
        if not (found.time_per_output_token > 0).all() or not (found.time_to_first_token > 0).all():
            raise BenchmarkError("a latency of the quick answer is not above 0.")

    return elements_of_exp(repeats, answer)[0] / len(rates)


def engine_pass(size: Size) -> Iterator[Result]:
    """Passes of the reference engine over a model of 120 million weights, beside plain products with all of them."""
    single, eight, products = in_a_child(seconds_of_passes, size.sweeps)
    yield Result("pass of the engine, 1 token / numpy.dot of all weights", single / products, 1.5)
    yield Result("the same of 8 tokens / of 1 token", eight / single, 2.6)


def seconds_of_passes(repeats: int) -> list[float]:
    """Medians of a pass of 1 and of 8 tokens at context 64, and of one row times every matrix, timed in turn."""
    from specsim.cli.numerics import prepare_numpy

    prepare_numpy()
    import numpy as np

    from specsim.reference.timing import Point, pass_task, products_task, time_in_turn
    from specsim.reference.toys import toy

    model = toy(vocabulary=49152, layers=30, hidden_size=576, heads=9, kv_heads=3)
    tasks = [pass_task(model, Point(1, 1, 64)), pass_task(model, Point(1, 8, 64)), products_task(model)]
    seconds = time_in_turn(tasks, repeats, time.process_time, np.random.default_rng(0))
    return [float(value) for value in np.median(seconds, axis=1)]


def help_page(size: Size) -> Iterator[Result]:
    """The time until the help page has been printed."""
    refuse_imports(["--help"], "numpy", "pandas", "scipy", "pydantic", "rich", "yaml")
    ours, click = interleaved(size.starts, process(SPECSIM, "--help"), process(PYTHON, "-c", "import click"))
    yield Result("specsim --help / python -c 'import click'", ours / click, 1.5)


def first_answer(size: Size) -> Iterator[Result]:
    """The time until a question of one line has been answered."""
    refuse_imports([*ANSWER], "pandas", "scipy", "rich")
    ours, numpy = interleaved(size.starts, process(SPECSIM, *ANSWER), process(PYTHON, "-c", "import numpy"))
    yield Result("specsim optimal-gamma / python -c 'import numpy'", ours / numpy, 3)


def streamed_sweep(size: Size) -> Iterator[Result]:
    """Memory and speed of a grid that is written to a CSV file, watched in a terminal."""
    points = size.batches * size.contexts * GAMMAS
    with tempfile.TemporaryDirectory(prefix="specsim-benchmark-") as name:
        folder = Path(name)
        config, output = scenario(folder, size.batches, size.contexts), folder / "rows.csv"
        start = time.perf_counter()
        shown, peak_bytes = in_a_terminal([SPECSIM, "sweep", "--config", str(config), "--output", str(output)])
        seconds = time.perf_counter() - start
        rows = number_of_lines(output) - 1
    if rows != points:
        raise BenchmarkError(f"a sweep of {points} points wrote {rows} rows.")
    if not re.search(rb"\r(?!\n)|\x1b", shown):
        raise BenchmarkError(f"no progress bar was drawn; the terminal shows {shown[-200:]!r}.")
    yield Result(f"{points} rows streamed to CSV: peak memory", peak_bytes / 2**30, 2, "GiB")
    yield Result(f"{points} rows streamed to CSV: speed", rows / seconds, unit="rows/s")


def in_a_child(measure: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process of its own.

    The peak memory of later children would start from ours: numpy never comes in here.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def elements_of_exp(repeats: int, work: Callable[[], None]) -> tuple[float, float]:
    """The time of some work in that of elements of numpy.exp, and in seconds."""
    import numpy as np

    x = np.random.default_rng(0).standard_normal(ARRAY)
    y = np.empty_like(x)  # written again and again, so that no time goes into fetching memory

    def yardstick() -> None:
        for _ in range(10):
            np.exp(x, out=y)

    per_work, per_yardstick = interleaved(repeats, work, yardstick)
    return per_work / (per_yardstick / (10 * ARRAY)), per_work


def interleaved(repeats: int, first: Callable[[], None], second: Callable[[], None]) -> tuple[float, float]:
    """Median seconds of each of two calls, in turns, so that what slows the machine down meets both."""
    first()
    second()
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for call, taken in zip((first, second), seconds, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return median(seconds[0]), median(seconds[1])


def process(*command: str) -> Callable[[], None]:
    """A call that runs a command with its output in a pipe."""

    def call() -> None:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchmarkError(f"exit code {done.returncode} from: {' '.join(command)}\n{done.stderr}")

    return call


def refuse_imports(arguments: list[str], *heavy: str) -> None:
    """See which modules a command imports.

    Raises:
        BenchmarkError: If it imports what it has no need of.
    """
    command = [PYTHON, "-X", "importtime", SPECSIM, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    if done.returncode or "click" not in imported:
        raise BenchmarkError(f"exit code {done.returncode} from: {' '.join(command)}\n{done.stderr[-2000:]}")
    if found := imported.intersection(heavy):
        raise BenchmarkError(f"specsim {arguments[0]} imports {', '.join(sorted(found))}.")


def scenario(folder: Path, batches: int, contexts: int, target: str = DENSE, acceptance: str = INDEPENDENT) -> Path:
    """A scenario file with batches from 1 upward, and contexts spread over what Llama-3-8B takes."""
    step = 8000 // contexts
    grid = (list(range(1, batches + 1)), list(range(1, contexts * step + 1, step)))
    path = folder / "scenario.yaml"
    text = SCENARIO.format(
        name=f"{batches} batches, {contexts} contexts",
        batches=grid[0],
        contexts=grid[1],
        target=target,
        acceptance=acceptance,
    )
    path.write_text(text, encoding="utf-8")
    return path


def in_a_terminal(command: list[str]) -> tuple[bytes, int]:
    """Run a command with a terminal as its stderr; what the terminal shows, and the peak memory in bytes.

    Raises:
        BenchmarkError: If the command fails.
    """
    ours, theirs = pty.openpty()
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs)
    finally:
        os.close(theirs)
    shown = bytearray()
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        pass  # How Linux says that the other end has been closed.
    finally:
        os.close(ours)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise BenchmarkError(
            f"exit code {child.returncode} from: {' '.join(command)}\n{shown.decode(errors='replace')}"
        )
    return bytes(shown), usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def number_of_lines(path: Path) -> int:
    """Lines of a file of any size."""
    with path.open("rb") as file:
        return sum(part.count(b"\n") for part in iter(lambda: file.read(2**20), b""))


if __name__ == "__main__":
    sys.exit(main())
