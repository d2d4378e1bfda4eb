"""A file of weights of 4 bits each, written anew with 8: half as much again to keep, and what processors multiply fast.

Only the form changes: a weight of 4 bits is one of the 16 values of its block, and each of them is written as the
nearest of 255. It is plain arithmetic, so that the same file comes out everywhere and its hash is known before. The files are llama.cpp's (GGUF); of that form, what the default model's file has is read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO, NamedTuple

#: How weights are written, by numbers that stand in the file: so many of them make a block of so many bytes.
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_BLOCKS = {_F32: (1, 4), _Q4_1: (32, 20), _Q8_0: (32, 34)}
#: A block of 4 bits: the step between its values, the lowest of them, and which one each weight is, two in a byte.
_BLOCK = struct.Struct("<ee16s")
_SCALE = struct.Struct("<e")
#: Sizes of the values that stand before the tensors, by their kinds; a text and a list say how long they are.
_VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT, _LIST = 8, 9
_BEGIN = struct.pack("<4sI", b"GGUF", 3)
#: Each tensor begins at a multiple of this. A file may name another number; those that do are not converted.
_ALIGNMENT, _OTHER_ALIGNMENT = 32, b"general.alignment"
#: Tells people how most of the weights are written.
_FILE_KIND, _MOSTLY_Q8_0 = b"general.file_type", 7
#: What stands before the tensors, all tokens among it: 1.8 MB for the default model.
_LARGEST_HEAD = 16 << 20
#: Blocks that are converted at once.
_AT_ONCE = 16_384
_LOW = bytes(byte & 15 for byte in range(256))
_HIGH = bytes(byte >> 4 for byte in range(256))
#: A table for bytes has 256 rows, that of a block 16.
_UNUSED = bytes(240)
_VALUES = range(16)
_MOST = 127
#: Added to a number before what is behind its point is cut off, this rounds it; 256 is nothing in a byte.
_ROUNDING = 256.5


class NotConvertible(Exception):
    """The file is not of the form that can be converted."""


class _Tensor(NamedTuple):
    """What the file says of a tensor."""

    kind: int
    weights: int
    #: Where it is, counted from where the first one is, and where in the file this is said, with its kind before it.
    offset: int
    said_at: int

    @property
    def new_kind(self) -> int:
        """How it will be written."""
        return _Q8_0 if self.kind == _Q4_1 else self.kind

    def size(self, kind: int) -> int:
        """How many bytes it has, written so."""
        count, size = _BLOCKS[kind]
        return self.weights // count * size


def convert(source: Path, target: Path, heard: Callable[[int], None]) -> None:
    """Write what is in `source` to `target`, weights of 4 bits with 8; `heard` is told how many bytes are there.

    Raises:
        NotConvertible: it is no file of the form that is known here.
        OSError: the disk is full, or not there.
    """
    with source.open("rb") as file, target.open("wb") as out:
        try:
            head, tensors = _read(bytearray(file.read(_LARGEST_HEAD)))
            out.write(head)
            for tensor in tensors:
                file.seek(len(head) + tensor.offset)
                for piece in _pieces(file, tensor):
                    out.write(piece)
                    heard(out.tell())
                out.write(_gap(out.tell()))
        except (struct.error, KeyError, OverflowError, ValueError) as error:
            raise NotConvertible(f"{source.name} is not a file of weights as it should be ({error})") from error


def _gap(end: int) -> bytes:
    return bytes(-end % _ALIGNMENT)


# ---- what stands before the weights


class _Head:
    """The beginning of a file, read from its start."""

    def __init__(self, content: bytearray) -> None:
        self.content = content
        self.at = 0

    def number(self, form: str) -> int:
        """The next number: `I` of 4 bytes, `Q` of 8."""
        found = struct.unpack_from("<" + form, self.content, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return found

    def text(self) -> bytes:
        """The next text."""
        length = self.number("Q")
        self.at += length
        return bytes(self.content[self.at - length : self.at])

    def skip(self, kind: int) -> None:
        """Go behind a value."""
        if kind == _TEXT:
            self.text()
        elif kind == _LIST:
            kind, count = self.number("I"), self.number("Q")
            if kind in _VALUE_BYTES:
                self.at += count * _VALUE_BYTES[kind]
                return
            for _ in range(count):
                self.skip(kind)
        else:
            self.at += _VALUE_BYTES[kind]


def _read(content: bytearray) -> tuple[bytes, list[_Tensor]]:
    """What comes before the weights, as it will be, and the tensors in their order."""
    if not content.startswith(_BEGIN):
        raise KeyError("its beginning is another one")
    head = _Head(content)
    head.at = len(_BEGIN)
    tensors, values = head.number("Q"), head.number("Q")
    for _ in range(values):
        name, kind = head.text(), head.number("I")
        if name == _OTHER_ALIGNMENT:
            raise KeyError("its tensors begin elsewhere")
        if name == _FILE_KIND:
            struct.pack_into("<I", content, head.at, _MOSTLY_Q8_0)
        head.skip(kind)
    found = [_tensor(head) for _ in range(tensors)]
    place = 0
    for tensor in found:
        struct.pack_into("<IQ", content, tensor.said_at, tensor.new_kind, place)
        size = tensor.size(tensor.new_kind)
        place += size + len(_gap(size))
    return bytes(content[: head.at]) + _gap(head.at), found


def _tensor(head: _Head) -> _Tensor:
    head.text()
    weights = math.prod(head.number("Q") for _ in range(head.number("I")))
    said_at = head.at
    kind, offset = head.number("I"), head.number("Q")
    return _Tensor(kind, weights, offset, said_at)


# ---- weights


def _pieces(file: BinaryIO, tensor: _Tensor) -> Generator[bytes]:
    """The bytes of a tensor, as they will be."""
    left = tensor.size(tensor.kind)
    change = _eight_bits if tensor.new_kind != tensor.kind else bytes
    while left:
        piece = file.read(min(left, _AT_ONCE * _BLOCK.size))
        if not piece:
            raise KeyError("it ends too early")
        left -= len(piece)
        yield change(piece)


def _eight_bits(blocks: bytes) -> bytes:
    """Blocks of 4 bits as blocks of 8: the scale, then 32 numbers from -127 to 127 that it is multiplied with."""
    made: list[bytes] = []
    for step, lowest, weights in _BLOCK.iter_unpack(blocks):
        largest = max(abs(lowest), abs(lowest + 15 * step))
        made.append(_SCALE.pack(largest / _MOST))
        made.append((weights.translate(_LOW) + weights.translate(_HIGH)).translate(_table(step, lowest, largest)))
    return b"".join(made)


def _table(step: float, lowest: float, largest: float) -> bytes:
    """What each of the 16 values of a block is as a number of 8 bits, the largest as the largest of them."""
    if not largest:
        return bytes(256)
    per = _MOST / largest
    first, step = lowest * per + _ROUNDING, step * per
    return bytes([int(first + step * value) & 255 for value in _VALUES]) + _UNUSED
