"""Which system calls a sandboxed command may not make, as a filter program for the kernel.

Left out are calls that reach what namespaces do not part (keys, kernel programs, modules, the clock), that make new
namespaces or mounts, that leave files behind which run as their owner, and sockets of kinds that a network namespace
does not part (those to the machine's host among them). Ordinary programs do not notice. Numbers are those of Linux, for the machines named here; elsewhere there is no
filter.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_ERRNO = 0x0005_0000
_ALLOW = 0x7FFF_0000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
#: Instructions of the kernel's packet filter: load a word, compare, compare bits, return.
_LOAD, _EQUAL, _AT_LEAST, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
#: Where the number, the machine and the arguments stand in what the filter sees.
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16

_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE
_RUNS_AS_OWNER = 0o6000  # set-user-ID, set-group-ID
_NEW_USERS = 0x1000_0000  # CLONE_NEWUSER
#: Sockets that namespaces part: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. All others are refused.
_FAMILIES = (1, 2, 10, 16)
#: Puts text into a terminal as if somebody had typed it.
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX


class _Machine(NamedTuple):
    """The numbers of one kind of machine."""

    audit: int
    #: Refused whatever the arguments are.
    refused: tuple[int, ...]
    #: (call, argument that holds the mode)
    modes: tuple[tuple[int, int], ...]
    #: (call, argument that holds the flags, argument that holds the mode)
    opens: tuple[tuple[int, int, int], ...]
    clone: int
    ioctl: int
    #: socket, socketpair: the first argument is the family.
    sockets: tuple[int, ...]
    #: Numbers from here on are another way to call the same.
    most: int


#: On every machine: io_uring (three), the newer calls for mounts (six), mount_setattr, pidfd_getfd.
_COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 438)
#: Calls whose arguments a filter cannot see; programs then use the older ones: clone3, openat2.
_UNSEEN = (435, 437)

_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000_003E,
        refused=(
            *(248, 249, 250),  # keys
            *(321, 298, 323),  # bpf, perf_event_open, userfaultfd
            *(246, 320, 175, 313, 176),  # kexec, modules
            *(165, 166, 155, 308, 272),  # mount, umount2, pivot_root, setns, unshare
            *(167, 168, 169, 163, 179, 103),  # swap, reboot, acct, quotactl, syslog
            *(164, 227, 159, 305),  # the clock
            *(303, 304),  # files by handle
        ),
        modes=((90, 1), (91, 1), (268, 2), (452, 2), (133, 1), (259, 2), (85, 1)),
        opens=((2, 1, 2), (257, 2, 3)),
        clone=56,
        ioctl=16,
        sockets=(41, 53),
        most=0x4000_0000,
    ),
    "aarch64": _Machine(
        audit=0xC000_00B7,
        refused=(
            *(217, 218, 219),
            *(280, 241, 282),
            *(104, 294, 105, 273, 106),
            *(40, 39, 41, 268, 97),
            *(224, 225, 142, 89, 60, 116),
            *(170, 112, 171, 266),
            *(264, 265),
        ),
        modes=((52, 1), (53, 2), (452, 2), (33, 2)),
        opens=((56, 2, 3),),
        clone=220,
        ioctl=29,
        sockets=(198, 199),
        most=0x4000_0000,
    ),
}


def filter_for(machine: str) -> bytes:
    """The program for a kind of machine, as the kernel reads it; empty where there is none."""
    known = _MACHINES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower()))
    return b"".join(struct.pack("<HBBI", *each) for each in _program(known)) if known else b""


_Instruction = tuple[int, int, int, int]


def _program(machine: _Machine) -> list[_Instruction]:
    load_number: _Instruction = (_LOAD, 0, 0, _NUMBER)
    unknown = _refuse(_ENOSYS)
    made: list[_Instruction] = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, machine.audit), unknown, load_number]
    made += [(_AT_LEAST, 0, 1, machine.most), unknown]
    for number in (*machine.refused, *_COMMON):
        made += [(_EQUAL, 0, 1, number), _refuse(_EPERM)]
    for number in _UNSEEN:
        made += [(_EQUAL, 0, 1, number), unknown]
    for number, mode in machine.modes:
        made += [(_EQUAL, 0, 4, number), *_refused_bits(mode, _RUNS_AS_OWNER), load_number]
    for number, flags, mode in machine.opens:
        inner = _refused_bits(mode, _RUNS_AS_OWNER)
        made += [(_EQUAL, 0, 6, number), _argument(flags), (_BITS, 0, 3, _CREATES), *inner, load_number]
    made += [(_EQUAL, 0, 4, machine.clone), *_refused_bits(0, _NEW_USERS), load_number]
    for request in _TERMINAL_INPUT:
        made += [(_EQUAL, 0, 4, machine.ioctl), _argument(1), (_EQUAL, 0, 1, request), _refuse(_EPERM), load_number]
    for number in machine.sockets:
        inner = _only(0, _FAMILIES, _EAFNOSUPPORT)
        made += [(_EQUAL, 0, len(inner) + 1, number), *inner, load_number]
    return [*made, (_RETURN, 0, 0, _ALLOW)]


def _refused_bits(argument: int, bits: int) -> list[_Instruction]:
    """Three instructions: refused if one of these bits is set."""
    return [_argument(argument), (_BITS, 0, 1, bits), _refuse(_EPERM)]


def _only(argument: int, values: tuple[int, ...], error: int) -> list[_Instruction]:
    """Refused unless an argument is one of these; each jumps over those after it and the refusal."""
    compared = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [_argument(argument), *compared, _refuse(error)]


def _argument(at: int) -> _Instruction:
    """Load the lower half of an argument; all machines here keep it first."""
    return _LOAD, 0, 0, _ARGUMENTS + 8 * at


def _refuse(error: int) -> _Instruction:
    return _RETURN, 0, 0, _ERRNO | error
