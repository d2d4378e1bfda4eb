"""The process that writes recordings: entries in, as the server keeps them; shaped, cleaned and written to the store.

Started by `keeping`, beside each process that answers, so that none of this takes time from clients. Its input is
frames: four bytes of length, then a letter and what it stands for. A batch is its entries, and an end that says what
must not be written; about each it says one line of JSON. It ends with its input, and not before: who ends a server may
tell all of its processes at once, and this one still has to write then.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import msgspec

from ...config import Secret
from ...core.types import JSONObject, JSONValue
from ...errors import ToolspeakError
from .entries import Entry, size_of

#: The length of a frame; and with the letter behind it.
_SIZE, _HEAD = struct.Struct(">I"), struct.Struct(">Ic")
#: What frames hold, by their letters.
_ENTRIES, _SHAPED, _END = b"e", b"j", b"."
#: Who answers clients comes first, where there are not enough cores for both.
_NICENESS = 5

#: What is written of one request: its id, its model, and everything about it.
Written = tuple[str, str, JSONValue]


class Opening(msgspec.Struct, frozen=True):
    """The first frame: where to write."""

    url: str


class Batch(msgspec.Struct):
    """What is to be written: entries, and what could only be handed over as the JSON text that is written."""

    secrets: list[str] = []
    entries: list[msgspec.Raw] = []
    shaped: list[bytes] = []


class Heard(msgspec.Struct, frozen=True):
    """How many of a batch are kept, and why others are not."""

    kept: int
    problem: str = ""


def _revealed(value: Any) -> Any:
    """The one kind of value in an entry that is not plain."""
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError


_encoder = msgspec.msgpack.Encoder(enc_hook=_revealed)
_several = msgspec.msgpack.Decoder(list[msgspec.Raw])
_entry = msgspec.msgpack.Decoder(Entry, dec_hook=lambda kind, value: Secret(value))


class Packed:
    """A batch that grows. What cannot be encoded waits as it is, and is shaped before it is handed over."""

    def __init__(self) -> None:
        self._encoded: list[bytes] = []
        self._odd: list[Entry] = []
        self._count = 0
        #: In bytes.
        self.size = 0

    def __len__(self) -> int:
        return self._count

    def add(self, entries: list[Entry]) -> None:
        """Some more."""
        try:
            encoded = _encoder.encode(entries)
        except (ValueError, OverflowError, TypeError):  # half a character, or a number beyond 64 bits
            if len(entries) > 1:
                for each in entries:
                    self.add([each])
                return
            self._odd += entries
            self.size += size_of(entries[0])
        else:
            self._encoded += (_HEAD.pack(len(encoded) + 1, _ENTRIES), encoded)
            self.size += len(encoded)
        self._count += len(entries)

    def whole(self, secrets: list[str]) -> list[bytes]:
        """The batch as it is handed over, in pieces: to put megabytes together takes longer than to encode them."""
        shaped = [sized(_SHAPED + json.dumps(_shown(entry, secrets)).encode()) for entry in self._odd]
        return [*self._encoded, *shaped, sized(_END + msgspec.json.encode(secrets))]


def _shown(entry: Entry, secrets: list[str]) -> JSONObject:
    from .views import whole  # it reads answers once more, with all dialects

    return whole(entry, secrets)


def sized(frame: bytes) -> bytes:
    """A frame with its length before it."""
    return _SIZE.pack(len(frame)) + frame


def batches(source: BinaryIO) -> Iterator[Batch]:
    """Whole batches, to the end."""
    batch = Batch()
    for frame in _frames(source):
        match frame[:1]:
            case b"e":
                batch.entries += _several.decode(frame[1:])
            case b"j":
                batch.shaped.append(frame[1:])
            case _:
                batch.secrets = msgspec.json.decode(frame[1:])
                yield batch
                batch = Batch()


def _frames(source: BinaryIO) -> Iterator[bytes]:
    """Frames to the end; half of one is none."""
    while len(head := source.read(_SIZE.size)) == _SIZE.size:
        (length,) = _SIZE.unpack(head)
        if len(frame := source.read(length)) < length:
            return
        yield frame


def worked(batch: Batch, keep: Callable[[Iterable[Written]], None]) -> Heard:
    """Write a batch, and say what came of it. One request that cannot be shaped spoils no other."""
    rows: list[Written] = []
    problems: list[str] = []
    for data in batch.entries:
        try:
            rows.append(_row(_shown(_entry.decode(data), batch.secrets)))
        except Exception as error:  # a mistake of ours; who handed it over logs it
            problems.append(f"{type(error).__name__}: {error}")
    rows += [_row(msgspec.json.decode(text)) for text in batch.shaped]
    try:
        keep(rows)
    except ToolspeakError as error:
        return Heard(0, str(error))
    return Heard(len(rows), problems[0] if problems else "")


def _row(told: JSONObject) -> Written:
    """A request as it is written: its columns are as clean as the rest."""
    return told["id"], told["model"], told


def main(source: BinaryIO, told: BinaryIO) -> None:
    """Write what comes, to its end."""
    from ...store import open_recordings

    opening = next(_frames(source), None)
    if opening is None:
        return
    recordings = open_recordings(msgspec.msgpack.decode(opening, type=Opening).url)
    for batch in batches(source):
        heard = worked(batch, recordings.add_all)
        told.write(msgspec.json.encode(heard) + b"\n")
        told.flush()


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with suppress(AttributeError, OSError):  # not every system has this
        os.nice(_NICENESS)
    with suppress(BrokenPipeError):
        main(sys.stdin.buffer, sys.stdout.buffer)
