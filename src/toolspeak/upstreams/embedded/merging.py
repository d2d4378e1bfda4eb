"""Merges a LoRA adapter into a GGUF model file and stores the weights in 8 bits (Q8_0).

The result is larger than a 4-bit file, but faster: most engines multiply 8-bit weights quickly, and the adapter costs
no time of its own. Only exactly rounded operations are used, in a fixed order, so the result is the same on every
machine and its hash is known in advance. Only the GGUF features of the default model and its adapter are supported.
"""

import math
import mmap
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Floats: TypeAlias = NDArray[np.float32]

#: Numbers of the weight formats in a file, and for each format: weights per block, bytes per block.
_F32, _F16, _Q4_1, _Q8_0 = 0, 1, 3, 8
_BLOCKS = {_F32: (1, 4), _F16: (1, 2), _Q4_1: (32, 20), _Q8_0: (32, 34)}
#: A Q4_1 block: step, minimum, and the index of each weight, two per byte. A Q8_0 block: a scale, and its multiples.
_Q4_1_BLOCK = np.dtype([("step", "<f2"), ("lowest", "<f2"), ("indices", "u1", 16)])
_Q8_0_BLOCK = np.dtype([("scale", "<f2"), ("multiples", "i1", 32)])
_MAX_INT8 = np.float32(127)
#: Sizes of metadata values in bytes, by type. Strings and lists store their own length.
_VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT, _LIST = 8, 9
_BEGIN = struct.pack("<4sI", b"GGUF", 3)
#: Alignment of tensors in bytes, and the metadata key that sets another one. Files with this key are not converted.
_ALIGNMENT, _OTHER_ALIGNMENT = 32, b"general.alignment"
#: Metadata key that describes, for information only, how most weights are stored; and its value for Q8_0.
_FILE_KIND, _MOSTLY_Q8_0 = b"general.file_type", 7
#: Metadata key of an adapter: its scale, times its rank.
_ALPHA = b"adapter.lora.alpha"
#: Rows that are merged at a time, so that they stay in the processor's cache.
_ROWS = 32


class NotMergeable(Exception):
    """The files are not in the supported format, or do not belong together."""


def merge(source: Path, adapter: Path, target: Path, progress: Callable[[int], None]) -> None:
    """Write `source` with `adapter` merged in to `target`. `progress` receives the number of bytes written."""
    try:
        model, changes = _GgufFile(source), _Adapter(_GgufFile(adapter))
        if unknown := changes.names - model.tensors.keys():
            raise KeyError(f"no weights {min(unknown).decode(errors='replace')}")
        with target.open("wb") as out, np.errstate(all="raise", under="ignore"):
            out.write(model.header_for_q8_0())
            for name, tensor in model.tensors.items():
                out.write(_merged(model, tensor, changes.of(name)))
                progress(out.tell())
                out.write(_gap(out.tell()))
    except (struct.error, LookupError, ArithmeticError, ValueError) as error:
        raise NotMergeable(f"{source.name} and {adapter.name} cannot be merged ({error})") from error


def _gap(end: int) -> bytes:
    return bytes(-end % _ALIGNMENT)


class _Tensor(NamedTuple):
    kind: int
    #: Number of weights per row, and of rows.
    columns: int
    rows: int
    #: Offset of the data from the first tensor, and the position in the header of the format and this offset.
    offset: int
    entry_at: int

    @property
    def new_kind(self) -> int:
        return _Q8_0 if self.kind == _Q4_1 else self.kind

    def size(self, kind: int) -> int:
        count, size = _BLOCKS[kind]
        return self.rows * self.columns // count * size


class _GgufFile:
    """A GGUF file: its metadata of four bytes each, and its tensors in order."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = len(_BEGIN)
        if self._content[: self._at] != _BEGIN:
            raise KeyError("unknown signature or version")
        tensors, values = self._number("Q"), self._number("Q")
        #: Positions of metadata values in the file.
        self._positions: dict[bytes, int] = {}
        for _ in range(values):
            name, kind = self._text(), self._number("I")
            self._positions[name] = self._at
            self._skip(kind)
        if _OTHER_ALIGNMENT in self._positions:
            raise KeyError("unsupported alignment")
        self.tensors: Mapping[bytes, _Tensor] = {self._text(): self._tensor() for _ in range(tensors)}
        self._end = self._at + len(_gap(self._at))

    def float(self, name: bytes) -> float:
        """Return a metadata value."""
        return struct.unpack_from("<f", self._content, self._positions[name])[0]

    def data(self, tensor: _Tensor) -> NDArray[np.uint8]:
        """Return the stored bytes of a tensor."""
        begin = self._end + tensor.offset
        if begin + tensor.size(tensor.kind) > len(self._content):
            raise KeyError("the file is truncated")
        return np.frombuffer(self._content, np.uint8, tensor.size(tensor.kind), begin)

    def header_for_q8_0(self) -> bytes:
        """Return the header of a file with the same tensors, in 8 bits instead of 4."""
        header, offset = bytearray(self._content[: self._at]), 0
        if _FILE_KIND in self._positions:
            struct.pack_into("<I", header, self._positions[_FILE_KIND], _MOSTLY_Q8_0)
        for tensor in self.tensors.values():
            struct.pack_into("<IQ", header, tensor.entry_at, tensor.new_kind, offset)
            offset += tensor.size(tensor.new_kind) + len(_gap(tensor.size(tensor.new_kind)))
        return bytes(header) + _gap(self._at)

    def _number(self, form: str) -> int:
        """Read a number. `form` is a struct format: `I` has 4 bytes, `Q` has 8."""
        value = struct.unpack_from("<" + form, self._content, self._at)[0]
        self._at += struct.calcsize("<" + form)
        return value

    def _text(self) -> bytes:
        length = self._number("Q")
        self._at += length
        return self._content[self._at - length : self._at]

    def _skip(self, kind: int) -> None:
        if kind == _TEXT:
            self._text()
        elif kind == _LIST:
            kind, count = self._number("I"), self._number("Q")
            if kind in _VALUE_BYTES:
                self._at += count * _VALUE_BYTES[kind]
                return
            for _ in range(count):
                self._skip(kind)
        else:
            self._at += _VALUE_BYTES[kind]

    def _tensor(self) -> _Tensor:
        columns, *rest = [self._number("Q") for _ in range(self._number("I"))]
        entry_at = self._at
        return _Tensor(self._number("I"), columns, math.prod(rest), self._number("Q"), entry_at)


class _Adapter:
    """What an adapter adds to the weights: for each tensor, the product of two thin matrices."""

    def __init__(self, file: _GgufFile) -> None:
        self._file = file
        self._alpha = np.float32(file.float(_ALPHA))
        self.names = {name.rpartition(b".lora_")[0] for name in file.tensors}

    def of(self, name: bytes) -> tuple[_Floats, _Floats] | None:
        """Return the two matrices for a tensor, with the scale in the second one."""
        if name not in self.names:
            return None
        first, second = (_weights(self._file, self._file.tensors[name + half]) for half in (b".lora_a", b".lora_b"))
        return first, second * (self._alpha / np.float32(len(first)))


def _weights(file: _GgufFile, tensor: _Tensor) -> _Floats:
    data, shape = file.data(tensor), (tensor.rows, tensor.columns)
    match tensor.kind:
        case 0:
            return data.view("<f4").reshape(shape)
        case 1:
            return data.view("<f2").astype(np.float32).reshape(shape)
        case 3:
            fours = data.view(_Q4_1_BLOCK)
            indices = np.concatenate((fours["indices"] & 15, fours["indices"] >> 4), axis=1).astype(np.float32)
            steps, lowest = (fours[each].astype(np.float32)[:, None] for each in ("step", "lowest"))
            return (indices * steps + lowest).reshape(shape)
        case _:
            eights = data.view(_Q8_0_BLOCK)
            return (eights["multiples"] * eights["scale"].astype(np.float32)[:, None]).reshape(shape)


def _merged(file: _GgufFile, tensor: _Tensor, change: tuple[_Floats, _Floats] | None) -> bytes:
    if tensor.new_kind == tensor.kind and change is None:
        return file.data(tensor).tobytes()
    if tensor.new_kind != _Q8_0:
        raise KeyError("unsupported format of weights")
    weights = _weights(file, tensor)
    if change is not None:
        weights = weights + _product(*change, weights.shape)
    blocks = weights.reshape(-1, 32)
    largest = np.abs(blocks).max(axis=1)
    result = np.empty(len(blocks), _Q8_0_BLOCK)
    result["scale"] = largest / _MAX_INT8
    per = np.divide(_MAX_INT8, largest, out=np.zeros_like(largest), where=largest > 0)
    result["multiples"] = np.rint(blocks * per[:, None])
    return result.tobytes()


def _product(first: _Floats, second: _Floats, shape: tuple[int, ...]) -> _Floats:
    """Return `second @ first`, summed up in order. A library for matrices would round differently on each machine."""
    product = np.zeros(shape, np.float32)
    if (len(second), first.shape[1]) != shape or second.shape[1] != len(first):
        raise ValueError("the adapter has other shapes")
    part = np.empty((_ROWS, shape[1]), np.float32)
    for at in range(0, shape[0], _ROWS):
        rows, factors = product[at : at + _ROWS], second[at : at + _ROWS]
        for rank, row in enumerate(first):
            rows += np.multiply(factors[:, rank, None], row, out=part[: len(rows)])
    return product
