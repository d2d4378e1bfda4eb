"""The seccomp filter of the sandbox: system calls that a sandboxed command may not make.

The filter refuses calls to facilities that namespaces do not isolate (keys, kernel programs, modules, the clock), calls
that create namespaces, mounts or set-user-ID files, and socket families that a network namespace does not isolate
(including sockets to the host of a virtual machine). Ordinary programs are not affected. Machine types that are not
listed in `seccomp.toml` have no filter.
"""

import struct
from pathlib import Path

import msgspec

_ERRNO = 0x0005_0000
_ALLOW = 0x7FFF_0000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
#: BPF instructions: load a word, compare (equal, at least), test bits, return.
_LOAD, _EQUAL, _AT_LEAST, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
#: Offsets of the call number, the machine and the arguments in `struct seccomp_data`.
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16

_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE
_RUNS_AS_OWNER = 0o6000  # set-user-ID, set-group-ID
_NEW_USERS = 0x1000_0000  # CLONE_NEWUSER


class _Machine(msgspec.Struct, frozen=True):
    audit: int
    refused: tuple[int, ...]
    modes: tuple[tuple[int, int], ...]
    opens: tuple[tuple[int, int, int], ...]
    clone: int
    ioctl: int
    sockets: tuple[int, ...]
    number_limit: int


class _Syscalls(msgspec.Struct, frozen=True):
    """The contents of `seccomp.toml`, which explains the fields."""

    common: tuple[int, ...]
    unseen: tuple[int, ...]
    families: tuple[int, ...]
    terminal_input: tuple[int, ...]
    machines: dict[str, _Machine]


_SYSCALLS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Syscalls)


def filter_for(machine: str) -> bytes:
    """Return the compiled filter for a machine type, or empty bytes if there is none."""
    rules = _SYSCALLS.machines.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower()))
    return b"".join(struct.pack("<HBBI", *each) for each in _program(rules)) if rules else b""


_Instruction = tuple[int, int, int, int]


def _program(machine: _Machine) -> list[_Instruction]:
    load_number: _Instruction = (_LOAD, 0, 0, _NUMBER)
    unknown = _refuse(_ENOSYS)
    program: list[_Instruction] = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, machine.audit), unknown, load_number]
    program += [(_AT_LEAST, 0, 1, machine.number_limit), unknown]
    for number in (*machine.refused, *_SYSCALLS.common):
        program += [(_EQUAL, 0, 1, number), _refuse(_EPERM)]
    for number in _SYSCALLS.unseen:
        program += [(_EQUAL, 0, 1, number), unknown]
    for number, mode in machine.modes:
        program += [(_EQUAL, 0, 4, number), *_refused_bits(mode, _RUNS_AS_OWNER), load_number]
    for number, flags, mode in machine.opens:
        inner = _refused_bits(mode, _RUNS_AS_OWNER)
        program += [(_EQUAL, 0, 6, number), _argument(flags), (_BITS, 0, 3, _CREATES), *inner, load_number]
    program += [(_EQUAL, 0, 4, machine.clone), *_refused_bits(0, _NEW_USERS), load_number]
    for request in _SYSCALLS.terminal_input:
        program += [(_EQUAL, 0, 4, machine.ioctl), _argument(1), (_EQUAL, 0, 1, request), _refuse(_EPERM), load_number]
    allowed = _SYSCALLS.families
    families = [(_EQUAL, len(allowed) - at, 0, family) for at, family in enumerate(allowed)]
    for number in machine.sockets:
        inner = [_argument(0), *families, _refuse(_EAFNOSUPPORT)]
        program += [(_EQUAL, 0, len(inner) + 1, number), *inner, load_number]
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _refused_bits(argument: int, bits: int) -> list[_Instruction]:
    """Return three instructions that refuse the call if one of these bits is set in an argument."""
    return [_argument(argument), (_BITS, 0, 1, bits), _refuse(_EPERM)]


def _argument(at: int) -> _Instruction:
    """Return an instruction that loads the lower half of an argument. All supported machines are little-endian."""
    return _LOAD, 0, 0, _ARGUMENTS + 8 * at


def _refuse(error: int) -> _Instruction:
    return _RETURN, 0, 0, _ERRNO | error
