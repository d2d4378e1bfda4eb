"""The filter of system calls, run by a small machine of our own: what it refuses, and what it lets pass."""

from __future__ import annotations

import struct

import pytest

from tests.cases import check_each
from toolspeak.tools.seccomp import filter_for

pytestmark = pytest.mark.requirement("R-T4")

ALLOWED, REFUSED, UNKNOWN, NO_FAMILY = 0x7FFF0000, 0x00050001, 0x00050026, 0x00050061
X86, ARM = 0xC000003E, 0xC00000B7


def judged(machine: str, audit: int, number: int, *arguments: int) -> int:
    """What the kernel would do: the instructions are those of classic BPF."""
    program = list(struct.iter_unpack("<HBBI", filter_for(machine)))
    data = struct.pack("<IIQ6Q", number, audit, 0, *(arguments + (0,) * 6)[:6])
    at, held = 0, 0
    while True:
        code, yes, no, value = program[at]
        match code:
            case 0x20:
                (held,) = struct.unpack_from("<I", data, value)
                at += 1
            case 0x15:
                at += 1 + (yes if held == value else no)
            case 0x35:
                at += 1 + (yes if held >= value else no)
            case 0x45:
                at += 1 + (yes if held & value else no)
            case _:
                assert code == 0x06
                return value


@check_each(
    ("machine", "audit", "number", "arguments", "verdict"),
    [
        ("x86_64", X86, 0, (), ALLOWED),  # read
        ("x86_64", X86, 250, (), REFUSED),  # keyctl
        ("x86_64", X86, 272, (), REFUSED),  # unshare
        ("x86_64", X86, 321, (), REFUSED),  # bpf
        ("x86_64", X86, 425, (), REFUSED),  # io_uring_setup
        ("x86_64", X86, 435, (), UNKNOWN),  # clone3
        ("x86_64", X86, 437, (), UNKNOWN),  # openat2
        ("x86_64", X86, 90, (0, 0o755), ALLOWED),  # chmod
        ("x86_64", X86, 90, (0, 0o4755), REFUSED),
        ("x86_64", X86, 268, (0, 0, 0o2755), REFUSED),  # fchmodat
        ("x86_64", X86, 2, (0, 0, 0o4755), ALLOWED),  # open without creating: the mode means nothing
        ("x86_64", X86, 2, (0, 0o101, 0o4755), REFUSED),
        ("x86_64", X86, 257, (0, 0, 0o101, 0o644), ALLOWED),  # openat
        ("x86_64", X86, 257, (0, 0, 0o101, 0o6644), REFUSED),
        ("x86_64", X86, 56, (0x11,), ALLOWED),  # clone
        ("x86_64", X86, 56, (0x10000011,), REFUSED),
        ("x86_64", X86, 16, (0, 0x5412), REFUSED),  # ioctl TIOCSTI
        ("x86_64", X86, 16, (0, 0x541C), REFUSED),
        ("x86_64", X86, 16, (0, 0x5413), ALLOWED),
        ("x86_64", X86, 0x40000000, (), UNKNOWN),  # the x32 way
        ("x86_64", 0x40000003, 0, (), UNKNOWN),  # 32-bit programs
        ("AMD64", X86, 250, (), REFUSED),
        ("aarch64", ARM, 63, (), ALLOWED),  # read
        ("aarch64", ARM, 219, (), REFUSED),  # keyctl
        ("aarch64", ARM, 97, (), REFUSED),  # unshare
        ("aarch64", ARM, 53, (0, 0, 0o755), ALLOWED),  # fchmodat
        ("aarch64", ARM, 53, (0, 0, 0o4755), REFUSED),
        ("aarch64", ARM, 56, (0, 0, 0o100, 0o4755), REFUSED),  # openat
        ("aarch64", ARM, 56, (0, 0, 0, 0o4755), ALLOWED),
        ("aarch64", ARM, 220, (0x10000000,), REFUSED),  # clone
        ("aarch64", ARM, 29, (0, 0x5412), REFUSED),  # ioctl
        ("arm64", ARM, 63, (), ALLOWED),
    ],
)
def test_calls_are_judged(machine: str, audit: int, number: int, arguments: tuple[int, ...], verdict: int):
    assert judged(machine, audit, number, *arguments) == verdict


@check_each(
    ("machine", "audit", "numbers"),
    [("x86_64", X86, (41, 53)), ("aarch64", ARM, (198, 199))],
    ids=["x86_64", "aarch64"],
)
def test_only_sockets_that_namespaces_part_are_made(machine: str, audit: int, numbers: tuple[int, ...]):
    parted = {1, 2, 10, 16}  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
    for number in numbers:
        open_families = {family for family in range(64) if judged(machine, audit, number, family, 1) == ALLOWED}
        assert open_families == parted
        assert judged(machine, audit, number, 40, 1) == NO_FAMILY  # AF_VSOCK
        # The kernel looks at the lower half only, and so must the filter.
        assert judged(machine, audit, number, 40 | 1 << 32, 1) == NO_FAMILY
    # Other calls with the same first argument are not meant.
    assert judged(machine, audit, max(numbers) + 1, 40) == ALLOWED


def test_a_machine_that_is_not_known_has_no_filter():
    assert filter_for("riscv64") == b""
