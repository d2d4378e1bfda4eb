"""What the engine that runs the embedded model was built for: any processor of its kind, or this one.

The engine comes as a wheel for any processor; who builds it here (`make native`) has one that multiplies bytes in one
step, where the processor can. It reads a prompt several times as fast, from weights of 8 bits.
"""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from pathlib import Path

#: Instructions that multiply bytes and add the products, as llama.cpp calls those it was built with.
_BYTE_PRODUCTS = frozenset({"DOTPROD", "MATMUL_INT8", "AVX_VNNI", "AVX512_VNNI", "AMX_INT8"})
#: The same, as Linux calls what a processor has, in the file that tells of it.
_PROCESSOR_HAS = frozenset({"asimddp", "i8mm", "avx_vnni", "avx512_vnni", "amx_int8"})
_PROCESSOR = Path("/proc/cpuinfo")
#: Loading the engine from a slow disk.
_MOST_SECONDS = 60


def multiplies_bytes(told: str) -> bool:
    """Whether an engine says of itself (`CPU : NEON = 1 | DOTPROD = 1 | `) that it does, and runs on nothing else.

    On graphics processors it is another question which weights are quick.
    """
    kind, _, rest = told.partition(" : ")
    if kind != "CPU" or " : " in rest:
        return False
    return any(part.strip() == f"{name} = 1" for part in rest.split("|") for name in _BYTE_PRODUCTS)


@functools.cache
def is_quick() -> bool:
    """Whether the engine that is installed multiplies bytes; one that cannot be asked does not."""
    command = (sys.executable, "-P", "-m", __name__)
    try:
        asked = subprocess.run(
            command, capture_output=True, check=True, timeout=_MOST_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return multiplies_bytes(asked.stdout.decode("utf-8", "replace").strip())


def could_be_quick(told_by: Path = _PROCESSOR) -> bool:
    """Whether an engine built here would multiply bytes; no, where the system does not tell of its processor."""
    try:
        told = told_by.read_text("utf-8", "replace")
    except OSError:
        return False
    return not _PROCESSOR_HAS.isdisjoint(told.split())


def main() -> None:
    """Say what the engine says of itself."""
    sys.stdout.write(importlib.import_module("xllamacpp").get_system_info())


if __name__ == "__main__":
    main()
