"""The metadata of a writer's filter."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._gowk import Writer


class Metadata(MutableMapping[str, bytes]):
    """Names and bytes that a filter carries, committed and rolled back with its keys. A ``str`` stands for its UTF-8."""

    __slots__ = ("_writer",)

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __getitem__(self, name: str) -> bytes:
        return self._writer._entries()[name]

    def __setitem__(self, name: str, value: bytes | str) -> None:
        self._writer._set_entry(name, value)

    def __delitem__(self, name: str) -> None:
        if not self._writer._remove_entry(name):
            raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._writer._entries())

    def __len__(self) -> int:
        return len(self._writer._entries())

    def __repr__(self) -> str:
        return repr(self._writer._entries())
