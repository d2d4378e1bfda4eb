"""The image and the service: what their files promise, as far as it can be seen without running them."""

from __future__ import annotations

import configparser
import fnmatch
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cases import only_at_full_size
from tests.server.live_proxy import Two, live

ROOT = Path(__file__).parent.parent
UNIT = ROOT / "packaging" / "toolspeak.service"
PORT = "8788"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each on one line."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ").splitlines()
    return [(word, " ".join(rest.split())) for line in lines if line.strip() for word, _, rest in [line.partition(" ")]]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    start = max(at for at, (word, _) in enumerate(found) if word == "FROM")
    return found[start:]


def said(word: str) -> list[str]:
    return [rest for found, rest in last_stage() if found == word]


def copied() -> list[str]:
    """What the image is built from."""
    lines = [rest.split() for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    return [name for line in lines for name in line[:-1]]


# ---- the image


def test_the_image_does_not_run_as_root():
    assert said("USER") == ["10001"]
    order = [word for word, _ in last_stage()]
    assert not {"RUN", "COPY", "ADD"} & set(order[order.index("USER") :])


def test_what_is_copied_is_there_and_let_through():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert "*" in ignored
    for name in copied():
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored


@pytest.mark.requirement("R-T2")
def test_no_layer_can_hold_a_secret():
    for word, rest in instructions():
        assert not re.search(r"key|token|secret|password", rest, re.IGNORECASE), (word, rest)
        assert word != "ADD"
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split() if line[0] == "!"]
    assert sorted(let_in) == sorted(copied())
    assert not any(fnmatch.fnmatch(".env", name) for name in let_in)


def test_the_health_of_the_image_is_that_of_the_server():
    (check,) = said("HEALTHCHECK")
    command = json.loads(check.partition("CMD ")[2])
    assert PORT in command[-1]
    with live(Two()) as proxy:
        here = command[-1].replace(PORT, proxy.url.rpartition(":")[2])
        assert subprocess.run([sys.executable, "-c", here], timeout=30, check=False).returncode == 0
    gone = subprocess.run([sys.executable, "-c", here], timeout=30, check=False, capture_output=True)
    assert gone.returncode != 0


def test_the_image_serves_and_keeps_what_must_stay_in_its_volume():
    assert (said("ENTRYPOINT"), said("CMD"), said("EXPOSE")) == (
        ['["toolspeak"]'],
        ['["serve", "--host", "0.0.0.0"]'],
        [PORT],
    )
    assert said("VOLUME") == ["/data"]
    (settings,) = said("ENV")
    for kind in ("CONFIG", "STATE", "CACHE"):
        assert f"XDG_{kind}_HOME=/data/" in settings


def test_the_package_is_built_from_what_is_copied_alone(tmp_path: Path):
    for name in copied():
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "toolspeak/server/app.py" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


# ---- the distributions

DISTRIBUTIONS = {"toolspeak": ROOT, "toolspeak_smollm2": ROOT / "packaging" / "smollm2"}
#: Installs of toolspeak that the documentation shows.
ELSEWHERE = ("langchain", "litellm", "llama-index", "smolagents")  # `make test-integrations` installs these
DOCUMENTED = re.compile(r"pip install +(?:--quiet +)?['\"]?(toolspeak(?:\[[a-z,0-9-]+\])?)(?=['\"`\s)])")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of both distributions."""
    folder = tmp_path_factory.mktemp("dist")
    for source in DISTRIBUTIONS.values():
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=120)
    return folder


def documented() -> set[str]:
    places = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), UNIT]
    names = {name for place in places for name in DOCUMENTED.findall(place.read_text(encoding="utf-8"))}
    return {name for name in names if not any(f"[{extra}]" in name for extra in ELSEWHERE)}


@pytest.mark.requirement("K5")
def test_the_base_wheel_is_small_and_the_adapter_is_a_distribution_of_its_own(built: Path):
    (base,), (adapter,) = (list(built.glob(f"{name}-*.whl")) for name in DISTRIBUTIONS)
    assert base.stat().st_size < 2_000_000
    assert not [name for name in zipfile.ZipFile(base).namelist() if name.endswith(".gguf")]
    names = zipfile.ZipFile(adapter).namelist()
    assert "toolspeak_smollm2/smollm2-135m-tools.gguf" in names
    assert any(name.endswith("licenses/NOTICE") for name in names)
    for wheel in (base, adapter):
        info = next(name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA"))
        assert zipfile.ZipFile(wheel).read(info).startswith(b"Metadata-Version: 2.4\n")


@pytest.mark.requirement("K5")
def test_the_readme_of_the_wheel_has_no_relative_links(built: Path):
    (wheel,) = built.glob("toolspeak-*.whl")
    archive = zipfile.ZipFile(wheel)
    (info,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    text = archive.read(info).decode()
    assert "Description-Content-Type: text/markdown\n" in text
    assert "Project-URL: Source, https://github.com/toolspeak/toolspeak\n" in text
    links = re.findall(r"\]\(([^)\s]+)\)", text.partition("\n\n")[2])
    assert len(links) > 15
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.mark.requirement("K5")
@only_at_full_size
def test_each_documented_install_works_with_the_built_wheels(built: Path, tmp_path: Path):
    assert {"toolspeak[agent]", "toolspeak[embedded]", "toolspeak[mcp]", "toolspeak[postgres]"} <= documented()
    others = tmp_path / "others"  # the installed dependencies without toolspeak, which stand for a package index
    others.mkdir()
    for entry in Path(pytest.__file__).parents[1].iterdir():
        if not re.match(r"_?_?(editable_impl_)?toolspeak", entry.name):
            (others / entry.name).symlink_to(entry)
    for number, name in enumerate(sorted(documented())):
        place = tmp_path / str(number)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True, timeout=120)
        (site,) = place.glob("lib/python*/site-packages")
        (site / "others.pth").write_text(f"{others}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "--no-compile"]
        install = [*pip, "--no-index", "--find-links", built, name]
        run = subprocess.run(install, capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0, run.stderr
        assert (site / "toolspeak_smollm2").exists() is ("embedded" in name or "all" in name)
        command = [place / "bin" / "toolspeak", "--version"]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert shown.stdout.strip().endswith("0.1.0"), (name, shown.stderr)


#: Uses the library, and imports the proxy.
SMOKE = """
import toolspeak as ts
import toolspeak.server.app
parsed = ts.parse('<tool_call>{"name": "ping", "arguments": {"n": 1,}}</tool_call>')
assert [(call.name, call.arguments) for call in parsed.calls] == [("ping", {"n": 1})]
tool = {"name": "ping", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
reply = ts.Client(lambda messages: '<tool_call>{"name": "ping", "arguments": {"n": 2}}</tool_call>').chat("Go", [tool])
print(reply.tool_calls[0].arguments["n"])
"""


def other_interpreters() -> list[str]:
    """The other versions of Python that the package supports, as far as they are on this machine."""
    names = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    others = [name for name in names if name != f"{sys.version_info.major}.{sys.version_info.minor}"]
    siblings = Path(sys.base_prefix).parent  # where version managers put them
    found = [
        shutil.which(f"python{name}", path=str(place))
        for name in others
        for place in (*(each / "bin" for each in sorted(siblings.glob(f"{name}*"))), "/usr/local/bin", "/usr/bin")
    ]
    return [each for each in found if each]


@pytest.mark.requirement("K5")
@only_at_full_size
def test_the_wheel_works_with_the_other_interpreters_of_this_machine(built: Path, tmp_path: Path):
    if not other_interpreters():
        pytest.skip("no other supported version of Python is installed")
    (wheel,) = built.glob("toolspeak-*.whl")
    for number, interpreter in enumerate(other_interpreters()):
        place = tmp_path / str(number)
        subprocess.run([interpreter, "-m", "venv", place], check=True, timeout=120)
        python = place / "bin" / "python"
        install = [python, "-m", "pip", "install", "--quiet", "--no-compile", wheel]
        subprocess.run(install, check=True, timeout=300, capture_output=True)
        run = subprocess.run([python, "-c", SMOKE], capture_output=True, text=True, timeout=60, check=False)
        assert run.stdout == "2\n", (interpreter, run.stderr)


# ---- the service


def unit() -> dict[str, list[str]]:
    """The settings of the unit's service, each with all of its values."""
    values: dict[str, list[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").partition("[Service]")[2].partition("[Install]")[0].splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            values.setdefault(name, []).append(value)
    return values


def test_the_service_has_few_rights():
    found = unit()
    for name in ("DynamicUser", "NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces"):
        assert found[name] == ["yes"], name
    assert (found["ProtectSystem"], found["CapabilityBoundingSet"], found["UMask"]) == (["strict"], [""], ["0077"])
    assert found["SystemCallFilter"] == ["@system-service", "~@privileged"]


def test_the_service_reads_its_configuration_again_and_ends_in_time():
    found = unit()
    assert "-HUP" in found["ExecReload"][0]
    assert int(found["TimeoutStopSec"][0]) > 30
    assert found["ExecStart"][0].endswith("/toolspeak serve")


def test_the_unit_can_be_read():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    assert parser.sections() == ["Unit", "Service", "Install"]


def test_systemd_takes_the_unit(tmp_path: Path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    text = UNIT.read_text(encoding="utf-8")
    here = tmp_path / "toolspeak.service"
    here.write_text(
        re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", text, flags=re.MULTILINE), encoding="utf-8"
    )
    checked = subprocess.run([analyze, "verify", str(here)], capture_output=True, text=True, timeout=60, check=False)
    if "Failed to" in checked.stderr and checked.returncode:
        pytest.skip(f"systemd-analyze does not work here: {checked.stderr.strip()[:200]}")
    assert (checked.returncode, checked.stderr) == (0, "")


# ---- the recipe of the engine

RECIPE = ROOT / "packaging" / "engine" / "build.py"


def test_the_recipe_fetches_only_what_has_a_hash(tmp_path: Path):
    command = [sys.executable, RECIPE, "--dry-run", "--work", tmp_path / "work"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    fetches = [line for line in lines if " install " in line or " download " in line]
    assert len(fetches) == 2 and all("--require-hashes" in line for line in fetches)
    assert any("-DGGML_CPU_ALL_VARIANTS=ON" in line for line in lines)
    assert not (tmp_path / "work").exists()


def test_the_wheel_of_the_recipe_holds_the_backends_and_loads_them_first(tmp_path: Path):
    plain, libraries = tmp_path / "xllamacpp-2-cp310-abi3-linux_x86_64.whl", tmp_path / "bin"
    with zipfile.ZipFile(plain, "w") as wheel:
        wheel.writestr("xllamacpp/__init__.py", "from .xllamacpp import *\n")
        wheel.writestr("xllamacpp-2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp310-abi3-linux_x86_64\n\n")
        wheel.writestr("xllamacpp-2.dist-info/RECORD", "")
    libraries.mkdir()
    for name in ("libggml-cpu-haswell.so", "libggml-cpu-sapphirerapids.so", "libggml.so.0.10.0", "llama-server"):
        (libraries / name).write_bytes(name.encode())
    (libraries / "libggml.so.0").symlink_to("libggml.so.0.10.0")
    (libraries / "libggml.so").symlink_to("libggml.so.0")
    code = "import pathlib, sys, build; print(build.add_libraries(*map(pathlib.Path, sys.argv[1:])))"
    command = [sys.executable, "-c", code, plain, libraries, tmp_path / "dist"]
    run = subprocess.run(command, cwd=RECIPE.parent, capture_output=True, text=True, check=True)
    result = Path(run.stdout.strip())
    assert result.name == "xllamacpp-2-1-cp310-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(result) as wheel:
        start = wheel.read("xllamacpp/__init__.py").decode()
        assert start.index("ggml_backend_load_all_from_path") < start.index("from .xllamacpp import *")
        assert "Build: 1\nTag:" in wheel.read("xllamacpp-2.dist-info/WHEEL").decode()
        names = {name for name in wheel.namelist() if name.startswith("xllamacpp/lib")}
        assert names == {"xllamacpp/libggml-cpu-haswell.so", "xllamacpp/libggml.so.0"}
        records = wheel.read("xllamacpp-2.dist-info/RECORD").decode().splitlines()
    assert {line.partition(",")[0] for line in records} == set(wheel.namelist())
