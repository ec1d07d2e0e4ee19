"""A replica over time, one event for each step of its engine: continuous batching with speculation.

In each step the policy chooses a round for the batch; requests that no longer fit give their blocks back, the newest
first, and are read again later; what the step has left of its tokens goes to prompts, in the order of their arrival.
The first token of a request comes with the last part of its prompt, all others from rounds.

Everything random is drawn before (``texts``), so that a step is a look-up, a sum and a few additions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from specsim.serving.replica import Replica, Run
from specsim.serving.requests import Requests
from specsim.serving.texts import LAST, draw_texts

_WATERMARK = 0.99
"""Share of the cache beyond which no request is taken in beside others: they need room to grow."""


def simulate(
    replica: Replica,
    requests: Requests,
    generator: np.random.Generator,
    *,
    think_seconds: float | None = None,
    log: bool = False,
) -> Run:
    """Requests on one replica, from empty to empty.

    Args:
        replica: The replica.
        requests: In the order of their arrival; each must fit on it alone.
        generator: Source of randomness.
        think_seconds: Mean pause of closed loops; None if arrivals do not wait for answers.
        log: Whether to keep every event.
    """
    return _Simulation(replica, requests, generator, think_seconds, log).run()


@dataclass(slots=True)
class _Reading:
    """A prompt that is being read.

    Attributes:
        request: Whose.
        done: Tokens of it that are in the cache.
        needed: Tokens that must be.
        share: Share of the cache that is kept for it.
    """

    request: int
    done: int
    needed: int
    share: float


_Chunk = tuple[_Reading, int, int]
"""A prompt, tokens of it that a step reads, and those before them."""


class _Simulation:
    """The state of one run: arrays hold the requests that decode, at their front; lists have an entry for each."""

    def __init__(
        self, replica: Replica, requests: Requests, generator: np.random.Generator, think: float | None, log: bool
    ) -> None:
        self.replica, self.requests, number = replica, requests, len(requests)
        texts = draw_texts(replica.choices, requests, generator)
        self.emitted = texts.emitted
        self.start, self.end = texts.start.tolist(), texts.end.tolist()
        self.prompt = requests.prompt_tokens.tolist()
        self.arrival = requests.arrival_seconds.tolist()
        known = [(time, i) for i, time in enumerate(self.arrival) if time == time]
        self.pauses = None if think is None else generator.exponential(1.0, number) * think
        self.pending, self.unborn = known, len(known)
        heapify(self.pending)
        self.chooser = replica.policy.begin(number)
        engine = replica.engine
        self.most = most = engine.max_batch_size
        self.separate, self.cached_share = engine.prefill == "separate", engine.prefix_hit_share
        self.position, self.base = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
        self.numbers, self.tokens = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int32)
        self.n, self.context_sum = 0, 0
        self.waiting: deque[int] = deque()
        self.reading: list[_Reading] = []
        self.reading_share, self.admissions = 0.0, 0
        self.admitted = [0] * number
        self.resumed = dict[int, tuple[int, float]]()  # position and last token's time of those that were preempted
        self.first, self.finish = [float("nan")] * number, [float("nan")] * number
        self.preempted, self.given = [0] * number, [0] * number
        self.widest = int(replica.times.verified_tokens.max())
        self.gaps: list[float] = []
        self.gap_counts: list[int] = []
        self.last_round, self.fresh = 0.0, list[float]()
        self.now = 0.0
        self.events: list[tuple[float, str, int]] | None = [] if log else None
        cache = replica.cache
        # No request of n tokens takes more than fixed + n x per_token of the cache.
        self.per_token = float(np.diff(cache.share_of_blocks[1:], append=cache.share_of_blocks[-1]).max())
        self.per_token = max(self.per_token, 1e-300) / cache.block_tokens
        self.fixed = max(float(cache.share_of_blocks[1]) - self.per_token * cache.block_tokens, 0.0)
        self.slack = cache.block_tokens - 1
        self.shares = cache.share_of_blocks.tolist()
        self.views()

    def views(self) -> None:
        """Parts of the arrays that are in use; they are made anew when their number changes, and not in every step."""
        n = self.n
        self.at, self.who, self.out = self.position[:n], self.numbers[:n], self.tokens[:n]

    def event(self, what: str, request: int) -> None:
        if self.events is not None:
            self.events.append((self.now, what, request))

    def run(self) -> Run:
        replica = self.replica
        lookup, verified = replica.times.lookup, replica.times.verified_tokens.tolist()
        gamma = replica.choices.gamma.tolist()
        choose, learns, budget_tokens = self.chooser.choose, self.chooser.learns, replica.engine.max_batch_tokens
        separate = self.separate
        entries, per_entry = len(replica.times.context), lookup.per_token
        time_at = [0.0] * (replica.times.max_batch_size * entries)
        busy = drafting = verification = overhead = prompts = in_flight = cached = 0.0
        steps = rounds = drafted = round_tokens = 0
        per_token, per_request, gaps, gap_counts = self.per_token, self.fixed, self.gaps, self.gap_counts
        slack = self.slack
        pending, waiting, reading = self.pending, self.waiting, self.reading
        add = np.add.reduce
        while True:
            while pending and pending[0][0] <= self.now:
                waiting.append(heappop(pending)[1])
            if not self.n and not reading and not waiting:
                if not pending:
                    break
                self.now = pending[0][0]
                continue
            n, choice, width, crowded = self.n, 0, 1, False
            if n:
                mean = self.context_sum / n
                choice = choose(n, mean, self.who)
                width = verified[choice]
                # A bound that is easy to have, and the exact sum only where that is too much.
                bound = self.reading_share + n * per_request + per_token * (self.context_sum + n * (width + slack))
                if bound > 1.0 and self.exactly_used(width) > 1.0:
                    crowded = self.make_room(width)
                    n = self.n
                    if n == 0:
                        continue
                    mean = self.context_sum / n
            chunks: list[_Chunk] = []
            if reading or waiting:
                chunks = self.prompts(budget_tokens - (0 if separate else n * width), width, crowded)
            decoding = n if not (separate and chunks) else 0
            seconds = 0.0
            if decoding:
                a, b, c = lookup.round(choice, n, mean)
                seconds = a + b + c
                drafting += a
                verification += b
                overhead += c
                place = int(mean * per_entry + 0.5)
                time_at[(n - 1) * entries + (place if place < entries else entries - 1)] += seconds
            if chunks:
                added = lookup.prompts(decoding * width, [(tokens, done) for _, tokens, done in chunks])
                prompts += added
                seconds += added
            self.now += seconds
            busy += seconds
            steps += 1
            in_flight += (n + len(reading)) * seconds
            cached += (n * per_request + per_token * (self.context_sum + n * width) + self.reading_share) * seconds
            if decoding:
                out = self.out
                self.emitted[choice].take(self.at, out=out)
                total = int(add(out))
                rounds += n
                drafted += n * gamma[choice]
                if self.fresh:
                    self.gap()
                else:
                    gaps.append(self.now - self.last_round)
                    gap_counts.append(n)
                self.last_round = self.now
                if learns:
                    self.chooser.saw(self.who.copy(), (out & (LAST - 1)) - 1, choice)
                if total < LAST:
                    self.at += out
                else:
                    total = self.finish_some(out, total)
                self.context_sum += total
                round_tokens += total
            if chunks:
                self.read(chunks)
        return Run(
            requests=self.requests.at(np.array(self.arrival)),
            first_token_seconds=np.array(self.first),
            finish_seconds=np.array(self.finish),
            emitted_tokens=np.array(self.given, dtype=np.int64),
            preemptions=np.array(self.preempted, dtype=np.int64),
            gap_seconds=np.array(self.gaps),
            gap_count=np.array(self.gap_counts, dtype=np.int64),
            end_seconds=self.now,
            busy_seconds=busy,
            part_seconds=(drafting, verification, overhead, prompts),
            in_flight_seconds=in_flight,
            cache_seconds=cached,
            steps=steps,
            rounds=rounds,
            drafted=drafted,
            round_tokens=round_tokens,
            time_at=np.array(time_at).reshape(-1, entries),
            events=tuple(self.events or ()),
        )

    def exactly_used(self, width: int) -> float:
        kept = self.at + self.base[: self.n] + width
        return float(self.replica.cache.share(kept).sum()) + self.reading_share

    def make_room(self, width: int) -> bool:
        """Take blocks from the newest requests until the others have room for a step."""
        while self.exactly_used(width) > 1.0 and self.n + len(self.reading) > 1:
            newest = max(range(self.n), key=lambda i: self.admitted[self.numbers[i]], default=-1)
            if self.reading and (
                self.n == 0 or self.admitted[self.reading[-1].request] > self.admitted[self.numbers[newest]]
            ):
                entry = self.reading.pop()
                request = entry.request
                self.reading_share -= entry.share
                if not self.reading:
                    self.reading_share = 0.0
            else:
                request, position = int(self.numbers[newest]), int(self.position[newest])
                self.resumed[request] = (position, self.fresh.pop() if self.fresh else self.last_round)
                self.context_sum -= position + int(self.base[newest])
                self.remove(newest)
                self.views()
            self.preempted[request] += 1
            self.waiting.appendleft(request)
            self.event("preempted", request)
        return True

    def entry_of(self, request: int) -> _Reading:
        """What must be in the cache before a request goes on: its prompt, and what it was given."""
        resumed = self.resumed.get(request)
        needed = self.prompt[request] + (resumed[0] - self.start[request] if resumed else 0)
        blocks = (needed + self.widest + self.slack) // self.replica.cache.block_tokens
        share = self.shares[blocks if blocks < len(self.shares) else -1]
        return _Reading(request, int(self.prompt[request] * self.cached_share), needed, share)

    def prompts(self, budget: int, width: int, crowded: bool) -> list[_Chunk]:
        """Parts of prompts for this step, those that were begun first, then waiting ones that fit."""
        reading, found = self.reading, list[_Chunk]()
        for entry in reading:
            if budget <= 0:
                return found
            tokens = min(entry.needed - entry.done, budget)
            found.append((entry, tokens, entry.done))
            budget -= tokens
        while self.waiting and budget > 0 and not crowded and self.n + len(reading) < self.most:
            entry = self.entry_of(self.waiting[0])
            tokens = entry.needed - entry.done
            bound = self.reading_share + self.n * self.fixed
            bound += self.per_token * (self.context_sum + self.n * (width + self.slack))
            full = bound + entry.share > _WATERMARK and self.exactly_used(width) + entry.share > _WATERMARK
            if full and self.n + len(reading):
                break
            if self.separate and found and tokens > budget:
                break
            request = self.waiting.popleft()
            self.reading_share += entry.share
            self.admissions += 1
            self.admitted[request] = self.admissions
            reading.append(entry)
            self.event("admitted", request)
            if not self.separate:
                tokens = min(tokens, budget)
            found.append((entry, tokens, entry.done))
            budget -= tokens
        return found

    def read(self, chunks: list[_Chunk]) -> None:
        """Parts of prompts have been read: those that are whole give a token, and decode from now on."""
        joined = self.n
        for entry, tokens, _ in chunks:
            entry.done += tokens
            if entry.done < entry.needed:
                continue
            request = entry.request
            self.reading_share -= entry.share
            self.reading.remove(entry)
            resumed = self.resumed.pop(request, None)
            if resumed is None:
                position = self.start[request] + 1
                self.first[request] = self.now
                self.event("first_token", request)
            else:
                position = resumed[0] + 1
                self.gaps.append(self.now - resumed[1])
                self.gap_counts.append(1)
                self.event("resumed", request)
            if position == self.end[request]:
                self.done(request, position)
            else:
                self.join(request, position)
        if not self.reading:
            # What rounding has left.
            self.reading_share = 0.0
        if self.n > joined:
            self.views()

    def join(self, request: int, position: int) -> None:
        n = self.n
        if n == 0:
            self.last_round = self.now
            self.fresh.clear()
        elif self.last_round != self.now:
            self.fresh.append(self.now)
        base = self.prompt[request] - self.start[request] - 1
        self.position[n], self.base[n], self.numbers[n] = position, base, request
        self.context_sum += position + base
        self.n = n + 1

    def gap(self) -> None:
        """Every request in the batch has had a chunk now, and some had their first one after the round before."""
        old = self.n - len(self.fresh)
        if old:
            self.gaps.append(self.now - self.last_round)
            self.gap_counts.append(old)
        for since in self.fresh:
            self.gaps.append(self.now - since)
            self.gap_counts.append(1)
        self.fresh.clear()

    def finish_some(self, out: np.ndarray, total: int) -> int:
        """Add what a round emitted where some requests end with it; the tokens that it emitted.

        Those that end leave the sum of contexts with what they had before it.
        """
        if total < 2 * LAST:
            last = int(out.argmax())
            out[last] -= LAST
            ended = [last]
        else:
            ended = np.flatnonzero(out >= LAST).tolist()
            out[ended] -= LAST
        self.at += out
        for index in reversed(ended):
            request, position = int(self.numbers[index]), int(self.position[index])
            self.context_sum -= position + int(self.base[index])
            self.done(request, position)
            self.remove(index)
        self.views()
        return total & (LAST - 1)

    def remove(self, index: int) -> None:
        """The last one takes the place of one that leaves."""
        last = self.n - 1
        for values in (self.position, self.base, self.numbers):
            values[index] = values[last]
        self.n = last

    def done(self, request: int, position: int) -> None:
        self.finish[request] = self.now
        self.given[request] = position - self.start[request]
        self.event("finished", request)
        if self.pauses is not None and self.unborn < len(self.arrival):
            following, self.unborn = self.unborn, self.unborn + 1
            self.arrival[following] = self.now + float(self.pauses[following])
            heappush(self.pending, (self.arrival[following], following))
