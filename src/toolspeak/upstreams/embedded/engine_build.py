"""Which CPU features the installed inference engine (llama.cpp) was built for.

The prebuilt wheel runs on any processor. An engine built on this machine (`make native`) can use byte dot-product
instructions and then processes prompts several times faster if the weights are 8-bit; such an engine is called quick.
Run with `python -m`, this module prints the features of the engine.
"""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from pathlib import Path

#: Byte dot-product instructions, by llama.cpp's names.
_ENGINE_FEATURES = frozenset({"DOTPROD", "MATMUL_INT8", "AVX_VNNI", "AVX512_VNNI", "AMX_INT8"})
#: The same instructions, by their names in /proc/cpuinfo.
_CPU_FLAGS = frozenset({"asimddp", "i8mm", "avx_vnni", "avx512_vnni", "amx_int8"})
_CPUINFO = Path("/proc/cpuinfo")
#: Time limit; loading the engine from a slow disk takes a while.
_MAX_SECONDS = 60


def has_byte_products(system_info: str) -> bool:
    """Whether the engine's system info (`CPU : NEON = 1 | DOTPROD = 1 | `) lists a byte dot product and CPU only.

    For engines that use a GPU, other weights may be faster.
    """
    kind, _, rest = system_info.partition(" : ")
    if kind != "CPU" or " : " in rest:
        return False
    return any(part.strip() == f"{name} = 1" for part in rest.split("|") for name in _ENGINE_FEATURES)


@functools.cache
def is_quick() -> bool:
    """Whether the installed engine has byte dot products; False if it cannot be queried."""
    command = (sys.executable, "-P", "-m", __name__)
    try:
        process = subprocess.run(
            command, capture_output=True, check=True, timeout=_MAX_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return has_byte_products(process.stdout.decode("utf-8", "replace").strip())


def could_be_quick(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether an engine built here would have byte dot products; False if the processor is unknown."""
    try:
        flags = cpuinfo.read_text("utf-8", "replace")
    except OSError:
        return False
    return not _CPU_FLAGS.isdisjoint(flags.split())


def main() -> None:
    sys.stdout.write(importlib.import_module("xllamacpp").get_system_info())


if __name__ == "__main__":
    main()
