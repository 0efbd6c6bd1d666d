"""The object store of a lake: the only home of obstore, which speaks to whatever polars reads and writes.

Credentials, region and endpoint come from the environment, under the names that polars and other tools know
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from pimetrics.errors import StateError, WrongUseError
from pimetrics.names import printable

T = TypeVar("T")

_AT_ONCE: Final = 16
"""Objects sent or deleted at the same time: each waits for the store, not for this machine."""


class Object(NamedTuple):
    """What a listing tells of an object: its path below the lake, its size in bytes, when it was written."""

    path: str
    size: int
    modified: datetime


class Store:
    """The objects below one address.

    Args:
        url: As polars takes it: `s3://bucket/folder`, `gs://...`, `az://...`, `file:///folder`.

    Attributes:
        url: The same, without a slash at the end.
        shown: As it may be shown to people.

    Raises:
        WrongUseError: Nobody knows such an address.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.shown = printable(re.sub(r"//[^/@]*@", "//", self.url))  # a password is nobody's business
        try:
            if url.startswith("file:"):
                self._store = from_url(self.url, mkdir=True, automatic_cleanup=True)
            else:
                self._store = from_url(self.url)
        except (BaseError, ValueError, OSError) as error:
            raise WrongUseError(
                f"{self.shown} is no address of a store ({reason(error)}); give one like s3://bucket/folder"
            ) from None

    def address(self, path: str) -> str:
        """Return the address of an object, as polars takes it."""
        return f"{self.url}/{path}"

    def list(self, prefix: str = "") -> list[Object]:
        """Return the objects below a prefix, sorted by path."""
        with self._told("cannot be listed"):
            found = [
                Object(each["path"], each["size"], each["last_modified"])
                for batch in obstore.list(self._store, prefix or None)
                for each in batch
            ]
        return sorted(found)

    def get(self, path: str) -> bytes | None:
        """Return an object; None when it is not there."""
        with self._told("cannot be read"):
            try:
                return bytes(obstore.get(self._store, path).bytes())
            except FileNotFoundError:
                return None

    def put(self, path: str, data: bytes) -> None:
        """Write an object; it appears whole, in place of the one that was there."""
        with self._told("cannot be written"):
            obstore.put(self._store, path, data)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; one that is gone already is no error."""

        def delete(path: str) -> None:
            try:
                obstore.delete(self._store, path)
            except FileNotFoundError:
                return  # somebody else was faster

        with self._told("cannot be changed"):
            at_once(delete, paths)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise StateError(
                f"{self.shown} {what} ({reason(error)}); check the address, the credentials and the network, then "
                "try again: whatever was there is unchanged"
            ) from None


def at_once(do: Callable[[T], object], items: Iterable[T]) -> None:
    """Do something with each item, several at a time; the first error is raised."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(do, items):
            pass


def reason(error: Exception) -> str:
    """Return the first line of what a library has to say; the rest is its request, with headers."""
    return printable(str(error).strip().partition("\n")[0][:200]) or type(error).__name__
