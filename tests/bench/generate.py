"""Large, deterministic pi streams and session files in the shapes of the recordings, with exact totals.

    python -m tests.bench.generate --dialect delta --size 100MB --output big.jsonl    # totals as JSON on stdout

    from tests.bench.generate import Generator
    generator = Generator("session", seed=7, clean=True)
    for chunk in generator.chunks(50_000_000): ...     # whole lines; memory is that of one turn
    generator.totals.cost_nano                         # exact: prices are whole nano-dollars

Dialects: delta (`pi --mode json` of 1.6), cumulative (of 0.73), session (session files of 1.6). A file is a row of whole
sessions, each with its header; it ends with the first session that reaches the size. Same arguments, same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from tests.bench import parts, wire
from tests.bench.texts import Texts
from tests.bench.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")

DIALECTS: Final = tuple(wire.WRITERS)
Spent = tuple[int, int, int, int, int, int]
"""TOKENS and the cost in nano-dollars."""

TOKENS: Final = ("input", "output", "cacheRead", "cacheWrite", "reasoning")

MODELS: Final = (
    parts.Model("ember", "ember-1", "anthropic-messages", (5000, 25000, 500, 6250)),
    parts.Model("quill", "quill-small", "openai-completions", (600, 2400, 60, 750)),
    parts.Model("quill", "quill-large", "openai-completions", (3000, 12000, 300, 3750)),
    parts.Model("plain", "plain-8b", "openai-completions", (0, 0, 0, 0)),  # reports no usage
)
_SHARES: Final = (0.4, 0.75, 0.95, 1.0)  # of the sessions, running sum
_FILES: Final = ("src/prices.py", "src/basket.py", "src/report.txt", "notes.txt", "README.md")
_OVERLOADED: Final = (
    '529 {\\"type\\":\\"error\\",\\"error\\":{\\"type\\":\\"overloaded_error\\",\\"message\\":\\"Overloaded\\"}}'
)
_EPOCH: Final = 1_796_065_800_000  # ms; the day of the recordings
_RETRY_MS: Final = 2000


class Generator:
    """Writes sessions, one after the other, and keeps the totals of what it has handed out.

    Args:
        dialect: One of DIALECTS.
        seed: Another seed gives another file of the same mix.
        clean: No half emojis, so that strict parsers read every line.
        long: Texts of the length of real work: tool output of 2 to 50 kB, thinking, signatures.
    """

    def __init__(self, dialect: str, *, seed: int = 1, clean: bool = False, long: bool = False) -> None:
        if dialect not in wire.WRITERS:
            raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, not {dialect}")
        self.totals = Totals(dialect)
        self._random = Random(f"{dialect} {seed}")
        self._rnd = self._random.random
        self._texts = Texts(self._random, halves=not clean, long=long)
        self._writer = wire.WRITERS[dialect]()
        self.totals.types = self._writer.types
        self._usages = {
            (model.name, thought): self._some_usages(model, thought=thought)
            for model in MODELS
            for thought in (False, True)
        }
        self._thinks = 0.6 if long else 0.25  # share of the answers
        self._long = long
        self._session_id_tail = self._random.getrandbits(32)
        self._now = _EPOCH + int(self._rnd() * 10**9)
        self._made = 0  # ids handed out

    def chunks(self, size: int) -> Iterator[bytes]:
        """Whole sessions until `size` bytes are reached, in chunks of whole lines."""
        while self.totals.bytes < size:
            yield from self.session()

    def session(self) -> Iterator[bytes]:
        """One session, in chunks of whole lines."""
        out = self._writer.out
        for _ in self._tell_session():
            chunk = "".join(out).encode()
            out.clear()
            self.totals.bytes += len(chunk)
            yield chunk

    def _pick(self, count: int) -> int:
        return int(self._rnd() * count)

    def _draw(self, pool: Sequence[T]) -> T:
        return pool[int(self._rnd() * len(pool))]

    def _next(self) -> int:
        self._made += 1
        return self._made

    def _tell_session(self) -> Iterator[None]:
        """Writes one session; yields where the caller may take what is written."""
        writer, totals = self._writer, self.totals
        n = self._next()
        self._now += 2000 + self._pick(90_000)
        share = self._rnd()
        model = next(m for m, limit in zip(MODELS, _SHARES, strict=True) if share < limit)
        session_id = (
            f"01a22de0-{n & 0xFFFF:04x}-7{n >> 16 & 0xFFF:03x}-8000-{self._session_id_tail:08x}{n & 0xFFFF:04x}"
        )
        writer.open_session(session_id, self._now, model)
        totals.sessions += 1
        context = 900
        for prompt in range((1, 1, 2, 2, 3, 4)[self._pick(6)]):
            totals.prompts += 1
            self._start_run()
            kept: list[str] = []  # messages of the run, for agent_end
            if not prompt and writer.modern:
                kept.append(parts.system_message(self._now))
                writer.message(kept[-1], self._now)
            self._now += 3
            text = self._draw(self._texts.questions)
            kept.append(f'{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"timestamp":{self._now}}}')
            writer.message(kept[-1], self._now)
            turns = (1, 1, 2, 3, 5)[self._pick(5)]
            for turn in range(turns):
                if turn:
                    writer.turn_start()
                retried = self._rnd() < 0.04
                if retried:
                    self._fail(model, kept)
                    kept = []
                context += 60 + self._pick(440)
                self._turn(model, kept, context, last=turn == turns - 1, retried=retried)
                yield
            writer.run_end(kept, will_retry=False)
            if self._rnd() < 0.05:
                self._compact(model, context)
                context = context // 3
            writer.settled()
            self._now += 500 + self._pick(20_000)
        yield

    def _start_run(self) -> None:
        self._writer.run_start()
        self._writer.turn_start()
        self.totals.runs += 1

    def _fail(self, model: parts.Model, kept: list[str]) -> None:
        """An answer that is only an error, and the run that ends with it."""
        writer, totals = self._writer, self.totals
        self._now += 100
        more = ',"durationMs":98,"thinkingLevel":"low"' if writer.modern else ""
        message = (
            f'{{"role":"assistant","content":[],{model.head},"usage":{parts.NO_USAGE},"stopReason":"error",'
            f'"timestamp":{self._now - 98},"errorMessage":"{_OVERLOADED}"{more}}}'
        )
        writer.failed_answer(message, self._now)
        kept.append(message)
        writer.turn_end(message, [])
        writer.run_end(kept, will_retry=True)
        writer.retry_start(_OVERLOADED, _RETRY_MS, self._now)
        self._now += _RETRY_MS
        self._count(model, "error", (0, 0, 0, 0, 0, 0))
        totals.retries.update(attempts=1, success=1, backoff_ms=_RETRY_MS)
        self._start_run()

    def _turn(self, model: parts.Model, kept: list[str], context: int, *, last: bool, retried: bool) -> None:
        writer, rnd = self._writer, self._rnd
        blocks: list[parts.Block] = []
        thought = rnd() < self._thinks
        if thought:
            blocks.append(self._draw(self._texts.thoughts))
        if last or rnd() < 0.7:
            blocks.append(self._draw(self._texts.texts))
        calls = [] if last else [self._call() for _ in range((1, 1, 1, 2, 3)[self._pick(5)])]
        blocks += calls
        usage, spent = self._draw(self._usages[model.name, thought])
        stop = "toolUse" if calls else "stop"
        self._count(model, stop, spent)
        self._now += 20
        started = self._now
        self._now += 40 + 9 * sum(len(block.pieces) for block in blocks)
        tail = f'"stopReason":"stop","timestamp":{started},"responseId":"msg_{self._next():08x}"'
        ended = tail if stop == "stop" else tail.replace('"stop"', '"toolUse"', 1)
        if writer.modern:
            raw = "tool_use" if calls else "end_turn"
            ended += f',"rawStopReason":"{raw}","durationMs":{self._now - started},"thinkingLevel":"low"'
        content = ",".join([block.json for block in blocks])
        message = f'{{"role":"assistant","content":[{content}],{model.head},"usage":{usage},{ended}}}'
        writer.answer(parts.Answer(message, model, blocks, usage, tail, started), self._now)
        if retried:
            writer.retry_end()
        kept.append(message)
        results = self._run_tools(calls) if calls else []
        kept += results
        writer.turn_end(message, results)

    def _some_usages(self, model: parts.Model, *, thought: bool) -> list[tuple[str, Spent]]:
        """Usage objects to draw from; facts stay different, since their messages have different times."""
        if model.provider == "plain":
            return [self._usage(model, (0, 0, 0, 0, 0))]
        pick = self._random.randrange
        found = []
        for _ in range(256):
            output = pick(5, 700)
            written = pick(300) if model.provider == "ember" else 0
            reasoning = pick(output) if thought and self._writer.modern else 0
            found.append(self._usage(model, (pick(4, 900), output, pick(800, 40_000), written, reasoning)))
        return found

    def _usage(self, model: parts.Model, tokens: tuple[int, int, int, int, int]) -> tuple[str, Spent]:
        read, out, cached, written, reasoning = tokens
        price = model.prices
        costs = (read * price[0], out * price[1], cached * price[2], written * price[3])
        total = sum(costs)
        dollars = parts.dollars
        before = after = flag = ""
        if self._writer.modern:
            flag = ',"totalFromProvider":false'
            if model.api != "anthropic-messages":
                before = f'"reasoning":{reasoning},'
            elif reasoning:
                after = f',"cacheWrite1h":0,"reasoning":{reasoning}'
            else:
                after = ',"cacheWrite1h":0'
        return (
            f'{{"input":{read},"output":{out},"cacheRead":{cached},"cacheWrite":{written},{before}'
            f'"totalTokens":{read + out + cached + written},"cost":{{"input":{dollars(costs[0])},'
            f'"output":{dollars(costs[1])},"cacheRead":{dollars(costs[2])},"cacheWrite":{dollars(costs[3])},'
            f'"total":{dollars(total)}{flag}}}{after}}}'
        ), (*tokens, total)

    def _count(self, model: parts.Model, stop: str, spent: Spent) -> None:
        totals = self.totals
        totals.turns += 1
        totals.requests += 1
        totals.stop_reasons[stop] += 1
        counts = totals.models.get((model.provider, model.name))
        if counts is None:
            counts = totals.models[model.provider, model.name] = Counter()
        counts["requests"] += 1
        _add(counts, spent)

    def _call(self) -> parts.Block:
        share, n = self._rnd(), self._next()
        path = _FILES[n % len(_FILES)]
        if share < 0.45:
            tool, args = "bash", f'{{"command":"sed -n {n % 90},{n % 90 + 5}p {path}"}}'
        elif share < 0.77:
            tool, args = "read", f'{{"path":"{path}"}}'
        elif share < 0.9:
            tool, args = "edit", f'{{"path":"{path}","edits":[{{"oldText":"n{n}","newText":"{self._content(n)}"}}]}}'
        else:
            tool, args = "write", f'{{"path":"src/out{n % 50}.txt","content":"{self._content(n)}"}}'
        return parts.call_block(f"call_{n:x}", tool, args)

    def _content(self, number: int) -> str:
        return self._draw(self._texts.files) if self._long else f"n{number}"

    def _run_tools(self, calls: list[parts.Block]) -> list[str]:
        writer = self._writer
        ran = []
        for call in calls:
            failed = self._rnd() < 0.09
            ms = (9, 12, 31, 70, 250, 1010)[self._pick(6)] if call.tool == "bash" else 1 + self._pick(39)
            output = "Could not edit file: nope.txt. Error code: ENOENT." if failed else self._draw(self._texts.outputs)
            ran.append(parts.Ran(call, failed, ms, output))
            counts = self.totals.tools.get(call.tool)
            if counts is None:
                counts = self.totals.tools[call.tool] = Counter()
            counts["calls"] += 1
            counts["errors"] += failed
            counts["duration_ms"] += ms if writer.modern else 0
        writer.tools(ran)
        results = []
        self._now += max(one.duration_ms for one in ran)
        for one in ran:
            self._now += 1
            results.append(parts.result_message(one, self._now, modern=writer.modern))
            writer.message(results[-1], self._now)
        return results

    def _compact(self, model: parts.Model, context: int) -> None:
        writer, totals = self._writer, self.totals
        self._now += 300
        if self._rnd() < 0.2:
            writer.compaction_failed()
            totals.compactions["failed"] += not isinstance(writer, wire.SessionWriter)
            return
        usage, spent = self._usage(model, (2500, 60, 0, 0, 0))
        writer.compaction(context, usage, self._now)
        totals.compactions.update(ok=1, tokens_before=context)
        if writer.modern:
            _add(totals.compaction_usage, spent)


def _add(counts: Counter[str], spent: Spent) -> None:
    counts["input"] += spent[0]
    counts["output"] += spent[1]
    counts["cacheRead"] += spent[2]
    counts["cacheWrite"] += spent[3]
    counts["reasoning"] += spent[4]
    counts["cost_nano"] += spent[5]


def write(path: Path, dialect: str, size: int, *, seed: int = 1, clean: bool = False, long: bool = False) -> Totals:
    """Write one file of at least `size` bytes; gives its totals."""
    generator = Generator(dialect, seed=seed, clean=clean, long=long)
    with path.open("wb", buffering=1 << 20) as file:
        file.writelines(generator.chunks(size))
    return generator.totals


def write_files(
    folder: Path, dialect: str, files: int, *, seed: int = 1, clean: bool = False, long: bool = False
) -> Totals:
    """Write `files` files of one session each into `folder`; gives their totals."""
    generator = Generator(dialect, seed=seed, clean=clean, long=long)
    for number in range(files):
        with (folder / f"{number:06d}.jsonl").open("wb") as file:
            file.writelines(generator.session())
    return generator.totals


def parse_size(text: str) -> int:
    """Bytes from 500, 10kB, 100MB or 2GB (powers of ten)."""
    shown = text.strip().upper().removesuffix("B")
    factor = {"K": 10**3, "M": 10**6, "G": 10**9}.get(shown[-1:], 1)
    return int(float(shown.rstrip("KMG")) * factor)


def main() -> None:
    """Write one file and its totals."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.generate", description="Write a large pi file.")
    parser.add_argument("--dialect", choices=DIALECTS, default="delta")
    parser.add_argument("--size", type=parse_size, default="100MB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clean", action="store_true", help="no half emojis")
    parser.add_argument("--long", action="store_true", help="texts of the length of real work")
    parser.add_argument("--files", type=int, help="this many files of one session each, into the folder --output")
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()
    options = {"seed": asked.seed, "clean": asked.clean, "long": asked.long}
    if asked.files:
        totals = write_files(asked.output, asked.dialect, asked.files, **options)
    else:
        totals = write(asked.output, asked.dialect, asked.size, **options)
    json.dump(totals.as_json(), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
