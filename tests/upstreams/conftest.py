"""What the tests of several transports share."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shutil import which

import pytest


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for `localhost` that nobody has signed but itself, and its key, in one file."""
    openssl = which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    made = tmp_path_factory.mktemp("tls")
    command = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(made / "key.pem"), "-out", str(made / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    both = made / "both.pem"
    both.write_text((made / "key.pem").read_text() + (made / "cert.pem").read_text())
    return both
