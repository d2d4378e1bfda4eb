"""Makes a release: version, section of the changelog, distributions, list of dependencies, checksums, commit and tag.

    python scripts/release.py 0.2.0                build it into dist/
    python scripts/release.py 0.2.0 --publish      also upload it, with the token in TWINE_PASSWORD

Nothing is committed before the distributions have been built and checked. A release that was built before is only
uploaded.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
VERSION_FILE = ROOT / "src" / "toolspeak" / "__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"
#: The distributions that are built from this repository.
SOURCES = (ROOT, ROOT / "packaging" / "smollm2")
_LOCKED = re.compile(r"(?m)^([\w.-]+)(?:\[[^\]]*\])?==([^\s;]+)")
_VERSION = re.compile(r'(?m)^__version__ = "(.+)"$')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", default="", help="the new version, such as 0.2.0")
    parser.add_argument("--publish", action="store_true", help="upload the distributions to the package index")
    arguments = parser.parse_args()
    version, tag = arguments.version, f"v{arguments.version}"
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        sys.exit(f"error: `{version}` is not a version; run: make release VERSION=0.2.0")
    if git("status", "--porcelain"):
        sys.exit("error: there are uncommitted changes; commit them first")
    if arguments.publish and not os.environ.get("TWINE_PASSWORD"):
        sys.exit("error: TWINE_PASSWORD is not set; set it to a token of the package index")
    if git("tag", "--list", tag):
        print(f"{tag} exists")
    else:
        make(version, tag)
    if arguments.publish:
        if git("rev-list", "-1", tag) != git("rev-parse", "HEAD"):
            sys.exit(f"error: {tag} is another commit; check it out first")
        files = sorted(map(str, [*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")]))
        run(sys.executable, "-m", "twine", "upload", "--skip-existing", *files)
        print(f"uploaded {len(files)} files; now push the tag: git push origin HEAD {tag}")


def make(version: str, tag: str) -> None:
    """Build, check, commit and tag a release."""
    changed = {
        VERSION_FILE: _VERSION.sub(f'__version__ = "{version}"', VERSION_FILE.read_text("utf-8"), count=1),
        CHANGELOG: released(CHANGELOG.read_text("utf-8"), version),
    }
    before = {path: path.read_text("utf-8") for path in changed}
    try:
        for path, text in changed.items():
            path.write_text(text, "utf-8")
        build()
    except BaseException:
        for path, text in before.items():
            path.write_text(text, "utf-8")
        raise
    git("commit", "--quiet", "--message", f"Release {version}", *map(str, changed))
    git("tag", "--annotate", "--message", f"toolspeak {version}", tag)
    print(f"built {version} into {DIST}: {', '.join(sorted(path.name for path in DIST.iterdir()))}")


def released(changelog: str, version: str) -> str:
    """Return the changelog with the section of unreleased changes as that of a version."""
    _, heading, rest = changelog.partition(UNRELEASED)
    if not heading or not rest.partition("\n## ")[0].strip():
        sys.exit("error: the changelog has no unreleased changes")
    today = datetime.datetime.now(datetime.UTC).date()
    return changelog.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {today}\n", 1)


def build() -> None:
    """Build the distributions, list their dependencies (CycloneDX), and write checksums of all of them."""
    shutil.rmtree(DIST, ignore_errors=True)
    for source in SOURCES:
        run(sys.executable, "-m", "hatchling", "build", "-d", str(DIST), cwd=source)
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
    listing = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "requirements",
        "--output-reproducible",
        "-o",
        "dist/sbom.json",
        "-",
    ]
    subprocess.run(listing, cwd=ROOT, check=True, text=True, input=dependencies((ROOT / "pyproject.toml").read_text()))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(sums), "utf-8")


def dependencies(project: str) -> str:
    """Return the dependencies of a project and of its extras, in the versions that the tests run with."""
    table = tomllib.loads(project)["project"]
    wanted = [*table["dependencies"], *(each for extra in table["optional-dependencies"].values() for each in extra)]
    names = {re.split(r"[^\w.-]", each)[0].lower() for each in wanted}
    lock = (ROOT / "requirements-dev.lock").read_text("utf-8")
    return "".join(f"{name}=={version}\n" for name, version in _LOCKED.findall(lock) if name.lower() in names)


def run(*command: str, cwd: Path = ROOT) -> None:
    if subprocess.run(command, cwd=cwd, check=False).returncode:
        sys.exit(f"error: {' '.join(command[1:5])} failed")


def git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


if __name__ == "__main__":
    main()
