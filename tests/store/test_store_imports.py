"""Only the store knows SQL, and nothing heavy is imported before it is asked for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "toolspeak").rglob("*.py"))
STORE = ROOT / "src" / "toolspeak" / "store"
PACKAGES = {"sqlalchemy", "alembic", "sqlite3", "psycopg"}
#: The beginnings of statements.
STATEMENT = re.compile(
    r"^\s*(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|CREATE\s+TABLE|PRAGMA)\s", re.S
)


def _imported(tree: ast.AST) -> set[str]:
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


@pytest.mark.requirement("R-T10")
def test_only_the_store_speaks_with_databases():
    for path in SOURCES:
        if not path.is_relative_to(STORE):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            assert not {name.partition(".")[0] for name in _imported(tree)} & PACKAGES, path
            texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
            assert not [text for text in texts if isinstance(text, str) and STATEMENT.match(text)], path


@pytest.mark.requirement("R-T10")
def test_the_store_builds_no_statement_from_texts():
    """Statements are made by SQLAlchemy, with bound values. What is written out holds nothing that comes from outside."""
    written_out = ("exec_driver_sql", "text", "literal_column", "prefix_with", "suffix_with", "op")
    for path in STORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in written_out:
                assert path.name in ("db_engines.py", "check.py", "database.py"), (path, node.lineno)
                for part in ast.walk(node.args[0]):
                    if isinstance(part, ast.FormattedValue):  # a named limit of the module, and nothing else
                        assert isinstance(part.value, ast.Name), (path, node.lineno)
                        assert part.value.id.startswith("_"), (path, part.value.id)
                    assert not isinstance(part, ast.BinOp | ast.Call), (path, node.lineno)


def test_nothing_heavy_is_imported_with_the_store_or_the_command_line():
    code = "import sys, toolspeak.store, toolspeak.cli.sessions, toolspeak.config; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_store_that_is_current_is_opened_without_alembic(tmp_path: Path):
    code = (
        "import sys; from toolspeak.store import open_store; open_store(sys.argv[1]); print('alembic' in sys.modules)"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/store.db"]
    said = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() for _ in range(2)]
    assert said == ["True", "False"]
