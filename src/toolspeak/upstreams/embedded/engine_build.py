"""Detects which CPU features the installed inference engine (llama.cpp) was built for.

The prebuilt wheel runs on any processor. An engine built on this machine (`make native`) can use byte dot-product
instructions, and then processes prompts several times faster if the weights are 8-bit. This project calls such an
engine quick. Run with `python -m`, this module prints the features of the engine.
"""

import functools
import importlib
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

#: Byte dot-product instructions, as llama.cpp names them.
_ENGINE_FEATURES = frozenset({"DOTPROD", "MATMUL_INT8", "AVX_VNNI", "AVX512_VNNI", "AMX_INT8"})
#: Byte dot-product instructions, as /proc/cpuinfo names them.
_CPU_FLAGS = frozenset({"asimddp", "i8mm", "avx_vnni", "avx512_vnni", "amx_int8"})
_CPUINFO = Path("/proc/cpuinfo")
#: Time limit in seconds for querying the engine. Loading it from a slow disk takes a while.
_MAX_SECONDS = 60


def has_byte_products(system_info: str) -> bool:
    """Whether the engine uses only the CPU and has byte dot products, by its info (`CPU : NEON = 1 | DOTPROD = 1 | `).

    With a GPU, other weights may be faster.
    """
    kind, _, rest = system_info.partition(" : ")
    if kind != "CPU" or " : " in rest:
        return False
    return any(part.strip() == f"{name} = 1" for part in rest.split("|") for name in _ENGINE_FEATURES)


@functools.cache
def is_quick() -> bool:
    """Whether the installed engine has byte dot products. False if the engine cannot be queried."""
    command = (sys.executable, "-P", "-m", __name__)
    with suppress(OSError, subprocess.SubprocessError):
        info = subprocess.check_output(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_MAX_SECONDS)
        return has_byte_products(info.decode("utf-8", "replace").strip())
    return False


def could_be_quick(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether an engine built on this machine would have byte dot products. False if the processor is unknown."""
    with suppress(OSError):
        return not _CPU_FLAGS.isdisjoint(cpuinfo.read_text("utf-8", "replace").split())
    return False


def main() -> None:
    sys.stdout.write(importlib.import_module("xllamacpp").get_system_info())


if __name__ == "__main__":
    main()
