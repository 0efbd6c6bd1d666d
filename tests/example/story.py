"""What happened: seven weeks of one developer with pi, decided by a seeded random generator.

A week has its rhythm, contexts grow with what tools give back, caches go cold when nobody asks for five minutes, one
afternoon a provider is overloaded, one machine lags behind with an old pi. Nothing here is written down; `pi` does that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.bench.parts import Model
from tests.example import words
from tests.example.books import Books, Spent
from tests.example.pi import Call, Pi, Reply
from tests.scribe import DIALECTS, Dialect

MONDAY_MS: Final = 1_791_158_400_000  # 2026-10-05, 00:00 UTC
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
WEEKS: Final = 7
A_DAY: Final = (3.2, 3.4, 3.6, 3.2, 2.2, 0.35, 0.15)  # sessions begun, Monday first
HOURS: Final = (6.5, 7, 7.4, 8, 8.5, 9, 9.6, 11.5, 12, 12.6, 13.2, 14, 14.5, 15.5, 18.8)
INCIDENT: Final = (MONDAY_MS + 23 * DAY_MS + 12 * HOUR_MS, MONDAY_MS + 23 * DAY_MS + 17 * HOUR_MS)
"""A Wednesday afternoon on which ember is overloaded."""

BASE_TOKENS: Final = 7_400  # system prompt and tools
RESERVE_TOKENS: Final = 16_384  # pi compacts when less than this is left of the window
TOKENS_A_BYTE: Final = 18  # results are kept short here; this is what makes contexts grow as in real work


@dataclass(frozen=True)
class Kind:
    """A model and how it behaves. Speeds are of a quiet hour."""

    model: Model
    first_ms: int
    tokens_per_s: int
    window: int
    cache_ms: int  # how long a cache stays warm
    writes: bool = False  # cache writes are paid for


def _kind(name: str, api: str, prices: tuple[int, int, int, int], *speed: int, writes: bool = False) -> Kind:
    provider = name.split("-", maxsplit=1)[0]
    return Kind(Model(provider, name, api, prices), *speed, writes=writes)


EMBER: Final = _kind("ember-1", "anthropic-messages", (3000, 15000, 300, 3750), 900, 72, 200_000, 300_000, writes=True)
EMBER_PRO: Final = _kind(
    "ember-1-pro", "anthropic-messages", (10000, 50000, 1000, 12500), 1700, 40, 200_000, 300_000, writes=True
)
QUILL: Final = _kind("quill-large", "openai-completions", (1250, 10000, 125, 0), 1300, 60, 128_000, 600_000)
QUILL_SMALL: Final = _kind("quill-small", "openai-completions", (250, 2000, 25, 0), 450, 150, 128_000, 600_000)
PLAIN: Final = _kind("plain-8b", "openai-completions", (0, 0, 0, 0), 2600, 30, 32_768, 0)  # at home: no price

PROJECTS: Final = {
    "shop": (0.40, ((EMBER, 0.6), (EMBER_PRO, 0.12), (QUILL_SMALL, 0.28))),
    "tide-tables": (0.27, ((QUILL, 0.55), (EMBER, 0.3), (PLAIN, 0.15))),
    "letterpress": (0.20, ((EMBER, 0.45), (QUILL_SMALL, 0.35), (QUILL, 0.2))),
    "firmware": (0.13, ((PLAIN, 0.55), (QUILL_SMALL, 0.45))),
}

# of the calls; and of these calls, how many fail
TOOLS: Final = {
    "read": 0.33, "bash": 0.3, "edit": 0.16, "grep": 0.09, "write": 0.06, "web_fetch": 0.04, "subagent": 0.02,
}  # fmt: skip
FAILS: Final = {"read": 0.03, "bash": 0.13, "edit": 0.09, "grep": 0.04, "write": 0.01, "web_fetch": 0.1}
LASTS: Final = {  # median ms and spread of the logarithm
    "read": (14, 0.5), "bash": (900, 1.5), "edit": (24, 0.5), "grep": (90, 0.8), "write": (16, 0.5),
    "web_fetch": (1300, 0.7),
}  # fmt: skip
RETRIED: Final = {
    "ember": (
        ("overloaded", '529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', 0.6),
        ("network", "Anthropic stream ended before message_stop", 0.25),
        ("server_error", '500 {"type":"error","error":{"type":"api_error","message":"Internal server error"}}', 0.15),
    ),
    "quill": (
        ("rate_limited", '429: {"type":"rate_limit_error","message":"Rate limit reached, slow down"}', 0.55),
        ("server_error", '503: {"type":"server_error","message":"Service unavailable"}', 0.25),
        ("timeout", "Request timed out.", 0.2),
    ),
    "plain": (("network", "fetch failed: ECONNREFUSED 127.0.0.1:8080", 1.0),),
}
OVERFLOW: Final = (
    '400: {"type":"invalid_request_error","message":"This model\'s maximum context length is 32768 tokens."}'
)

EXPIRED: Final = '401: {"type":"authentication_error","message":"invalid api key"}'


def dialect(project: str, now: int) -> Dialect:
    """Which pi was installed: one machine lags behind."""
    week = (now - MONDAY_MS) // (7 * DAY_MS)
    versions = {each.name: each for each in DIALECTS}
    if project == "firmware":
        return versions["0.73.1" if week < 4 else "0.84.0"]
    return versions["0.80.10" if week < 1 else "0.84.0" if week < 3 else "1.6.0"]


@dataclass
class Place:
    """A place in the tree that the user may go back to or fork from: the end of a prompt."""

    entry: str
    context: int


@dataclass
class Work:
    """One session being worked on."""

    pi: Pi
    dice: Random
    kind: Kind
    project: str
    way: str  # json and rpc are recorded, terminal is not
    alone: bool = False  # a sub-agent has none of its own
    context: int = BASE_TOKENS
    cached: int = 0
    cached_at: int = 0
    places: list[Place] = field(default_factory=list)
    children: list[Pi] = field(default_factory=list)
    attempts: int = 0  # failed ones before the answer that comes

    def start(self) -> None:
        """Pi starts, or is started again."""
        now = self.pi.now
        version, recorded = dialect(self.project, now), self.way != "terminal"
        self.pi.open(version, self.kind.model, recorded=recorded, rpc=self.way == "rpc")
        self.pi.now += 400

    def prompt(self, turns: int, *, abort: bool = False, kill: bool = False, text: str = "") -> None:
        """A prompt and the work on it."""
        pi, dice = self.pi, self.dice
        pool = words.FOLLOW_UPS if self.places else words.PROMPTS
        pi.prompt(text or dice.choice(pool), queued=int(self.way == "rpc" and dice.random() < 0.3))
        self.context += 40
        for turn in range(turns):
            if turn:
                pi.next_turn()
            last = turn == turns - 1
            if kill and last:
                self._killed()
                return
            if self._in_the_way():
                return
            if abort and last:
                self._abort()
                return
            before = pi.now
            reply = self._reply(last=last)
            pi.turn(reply, after_retry=self.attempts)
            self._sent(reply, before)
            if not last and self._full() and pi.dialect.durations:
                self._compact("threshold")
        pi.end_run("ok")
        if self._full():
            self._compact("threshold")
        pi.settled()
        self._stay()

    def _stay(self) -> None:
        assert self.pi.leaf is not None
        self.places.append(Place(self.pi.leaf, self.context))

    def pause(self, median_ms: int = 80_000) -> None:
        """The user reads, thinks, and asks again."""
        self.pi.now += 4000 + int(self.dice.lognormvariate(0, 1.1) * median_ms)

    # --- answers ----------------------------------------------------------------------------------------------------

    def _spent(self, output: int, reasoning: int) -> Spent:
        kind, dice = self.kind, self.dice
        warm = self.cached and self.pi.now - self.cached_at < kind.cache_ms and dice.random() > 0.02
        read = min(self.cached, self.context - 5) if warm else 0
        if kind.writes:
            fresh = dice.randint(3, 5)
            return Spent(kind.model, fresh, output, read, self.context - read - fresh, reasoning)
        read -= read % 128
        return Spent(kind.model, self.context - read, output, read, 0, reasoning)

    def _times(self, spent: Spent) -> tuple[int, int]:
        """Time to the first token and in all, ms: longer in the afternoon, and for what no cache holds."""
        dice, kind, hour = self.dice, self.kind, self.pi.now % DAY_MS // HOUR_MS
        busy = 1.4 if 13 <= hour < 17 and kind is not PLAIN else 1.0
        fresh = spent.input + spent.cache_write
        first = kind.first_ms * busy * dice.lognormvariate(0, 0.35) * (1 + fresh / 60_000)
        rate = kind.tokens_per_s / busy * dice.lognormvariate(0, 0.2)
        return int(first), int(first + 1000 * spent.output / rate)

    def _reply(self, *, last: bool) -> Reply:
        dice = self.dice
        modern = self.pi.dialect.settles
        thinks = self.kind in {EMBER_PRO, QUILL} or dice.random() < 0.3
        calls = 0 if last else dice.choices((1, 2, 3, 4), (0.68, 0.18, 0.09, 0.05))[0]
        output = int(dice.lognormvariate(0, 0.6) * (320 if last else 110)) + 70 * calls
        reasoning = int(dice.lognormvariate(0, 0.7) * 160) if thinks else 0
        spent = self._spent(output + reasoning, reasoning if modern else 0)
        first, ms = self._times(spent)
        return Reply(
            spent,
            words.text(dice, words.THOUGHTS, 1, 2) if thinks else "",
            words.text(dice, words.SAID, 2, 4) if last else words.text(dice, words.SAID, 0, 1),
            tuple(self._call(self.pi.now + ms + 10 + 7 * number) for number in range(calls)),
            first, ms, ("length" if self._long() else "stop") if last else "toolUse",
        )  # fmt: skip

    def _long(self) -> bool:
        """Whether an answer reaches its limit; from 0.87 on pi would compact and try again."""
        return not self.pi.dialect.system and self.dice.random() < 0.06

    def _call(self, now: int) -> Call:
        dice = self.dice
        tool = dice.choices(tuple(TOOLS), tuple(TOOLS.values()))[0]
        if tool == "subagent" and (self.alone or self.kind is PLAIN or not self.pi.dialect.compaction_usage):
            tool = "bash"
        args = words.arguments(dice, tool)
        if tool == "subagent":
            return self._subagent(args, now)
        middle, spread = LASTS[tool]
        ms = 2 + min(int(dice.lognormvariate(0, spread) * middle), 600_000)
        if dice.random() < FAILS[tool]:
            return Call(tool, args, ms, words.FAILURES[tool], "error")
        return Call(tool, args, ms, words.output(dice, tool))

    def _subagent(self, args: dict[str, str], now: int) -> Call:
        """A tool that asks a small model; its session is a file of its own two times out of three."""
        dice = self.dice
        kept = dice.random() < 0.66
        pi = Pi(self.pi.books if kept else Books(), session_id(dice, now), self.pi.header["cwd"], now)
        child = Work(pi, dice, QUILL_SMALL, self.project, "terminal", alone=True)
        child.start()
        child.prompt(dice.randint(2, 5), text=args["task"])
        pi.close()
        used = [each[1:] for each in pi.spent.values()]
        spent = Spent(QUILL_SMALL.model, *(sum(column) for column in zip(*used, strict=True)))
        if kept:
            self.children.append(pi)
        return Call("subagent", args, pi.now - now, words.output(dice, "subagent"), spent=spent)

    def _sent(self, reply: Reply, at: int) -> None:
        """What was sent is in the cache from the answer on; the answer and the results are in the context."""
        self.cached, self.cached_at = reply.spent.context, at + reply.ms
        given = sum(len(call.text.encode()) for call in reply.calls)
        self.context = reply.spent.context + reply.spent.output + 12 * len(reply.calls) + TOKENS_A_BYTE * given

    # --- what comes between -----------------------------------------------------------------------------------------

    def _in_the_way(self) -> bool:
        """What may go wrong before an answer; whether that was the end of the prompt."""
        self.attempts = 0
        if self.context > self.kind.window - 500:
            self._overflow()
        dice, pi = self.dice, self.pi
        provider = self.kind.model.provider
        incident = provider == "ember" and INCIDENT[0] <= pi.now < INCIDENT[1]
        if dice.random() > (0.35 if incident else 0.025):
            return False
        failures = dice.choices((1, 2, 3, 4), (0.4, 0.3, 0.15, 0.15) if incident else (0.7, 0.2, 0.06, 0.04))[0]
        for attempt in range(1, failures + 1):
            why, error, _ = dice.choices(RETRIED[provider], [each[2] for each in RETRIED[provider]])[0]
            if incident:
                why, error, _ = RETRIED["ember"][0]
            reply = self._failed(why, error)
            if attempt == 4:
                self._give_up(reply)
                return True
            pi.fail(reply, attempt, 2000 * 2 ** (attempt - 1), why)
            if self.way == "rpc" and dice.random() < 0.25:
                pi.end_retry(attempt, "aborted")
                pi.settled()
                self._stay()
                return True
            pi.run()
            self.attempts = attempt
        return False

    def _failed(self, why: str, error: str) -> Reply:
        """An answer that is an error. A stream that breaks has been paid for up to there; an HTTP error has not."""
        model, dice = self.kind.model, self.dice
        if why == "network" and self.kind.writes:
            return Reply(self._spent(dice.randint(20, 90), 0), "", "I will", (), 700, 2600, "error", error)
        ms = 30_000 if why == "timeout" else dice.randint(120, 900)
        return Reply(Spent(model), ms=ms, stop="error", error=error)

    def _give_up(self, reply: Reply) -> None:
        self.pi.refuse(reply)
        self.pi.end_retry(3, "exhausted", reply.error)
        self.pi.settled()
        self._stay()

    def refused(self) -> None:
        """A prompt that the provider turns away: nothing to try again."""
        self.pi.prompt(self.dice.choice(words.PROMPTS))
        self.pi.refuse(Reply(Spent(self.kind.model), ms=210, stop="error", error=EXPIRED))
        self.pi.settled()
        self._stay()

    def _overflow(self) -> None:
        """The provider refuses what does not fit; pi summarises and tries again in another run."""
        self.pi.refuse(Reply(Spent(self.kind.model), ms=340, stop="error", error=OVERFLOW))
        self.pi.leave_out()
        self._compact("overflow")
        self.pi.run()

    def _full(self) -> bool:
        return self.context > self.kind.window - RESERVE_TOKENS

    def _compact(self, reason: str) -> None:
        dice, before = self.dice, self.context
        if reason == "threshold" and dice.random() < 0.12:
            self.pi.fail_compaction(reason, 2100)
            return
        output = dice.randint(600, 1400)
        fresh = min(before, self.kind.window - 4000)
        spent = Spent(self.kind.model, fresh, output)
        _, ms = self._times(spent)
        after = min(BASE_TOKENS + dice.randint(9_000, 16_000), before // 2)
        self.pi.compact(reason, before, after, spent, ms, will_retry=reason == "overflow")
        self.context, self.cached = after, 0

    def tidy(self) -> None:
        """The user asks for a compaction."""
        self._compact("manual")

    def go_back(self, place: int) -> None:
        """The user goes back to the end of an earlier prompt and tries something else."""
        there = self.places[place]
        asked = self.dice.random() < 0.5
        summary = Spent(self.kind.model, self.context, self.dice.randint(300, 700)) if asked else None
        self.pi.go_back(there.entry, summary)
        self.places = self.places[: place + 1]
        self.context, self.cached = there.context + (600 if summary else 0), min(self.cached, there.context)

    def warm(self) -> None:
        """Pi keeps the cache warm: the context is read once more, for one token."""
        if self.cached and self.kind.writes and self.pi.dialect.durations:
            self.pi.warm(Spent(self.kind.model, 3, 1, self.cached))
            self.cached_at = self.pi.now

    def _abort(self) -> None:
        """The user stops pi while a tool runs."""
        spent = self._spent(150, 0)
        first, ms = self._times(spent)
        ran = self.dice.randint(4_000, 60_000)
        call = Call("bash", words.arguments(self.dice, "bash"), ran, words.ABORTED, "aborted")
        pi, before = self.pi, self.pi.now
        reply = Reply(spent, "", "Now I run the tests.", (call,), first, ms, "toolUse")
        pi.turn(reply, after_retry=self.attempts)
        self._sent(reply, before)
        pi.next_turn()
        pi.turn(Reply(Spent(self.kind.model), ms=0, stop="aborted", error="This operation was aborted"))
        pi.end_run("aborted")
        pi.settled(aborted=True)
        self._stay()

    def _killed(self) -> None:
        """Pi is killed while an answer streams: its last report is all there is of it."""
        spent = self._spent(60, 0)
        self.pi.turn(Reply(spent, "", "I found the reason. ", (), 800, 1900, "stop", kept=False))


def session_id(dice: Random, now: int) -> str:
    """A version 7 UUID, as pi makes them."""
    digits = f"{now:012x}7{dice.getrandbits(12):03x}8{dice.getrandbits(60):015x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
