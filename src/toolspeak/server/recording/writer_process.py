"""Writer process: renders, redacts and stores recorded requests and their statistics outside the server process.

Each server worker starts one, so recording does not slow down requests. Its input consists of frames: four bytes of
length, one letter for the kind, then the content. The first frame is only the URL of the store. A batch is a series of
entry frames, a frame of statistics and an end frame with the secrets to redact; the reply to each batch is one line of
JSON. The process ends at the end of its input. It ignores signals, because a signal to the whole process group must not
stop it before everything is written.
"""

import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import BinaryIO

import msgspec

from ...config import Secret
from ...core.types import JSONObject, JSONValue
from ...errors import ToolspeakError
from ..observe.counters import MAX_PERIODS, PERIODS, RequestRow, add_to_period, periods_of
from .entries import RecordingEntry, encode_entries, text_size

#: Header of a frame: its length, without and with the letter for the kind.
_SIZE, _HEAD = struct.Struct(">I"), struct.Struct(">Ic")
#: Frame kinds.
_ENTRIES, _JSON_ENTRY, _STATISTICS, _END = b"e", b"j", b"s", b"."
_NICENESS = 5  # niceness of this process: the server has priority where cores are scarce

RecordingRow = tuple[str, str, JSONValue]  # a stored request: its id, its model and its detail view


class Batch(msgspec.Struct):
    """A batch of entries and statistics; entries that cannot be encoded as MessagePack arrive as rendered JSON."""

    secrets: list[str] = []
    entries: list[msgspec.Raw] = []
    json_entries: list[bytes] = []
    statistics: list[RequestRow] = []


class WriteResult(msgspec.Struct, frozen=True):
    """The number of stored requests in a batch, and the reason why others were not stored."""

    stored: int = msgspec.field(name="kept")
    problem: str = ""


_entry_decoder = msgspec.msgpack.Decoder(RecordingEntry, dec_hook=lambda kind, value: Secret(value))
_raw_entries = msgspec.msgpack.Decoder(list[msgspec.Raw])
_row_decoder = msgspec.msgpack.Decoder(list[RequestRow])


class BatchBuilder:
    """Collects entries for a batch. Entries that cannot be encoded are rendered as JSON by `frames`."""

    def __init__(self) -> None:
        self._encoded: list[bytes] = []
        self._unencodable: list[RecordingEntry] = []
        self._count = 0
        self.size = 0  # size in bytes
        self.statistics: list[RequestRow] = []

    def __len__(self) -> int:
        """Return the number of requests: entries and statistics are of the same ones."""
        return max(self._count, len(self.statistics))

    def add(self, entries: list[RecordingEntry]) -> None:
        try:
            encoded = encode_entries(entries)
        except (ValueError, OverflowError, TypeError):  # a lone surrogate, or a number beyond 64 bits
            if len(entries) > 1:
                for each in entries:
                    self.add([each])
                return
            self._unencodable += entries
            self.size += text_size(entries[0])
        else:
            self._encoded += (_HEAD.pack(len(encoded) + 1, _ENTRIES), encoded)
            self.size += len(encoded)
        self._count += len(entries)

    def frames(self, secrets: list[str]) -> list[bytes]:
        """Return the frames of the batch as a list, because joining megabytes takes longer than encoding them."""
        json_entries = [
            with_length(_JSON_ENTRY + json.dumps(_view(entry, secrets)).encode()) for entry in self._unencodable
        ]
        statistics = [with_length(_STATISTICS + msgspec.msgpack.encode(self.statistics))] if self.statistics else []
        return [*self._encoded, *json_entries, *statistics, with_length(_END + msgspec.json.encode(secrets))]


def _view(entry: RecordingEntry, secrets: list[str]) -> JSONObject:
    from .views import detail  # on demand: it imports all dialects, which the server process rarely needs

    return detail(entry, secrets)


def with_length(frame: bytes) -> bytes:
    return _SIZE.pack(len(frame)) + frame


def read_batches(source: BinaryIO) -> Iterator[Batch]:
    """Yield the complete batches in the input."""
    batch = Batch()
    for frame in _read_frames(source):
        match frame[:1]:
            case b"e":
                batch.entries += _raw_entries.decode(frame[1:])
            case b"j":
                batch.json_entries.append(frame[1:])
            case b"s":
                batch.statistics = _row_decoder.decode(frame[1:])
            case _:
                batch.secrets = msgspec.json.decode(frame[1:])
                yield batch
                batch = Batch()


def _read_frames(source: BinaryIO) -> Iterator[bytes]:
    """Yield the complete frames in the input."""
    while len(head := source.read(_SIZE.size)) == _SIZE.size:
        (length,) = _SIZE.unpack(head)
        if len(frame := source.read(length)) < length:
            return
        yield frame


def write_batch(
    batch: Batch,
    store: Callable[[Iterable[RecordingRow]], None],
    store_statistics: Callable[[list[RequestRow]], None] = lambda rows: None,
) -> WriteResult:
    """Store a batch. An entry that cannot be rendered does not affect the others."""
    rows: list[RecordingRow] = []
    problems: list[str] = []
    for data in batch.entries:
        try:
            rows.append(_row(_view(_entry_decoder.decode(data), batch.secrets)))
        except Exception as error:  # a bug, which the server process logs
            problems.append(f"{type(error).__name__}: {error}")
    rows += [_row(msgspec.json.decode(text)) for text in batch.json_entries]
    try:
        store(rows)
        if batch.statistics:
            store_statistics(batch.statistics)
    except ToolspeakError as error:
        return WriteResult(0, str(error))
    return WriteResult(len(rows) if problems else max(len(rows), len(batch.statistics)), "".join(problems[:1]))


def _row(view: JSONObject) -> RecordingRow:
    # The columns, too, come from the redacted view.
    return view["id"], view["model"], view


def main(source: BinaryIO, output: BinaryIO) -> None:
    """Store batches until the input ends."""
    from ...store import open_recordings

    opening = next(_read_frames(source), None)
    if opening is None:
        return
    recordings = open_recordings(opening.decode())
    # A transaction may be repeated although it was committed. The writer and the number of the batch tell.
    writer, numbers = os.urandom(4).hex(), count()

    def store_statistics(rows: list[RequestRow]) -> None:
        update = partial(add_to_period, writer=writer, batch=next(numbers))
        for seconds in PERIODS:
            recordings.state.update(periods_of(rows, seconds), update, seconds * MAX_PERIODS)

    for batch in read_batches(source):
        result = write_batch(batch, recordings.add_all, store_statistics)
        output.write(msgspec.json.encode(result) + b"\n")
        output.flush()


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with suppress(AttributeError, OSError):  # some systems lack os.nice or forbid it
        os.nice(_NICENESS)
    with suppress(BrokenPipeError):
        main(sys.stdin.buffer, sys.stdout.buffer)
