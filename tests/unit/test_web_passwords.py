"""Checking passwords: what is remembered, what waits, what is turned away."""

from __future__ import annotations

import asyncio
import base64
import threading

import bcrypt
import pytest

from pimetrics.web.passwords import MOST_OF_ONE, MOST_WAITING, BusyError, Passwords, credentials


def hashed(password: bytes) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(4)).decode()


USERS = {"alice": hashed(b"right"), "zoë": hashed("größer".encode())}


class Gate:
    """Stands in for bcrypt: counts checks, and lets each wait until it may end."""

    def __init__(self) -> None:
        self.checked: list[tuple[bytes, bytes]] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.checked.append((password, hashed))
        assert self.may_end.wait(20)
        return password == b"right"


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"Basic " + base64.b64encode(b"alice:a:b"), (b"alice", b"a:b")),
        (b"basic " + base64.b64encode(b":"), (b"", b"")),
        (b"Basic  " + base64.b64encode(b"\xff:\0"), (b"\xff", b"\0")),
        (b"Basic " + base64.b64encode(b"alice"), None),
        (b"Basic", None),
        (b"Basic alice:right", None),
        (b"Basic \xff\xfe", None),
        (b"Bearer " + base64.b64encode(b"alice:right"), None),
        (b"", None),
    ],
)
def test_credentials(header, found):
    """User and password of a header; None for anything else."""
    assert credentials(header) == found


def test_bcrypt_itself():
    """Right and wrong passwords, names outside ASCII, what bcrypt cuts off and what it does not take."""
    long = b"p" * 72
    users = USERS | {"long": hashed(long), "old": "$2y" + hashed(b"right")[3:]}

    async def all_of_them():
        passwords = Passwords()
        for user, password, right in (
            (b"alice", b"right", True),
            (b"alice", b"wrong", False),
            (b"alice", b"", False),
            (b"alice", b"right\0", False),
            ("zoë".encode(), "größer".encode(), True),
            ("zoë".encode("latin-1"), "größer".encode(), False),
            (b"old", b"right", True),
            (b"long", long + b"more", True),
            (b"long", long[:-1], False),
            (b"bob", b"right", False),
            (b"\xff", b"right", False),
            (b"", b"", False),
        ):
            assert await passwords.check(users, user, password, "127.0.0.1") is right, (user, password)

    asyncio.run(all_of_them())


def test_a_right_password_is_checked_once_for_each_hash():
    """What was right is remembered until its hash changes; what was wrong is not."""
    gate = Gate()

    async def asked():
        passwords = Passwords(gate)
        for _ in range(3):
            assert await passwords.check(USERS, b"alice", b"right", "a")
        assert len(gate.checked) == 1
        for _ in range(3):
            assert not await passwords.check(USERS, b"alice", b"wrong", "a")
        assert len(gate.checked) == 4
        assert await passwords.check(USERS | {"alice": hashed(b"right")}, b"alice", b"right", "a")
        assert len(gate.checked) == 5
        assert not await passwords.check({"zoë": USERS["zoë"]}, b"alice", b"right", "a")

    asyncio.run(asked())


def test_nothing_remembered_holds_the_password():
    """Neither password nor hash stands in what is remembered, and two objects remember it differently."""

    async def remembered():
        found = []
        for _ in range(2):
            passwords = Passwords(Gate())
            await passwords.check(USERS, b"alice", b"right", "a")
            found.append([*passwords._right])
        return found

    one, two = asyncio.run(remembered())
    assert one != two
    assert all(len(key) == 32 and b"right" not in key for key in one + two)


def test_a_name_that_nobody_has_costs_a_check_of_somebodys_hash():
    """Known or not, a name costs one check, of the same hash each time; and never lets in."""
    gate = Gate()

    async def asked():
        passwords = Passwords(gate)
        for _ in range(3):
            assert not await passwords.check(USERS, b"bob", b"right", "a")
        assert len(gate.checked) == 3
        assert len({each for _, each in gate.checked}) == 1
        for number in range(40):
            await passwords.check(USERS, b"user%d" % number, b"right", "a")
        assert {each.decode() for _, each in gate.checked} == set(USERS.values())

    asyncio.run(asked())


def test_only_so_many_wait():
    """Of one address few, altogether more; what comes above is turned away at once; then there is room again."""
    gate = Gate()

    async def asked():
        passwords = Passwords(gate, threads=2)
        gate.may_end.clear()
        waiting = [
            asyncio.ensure_future(passwords.check(USERS, b"alice", b"guess%d" % number, "10.0.0.1"))
            for number in range(100)
        ]
        await asyncio.sleep(0)
        turned_away = sum(each.done() and isinstance(each.exception(), BusyError) for each in waiting)
        assert turned_away == 100 - MOST_OF_ONE
        first = asyncio.ensure_future(passwords.check(USERS, b"alice", b"right", "10.0.0.2"))
        crowd = [
            asyncio.ensure_future(passwords.check(USERS, b"alice", b"more%d" % number, f"2001:db8:0:{number}::1"))
            for number in range(100)
        ]
        await asyncio.sleep(0)
        busy = sum(each.done() and isinstance(each.exception(), BusyError) for each in crowd)
        assert len(crowd) - busy == MOST_WAITING - MOST_OF_ONE - 1
        gate.may_end.set()
        assert await first
        await asyncio.gather(*waiting, *crowd, return_exceptions=True)
        assert not passwords._running
        assert not passwords._by_client
        assert not await passwords.check(USERS, b"alice", b"again", "10.0.0.1")

    asyncio.run(asked())


def test_a_network_counts_as_one_client():
    """All addresses of an IPv6 /64, and an IPv4 address written as IPv6, are one neighbour."""
    gate = Gate()

    async def asked(addresses):
        passwords = Passwords(gate)
        gate.may_end.clear()
        waiting = [
            asyncio.ensure_future(passwords.check(USERS, b"alice", b"%d" % number, address))
            for number, address in enumerate(addresses)
        ]
        await asyncio.sleep(0)
        found = sum(not each.done() for each in waiting)
        gate.may_end.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        return found

    assert asyncio.run(asked([f"2001:db8::{number:x}" for number in range(1, 10)])) == MOST_OF_ONE
    assert asyncio.run(asked([f"fe80::{number:x}%eth0" for number in range(1, 10)])) == MOST_OF_ONE
    assert asyncio.run(asked(["10.0.0.1", "::ffff:10.0.0.1"] * 5)) == MOST_OF_ONE
    assert asyncio.run(asked([f"10.0.0.{number}" for number in range(1, 10)])) == 9


def test_equal_questions_are_one_check():
    """Ten scrapes that come at once for the first time cost one check; one that gives up spoils it for nobody."""
    gate = Gate()

    async def asked():
        passwords = Passwords(gate)
        gate.may_end.clear()
        waiting = [asyncio.ensure_future(passwords.check(USERS, b"alice", b"right", "a")) for _ in range(10)]
        await asyncio.sleep(0)
        waiting.pop().cancel()
        gate.may_end.set()
        assert all(await asyncio.gather(*waiting))
        assert len(gate.checked) == 1

    asyncio.run(asked())


def test_at_the_end_all_who_wait_are_turned_away():
    """A check that still runs holds nobody up, and its answer comes to nobody."""
    gate = Gate()

    async def asked():
        passwords = Passwords(gate, threads=1)
        gate.may_end.clear()
        waiting = [asyncio.ensure_future(passwords.check(USERS, b"alice", b"%d" % each, "a")) for each in range(3)]
        waiting[0].cancel()
        await asyncio.sleep(0)
        passwords.close()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in found] == [asyncio.CancelledError, BusyError, BusyError]
        assert not passwords._running
        gate.may_end.set()

    asyncio.run(asked())
