"""Places for connections, and the socket that they come from."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import ssl
import struct

import pytest

from pimetrics.web.connections import ANSWER_SECONDS, PATIENCE_SECONDS, Acceptor, Places, most_connections
from tests.certificates import Authority


class Clock:
    """Stands in for a loop: a time that is set, and timers that are run by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due = []

    def time(self) -> float:
        return self.now

    def call_later(self, _seconds, call):
        self.due.append(call)
        return self

    def cancel(self) -> None:
        self.due.clear()

    def pass_to(self, now: float) -> None:
        self.now = now
        self.due.pop()()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def left():
    return []


@pytest.fixture
def seat(clock, left):
    """Give a connection a place, by name; three there are."""
    places = Places(clock, 3)

    def seat(name):
        clock.now += 1
        return places.seat(lambda: left.append(name))

    seat.places = places
    return seat


def test_who_waits_longest_gives_way(seat, left):
    """Not who came first, but whose client has had most time to act."""
    first, second, third = seat("first"), seat("second"), seat("third")
    first.work()
    first.ask()
    assert left == []
    assert seat("fourth") is not None
    assert left == ["second"]
    assert seat("fifth") is not None
    assert left == ["second", "third"]
    for place in (first, second, third):
        place.free()
    assert len(seat.places.taken) == 2


def test_who_is_being_answered_stays(seat, left):
    """With all at work the next is turned away; who takes an answer gives way only when nobody has yet to ask."""
    first, second, third = seat("first"), seat("second"), seat("third")
    for place in (first, second, third):
        place.work()
    assert seat("fourth") is None
    first.take()
    third.ask()
    assert seat("fifth") is not None
    assert left == ["third"]
    seat("sixth").work()
    assert left == ["third", "fifth"]
    seat("seventh")
    assert left == ["third", "fifth", "first"]


def test_nobody_waits_for_ever(seat, left, clock):
    """10 seconds to ask, 30 to take an answer, any time to be answered."""
    _, second, third = seat("first"), seat("second"), seat("third")
    second.take()
    third.work()
    clock.pass_to(first_until := 1 + PATIENCE_SECONDS)
    assert left == ["first"]
    clock.pass_to(first_until + 1)
    assert left == ["first"]
    clock.pass_to(3 + ANSWER_SECONDS)
    assert left == ["first", "second"]
    clock.pass_to(10_000)
    assert left == ["first", "second"]
    assert seat.places.taken == {third}


def test_at_the_end_who_waits_goes(seat, left, clock):
    """What is being answered may end in peace."""
    seat("first")
    seat("second").work()
    seat("third").take()
    seat.places.close()
    assert left == ["first", "third"]
    assert clock.due == []


def test_few_files_mean_few_connections():
    """A process that may open few files keeps most of them for its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for files, most in ((256, 64), (1024, 256), (2000, 256), (20, 8)):
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
            assert most_connections() == most
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Echo(asyncio.Protocol):
    """Answers with what it was sent, once."""

    def __init__(self, place) -> None:
        self.place = place

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.place.leave = transport.abort

    def data_received(self, data) -> None:
        self.transport.write(data)
        self.transport.close()

    def connection_lost(self, _error) -> None:
        self.place.free()


class Exhausted:
    """A listening socket that has run out of files, so often."""

    def __init__(self, listener: socket.socket, times: int) -> None:
        self._listener, self.times = listener, times

    def accept(self):
        if self.times:
            self.times -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def __getattr__(self, name):
        return getattr(self._listener, name)


def talk(times: int, clients: int, most: int) -> list[bytes]:
    """Let clients connect to an acceptor and say a word each; return the answers."""

    async def talking():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            acceptor = Acceptor(Exhausted(listener, times), Echo, lambda: None, most=most)
            streams = [await asyncio.open_connection(*listener.getsockname()) for _ in range(clients)]
            answers = []
            for number, (reader, writer) in enumerate(streams):
                answer = b""
                with contextlib.suppress(ConnectionError):
                    writer.write(b"word%d" % number)
                    answer = await asyncio.wait_for(reader.read(), 20)
                answers.append(answer)
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            acceptor.close()
            assert not acceptor._places.taken
            return answers

    return asyncio.run(talking())


def test_running_out_of_files_is_no_end():
    """It rests a moment and accepts again."""
    assert talk(times=3, clients=2, most=8) == [b"word0", b"word1"]


def test_of_many_the_last_are_answered():
    """More than there are places: the last to come are answered, those that made room for them are not."""
    answers = talk(times=0, clients=20, most=4)
    assert answers[-4:] == [b"word16", b"word17", b"word18", b"word19"]
    assert answers[:8] == [b""] * 8


def hang_up(one: socket.socket) -> None:
    """Close with a reset."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()


@pytest.mark.parametrize("end", [socket.socket.close, hang_up], ids=["close", "reset"])
@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_place_is_given_back_however_a_client_leaves(tmp_path, tls, first, end):
    """Before its first byte, within a handshake, with nonsense; closed in order or not."""
    context = None
    if tls:
        signed = Authority(tmp_path).sign("server")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(signed.cert, signed.key)

    async def leaving():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            acceptor = Acceptor(listener, Echo, lambda: context)
            for _ in range(20):
                one = socket.create_connection(listener.getsockname())
                await asyncio.sleep(0)
                one.sendall(first)
                await asyncio.sleep(0)
                end(one)
            for _ in range(2000):
                if not (acceptor._places.taken or acceptor._opening):
                    break
                await asyncio.sleep(0.01)
            assert not acceptor._places.taken
            assert not acceptor._opening
            acceptor.close()

    asyncio.run(leaving())
