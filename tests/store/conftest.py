"""Stores for tests: each test that takes `url` runs once for each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store import postgres
from toolspeak.store.sessions import Store

SQLITE = pytest.param("sqlite", id="sqlite")
POSTGRESQL = pytest.param("postgresql", id="postgresql", marks=pytest.mark.system("postgresql"))


@pytest.fixture(scope="session", autouse=True)
def _server() -> Iterator[None]:
    yield
    if postgres.server.cache_info().currsize:
        postgres.server().remove()


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    return f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else postgres.server().url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store(url) as made:
        yield made
