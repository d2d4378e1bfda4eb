"""Builds a wheel of xllamacpp with one CPU backend for each kind of processor; the fastest one is chosen at run time.

    python packaging/engine/build.py [--work FOLDER] [--jobs N] [--dry-run]

The sources and the build tools are those of `toolspeak engine build`, pinned by hash. The wheel lies in FOLDER/dist.
README.md beside this file says more.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
REQUIREMENTS = HERE.parents[1] / "src" / "toolspeak" / "upstreams" / "embedded"
#: Left out: what needs Rust, Go or a download, as in `engine.toml`.
CMAKE_ARGS = f"""-DBUILD_SHARED_LIBS=ON -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON -DGGML_NATIVE=OFF
-DCMAKE_PROJECT_llama.cpp_INCLUDE={HERE / "variants.cmake"} -DLLAMA_LLGUIDANCE=OFF -DLLAMA_BUILD_BORINGSSL=OFF
-DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF"""
#: Left out of the wheel: this backend uses AMX, which many virtual machines report but do not allow.
AMX = "libggml-cpu-sapphirerapids.so"
#: Wheels with a build number are preferred to those of the same version without one.
BUILD_NUMBER = "1"
#: Loads the backends from the folder of the package before the extension module is imported.
LOADER = """\
import ctypes as _ctypes
import pathlib as _pathlib

_folder = _pathlib.Path(__file__).parent
_ctypes.CDLL(str(_folder / "libggml.so.0")).ggml_backend_load_all_from_path(str(_folder).encode())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("build/engine"), help="folder to build in")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of compilers to run at a time")
    parser.add_argument("--dry-run", action="store_true", help="print the commands without running them")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    variables = {
        "CMAKE_ARGS": " ".join(CMAKE_ARGS.split()),
        "CMAKE_GENERATOR": "Ninja",
        "NPROC": str(arguments.jobs),
        "LDFLAGS": "-Wl,-rpath,$ORIGIN",
        "PYTHONPATH": str(work / "tools"),
        "PATH": os.pathsep.join((str(work / "tools" / "bin"), os.environ["PATH"])),
    }
    steps = commands(work)
    if arguments.dry_run:
        for name, value in variables.items():
            print(f"export {name}={shlex.quote(value)}")
        for command in steps:
            print(shlex.join(command))
        return
    work.mkdir(parents=True, exist_ok=True)
    for command in steps:
        subprocess.run(command, env={**os.environ, **variables}, check=True)
    (plain,) = (work / "plain").glob("xllamacpp-*.whl")
    libraries = next(work.glob("sources/*/thirdparty/llama.cpp/build/bin"))
    print(add_libraries(plain, libraries, work / "dist"))


def commands(work: Path) -> list[list[str]]:
    """The commands, up to a wheel that has only the extension module."""
    version = (REQUIREMENTS / "engine-source.txt").read_text(encoding="utf-8").partition("==")[2].split()[0]
    pip = [sys.executable, "-m", "pip"]
    tools = [word for name in ("tools", "cmake") for word in ("-r", str(REQUIREMENTS / f"engine-{name}.txt"))]
    hashed, sources = ["--no-deps", "--require-hashes"], work / "sources"
    isolated = "--no-build-isolation"  # the tools are those above, not what the index has today
    source = ["-r", str(REQUIREMENTS / "engine-source.txt")]
    archive, package = sources / f"xllamacpp-{version}.tar.gz", sources / f"xllamacpp-{version}"
    return [
        [*pip, "install", *hashed, "--only-binary", ":all:", "--upgrade", "--target", str(work / "tools"), *tools],
        [*pip, "download", *hashed, isolated, "--no-binary", ":all:", "--dest", str(sources), *source],
        [sys.executable, "-m", "tarfile", "-e", str(archive), str(sources)],
        [*pip, "wheel", "-v", "--no-deps", isolated, "--wheel-dir", str(work / "plain"), str(package)],
    ]


def add_libraries(plain: Path, libraries: Path, target: Path) -> Path:
    """Write a wheel with the shared libraries and the backends beside the extension module."""
    name, version, *tags = plain.name.split("-")
    target.mkdir(parents=True, exist_ok=True)
    result = target / "-".join((name, version, BUILD_NUMBER, *tags))
    info = f"{name}-{version}.dist-info"
    records: list[str] = []
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as new:

        def add(path: str, content: bytes) -> None:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            records.append(f"{path},sha256={digest},{len(content)}")
            new.writestr(path, content)

        for path in old.namelist():
            content = old.read(path)
            if path == f"{name}/__init__.py":
                content = LOADER.encode() + content
            elif path == f"{info}/WHEEL":
                content = content.replace(b"\nTag:", f"\nBuild: {BUILD_NUMBER}\nTag:".encode(), 1)
            if path != f"{info}/RECORD":
                add(path, content)
        for file, library in shared_libraries(libraries):
            add(f"{name}/{file}", library.read_bytes())
        new.writestr(f"{info}/RECORD", "\n".join((*records, f"{info}/RECORD,,", "")))
    return result


def shared_libraries(folder: Path) -> Iterator[tuple[str, Path]]:
    """The libraries by the names under which programs look for them: `libllama.so.0`, `libggml-cpu-haswell.so`."""
    for file in sorted(folder.glob("lib*.so*")):
        if file.name == AMX:
            continue
        is_backend = file.name.startswith("libggml-cpu-")
        if is_backend or (file.name.partition(".so.")[2].isdecimal() and file.is_symlink()):
            yield file.name, file


if __name__ == "__main__":
    if shutil.which("c++") is None:
        sys.exit("error: there is no C++ compiler (c++); on Debian and Ubuntu: apt-get install g++ python3-dev")
    main()
