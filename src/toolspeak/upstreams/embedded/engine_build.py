"""Detects which CPU features the installed inference engine (llama.cpp) was built for.

The prebuilt wheel runs on any processor of its kind. An engine built on this machine (`make native`) can use byte
dot-product instructions, and then processes prompts several times faster if the weights are 8-bit. With AVX2, which the
wheel for x86 uses, such weights are also faster, but less so. Run with `python -m`, this module prints the features of
the engine.
"""

import functools
import importlib
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

#: Byte dot-product instructions, as llama.cpp names them.
_BYTE_PRODUCTS = frozenset({"DOTPROD", "MATMUL_INT8", "AVX_VNNI", "AVX512_VNNI", "AMX_INT8"})
#: Instructions with which 8-bit weights are faster than 4-bit ones.
_WIDE = _BYTE_PRODUCTS | {"AVX2"}
#: Byte dot-product instructions, as /proc/cpuinfo names them.
_CPU_FLAGS = frozenset({"asimddp", "i8mm", "avx_vnni", "avx512_vnni", "amx_int8"})
_CPUINFO = Path("/proc/cpuinfo")
#: Time limit in seconds for querying the engine. Loading it from a slow disk takes a while.
_MAX_SECONDS = 60


def has_byte_products(system_info: str) -> bool:
    """Whether the engine has byte dot products, by its info (`CPU : NEON = 1 | DOTPROD = 1 | `)."""
    return not _BYTE_PRODUCTS.isdisjoint(_features(system_info))


def prefers_8_bits(system_info: str) -> bool:
    """Whether the engine is faster with 8-bit weights."""
    return not _WIDE.isdisjoint(_features(system_info))


def _features(system_info: str) -> set[str]:
    """Return the features of an engine that uses only the CPU. With a GPU, other weights may be faster."""
    kind, _, rest = system_info.partition(" : ")
    if kind != "CPU" or " : " in rest:
        return set()
    return {name for name, _, value in (part.strip().partition(" = ") for part in rest.split("|")) if value == "1"}


@functools.cache
def installed_info() -> str:
    """Return the info of the installed engine, or an empty text if it cannot be queried."""
    command = (sys.executable, "-P", "-m", __name__)
    with suppress(OSError, subprocess.SubprocessError):
        info = subprocess.check_output(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_MAX_SECONDS)
        return info.decode("utf-8", "replace").strip()
    return ""


def could_have_byte_products(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether an engine built on this machine would have byte dot products. False if the processor is unknown."""
    with suppress(OSError):
        return not _CPU_FLAGS.isdisjoint(cpuinfo.read_text("utf-8", "replace").split())
    return False


def main() -> None:
    sys.stdout.write(importlib.import_module("xllamacpp").get_system_info())


if __name__ == "__main__":
    main()
