"""Requantizes a GGUF model file from 4-bit (Q4_1) to 8-bit (Q8_0) weights: larger, but faster on some processors.

Each of the 16 values in a 4-bit block becomes the nearest of 255 values. The arithmetic is deterministic, so the hash
of the result is known in advance. Only the GGUF features that the default model's file uses are supported.
"""

import math
import struct
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO, NamedTuple

#: Numbers of the weight formats in a file, and for each format: weights per block, bytes per block.
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_BLOCKS = {_F32: (1, 4), _Q4_1: (32, 20), _Q8_0: (32, 34)}
#: A Q4_1 block: step, minimum, and the index of each weight, two per byte.
_BLOCK = struct.Struct("<ee16s")
_SCALE = struct.Struct("<e")
#: Sizes of metadata values in bytes, by type. Strings and lists store their own length.
_VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT, _LIST = 8, 9
_BEGIN = struct.pack("<4sI", b"GGUF", 3)
#: Alignment of tensors in bytes, and the metadata key that sets another one. Files with this key are not converted.
_ALIGNMENT, _OTHER_ALIGNMENT = 32, b"general.alignment"
#: Metadata key that describes, for information only, how most weights are stored; and its value for Q8_0.
_FILE_KIND, _MOSTLY_Q8_0 = b"general.file_type", 7
#: Maximum size of the header, which includes the vocabulary. The default model's header takes 1.8 MB.
_MAX_HEADER_BYTES = 16 << 20
_AT_ONCE = 16_384
_LOW = bytes(byte & 15 for byte in range(256))
_HIGH = bytes(byte >> 4 for byte in range(256))
_UNUSED = bytes(240)  # fills up a translation table, which must have 256 entries although a block uses only 16
_VALUES = range(16)
_MAX_INT8 = 127
#: Added before truncating to an integer: 0.5 rounds, and 256 keeps the sum positive but vanishes modulo 256.
_ROUNDING = 256.5


class NotConvertible(Exception):
    """The file is not in the supported format."""


class _Tensor(NamedTuple):
    kind: int
    weights: int
    #: Offset of the data from the first tensor, and the position in the header of the format and this offset.
    offset: int
    entry_at: int

    @property
    def new_kind(self) -> int:
        return _Q8_0 if self.kind == _Q4_1 else self.kind

    def size(self, kind: int) -> int:
        count, size = _BLOCKS[kind]
        return self.weights // count * size


def convert(source: Path, target: Path, progress: Callable[[int], None]) -> None:
    """Write `source` to `target` with 8-bit weights. `progress` receives the number of bytes written."""
    with source.open("rb") as file, target.open("wb") as out:
        try:
            head, tensors = _convert_header(bytearray(file.read(_MAX_HEADER_BYTES)))
            out.write(head)
            for tensor in tensors:
                file.seek(len(head) + tensor.offset)
                for piece in _pieces(file, tensor):
                    out.write(piece)
                    progress(out.tell())
                out.write(_gap(out.tell()))
        except (struct.error, KeyError, OverflowError, ValueError) as error:
            raise NotConvertible(f"{source.name} is not a supported model file ({error})") from error


def _gap(end: int) -> bytes:
    return bytes(-end % _ALIGNMENT)


class _Head:
    def __init__(self, content: bytearray) -> None:
        self.content = content
        self.at = 0

    def number(self, form: str) -> int:
        """Read a number. `form` is a struct format: `I` has 4 bytes, `Q` has 8."""
        value = struct.unpack_from("<" + form, self.content, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def text(self) -> bytes:
        length = self.number("Q")
        self.at += length
        return bytes(self.content[self.at - length : self.at])

    def skip(self, kind: int) -> None:
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


def _convert_header(content: bytearray) -> tuple[bytes, list[_Tensor]]:
    """Return the header for the new file, and the tensors in order."""
    if not content.startswith(_BEGIN):
        raise KeyError("unknown signature or version")
    head = _Head(content)
    head.at = len(_BEGIN)
    tensor_count, values = head.number("Q"), head.number("Q")
    for _ in range(values):
        name, kind = head.text(), head.number("I")
        if name == _OTHER_ALIGNMENT:
            raise KeyError("unsupported alignment")
        if name == _FILE_KIND:
            struct.pack_into("<I", content, head.at, _MOSTLY_Q8_0)
        head.skip(kind)
    tensors = [_tensor(head) for _ in range(tensor_count)]
    offset = 0
    for tensor in tensors:
        struct.pack_into("<IQ", content, tensor.entry_at, tensor.new_kind, offset)
        size = tensor.size(tensor.new_kind)
        offset += size + len(_gap(size))
    return bytes(content[: head.at]) + _gap(head.at), tensors


def _tensor(head: _Head) -> _Tensor:
    head.text()
    weights = math.prod(head.number("Q") for _ in range(head.number("I")))
    entry_at = head.at
    kind, offset = head.number("I"), head.number("Q")
    return _Tensor(kind, weights, offset, entry_at)


def _pieces(file: BinaryIO, tensor: _Tensor) -> Generator[bytes]:
    remaining = tensor.size(tensor.kind)
    change = _requantize if tensor.new_kind != tensor.kind else bytes
    while remaining:
        piece = file.read(min(remaining, _AT_ONCE * _BLOCK.size))
        if not piece:
            raise KeyError("the file is truncated")
        remaining -= len(piece)
        yield change(piece)


def _requantize(blocks: bytes) -> bytes:
    """Convert Q4_1 blocks to Q8_0 blocks. A Q8_0 block is a scale and 32 numbers from -127 to 127."""
    output: list[bytes] = []
    for step, lowest, weights in _BLOCK.iter_unpack(blocks):
        largest = max(abs(lowest), abs(lowest + 15 * step))
        output.append(_SCALE.pack(largest / _MAX_INT8))
        output.append((weights.translate(_LOW) + weights.translate(_HIGH)).translate(_table(step, lowest, largest)))
    return b"".join(output)


def _table(step: float, lowest: float, largest: float) -> bytes:
    """Return the translation table from the 16 values of a block to 8-bit numbers. The largest becomes 127 or -127."""
    if not largest:
        return bytes(256)
    per = _MAX_INT8 / largest
    first, step = lowest * per + _ROUNDING, step * per
    return bytes([int(first + step * value) & 255 for value in _VALUES]) + _UNUSED
