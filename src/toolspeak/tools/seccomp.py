"""The seccomp filter of the sandbox: system calls that a sandboxed command may not make.

The filter refuses calls to facilities that namespaces do not isolate (keys, kernel programs, modules, the clock), calls
that create namespaces, mounts or set-user-ID files, and socket families that a network namespace does not isolate
(including sockets to the host of a virtual machine). Ordinary programs are not affected. Machine types that are not
listed here have no filter.
"""

import struct
from typing import NamedTuple

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
#: Socket families that namespaces isolate: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. All others are refused.
_FAMILIES = (1, 2, 10, 16)
#: ioctl requests that inject keystrokes into a terminal.
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX


class _Syscalls(NamedTuple):
    audit: int
    refused: tuple[int, ...]  # calls that are refused whatever their arguments are
    modes: tuple[tuple[int, int], ...]  # calls that set a file mode: (call, index of the mode argument)
    #: Calls that open a file: (call, index of the flags argument, index of the mode argument).
    opens: tuple[tuple[int, int, int], ...]
    clone: int
    ioctl: int
    sockets: tuple[int, ...]  # `socket` and `socketpair`; their first argument is the socket family
    number_limit: int  # call numbers from this one on belong to another calling convention


#: Calls with the same number on every machine: io_uring (3), the newer mount calls (6), mount_setattr, pidfd_getfd.
_COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 438)
#: clone3 and openat2, whose arguments a filter cannot see. Refused as unknown, so programs use the older calls.
_UNSEEN = (435, 437)

_MACHINES = {
    "x86_64": _Syscalls(
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
        number_limit=0x4000_0000,
    ),
    "aarch64": _Syscalls(
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
        number_limit=0x4000_0000,
    ),
}


def filter_for(machine: str) -> bytes:
    """Return the compiled filter for a machine type, or empty bytes if there is none."""
    syscalls = _MACHINES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower()))
    return b"".join(struct.pack("<HBBI", *each) for each in _program(syscalls)) if syscalls else b""


_Instruction = tuple[int, int, int, int]


def _program(machine: _Syscalls) -> list[_Instruction]:
    load_number: _Instruction = (_LOAD, 0, 0, _NUMBER)
    unknown = _refuse(_ENOSYS)
    program: list[_Instruction] = [(_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, machine.audit), unknown, load_number]
    program += [(_AT_LEAST, 0, 1, machine.number_limit), unknown]
    for number in (*machine.refused, *_COMMON):
        program += [(_EQUAL, 0, 1, number), _refuse(_EPERM)]
    for number in _UNSEEN:
        program += [(_EQUAL, 0, 1, number), unknown]
    for number, mode in machine.modes:
        program += [(_EQUAL, 0, 4, number), *_refused_bits(mode, _RUNS_AS_OWNER), load_number]
    for number, flags, mode in machine.opens:
        inner = _refused_bits(mode, _RUNS_AS_OWNER)
        program += [(_EQUAL, 0, 6, number), _argument(flags), (_BITS, 0, 3, _CREATES), *inner, load_number]
    program += [(_EQUAL, 0, 4, machine.clone), *_refused_bits(0, _NEW_USERS), load_number]
    for request in _TERMINAL_INPUT:
        program += [(_EQUAL, 0, 4, machine.ioctl), _argument(1), (_EQUAL, 0, 1, request), _refuse(_EPERM), load_number]
    families = [(_EQUAL, len(_FAMILIES) - at, 0, family) for at, family in enumerate(_FAMILIES)]
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
