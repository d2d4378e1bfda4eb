"""House rules that the linters do not check: layers, names, docstrings, shapes and sizes."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_cover
ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "toolspeak"

MAX_FUNCTION_LINES = 50
MAX_FILES = 380
#: Packages with one file for each dialect or library, which do not count.
UNCOUNTED = ("formats", "integrations")
MAX_LINES = 75_000
#: Bindings that may still be bare participles. Lower it when you remove some; never raise it.
MAX_PARTICIPLES = 60
PARTICIPLES = frozenset(
    """asked begun believed brought demanded found forgotten given gone heard held kept known left made meant named
    placed said seen shown spoken taken told tooled waited wanted""".split()
)
#: Words that do not turn a participle into a name: `told_value` says no more than `told`.
FILLERS = frozenset(
    "a all an been data first has is item items it its last new now obj old one own result results so that the thing "
    "things this value values was x y".split()
)
#: Modules whose names users import.
PUBLIC = ("__init__.py", "errors.py", "plugin_api.py", "types.py")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def test_the_package_stays_small():
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in _trees())
    assert len([path for path in _trees() if path.parent.name not in UNCOUNTED]) <= MAX_FILES
    assert lines <= MAX_LINES


def test_functions_are_short():
    too_long = [
        f"{_name(path)}:{node.lineno} {node.name} has {length} lines"
        for path, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not too_long


def test_every_module_has_a_docstring_that_leaves_imports_to_the_linter():
    docstrings = {_name(path): ast.get_docstring(tree) or "" for path, tree in _trees().items()}
    assert not [name for name, text in docstrings.items() if not text]
    assert not [name for name, text in docstrings.items() if re.search(r"\b(Above|Below)\b[^.]*:", text)]


def test_only_public_modules_and_packages_declare_their_names():
    declaring = [
        _name(path) for path, tree in _trees().items() if path.name not in PUBLIC and "__all__" in _bindings(tree)
    ]
    assert not declaring


def test_every_module_is_in_a_layer():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(each for each in config["tool"]["importlinter"]["contracts"] if each["id"] == "layers")
    layers = {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    rooms = {"toolspeak." + path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in _trees()}
    assert rooms - layers == {"toolspeak.__init__"}, "name them in the layers contract of pyproject.toml"


def test_no_module_sits_beside_a_package_of_nearly_the_same_name():
    pairs = [
        f"{_name(path)} beside {folder.name}/"
        for path in _trees()
        for folder in path.parent.iterdir()
        if folder.is_dir() and folder.name.rstrip("s") == path.stem.rstrip("s")
    ]
    assert not pairs


def test_names_are_not_bare_participles():
    bare = [
        f"{_name(path)}:{line} {name}"
        for path, tree in _trees().items()
        for scope in _scopes(tree)
        for name, line in _bindings(scope).items()
        if _is_bare_participle(name)
    ]
    assert len(bare) <= MAX_PARTICIPLES, "\n".join(bare)


def test_prefixes_and_suffixes_make_no_new_name():
    assert all(map(_is_bare_participle, "told _told is_told told_value _SHOWN Kept".split()))
    assert not any(map(_is_bare_participle, "known_tools message asked_at foundation".split()))


def test_no_class_is_cut_into_a_chain_of_single_subclasses():
    classes = {
        node.name: node for tree in _trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    subclasses: defaultdict[str, set[str]] = defaultdict(set)
    for node in classes.values():
        for base in _bases(node):
            if base in classes:
                subclasses[base].add(node.name)
    chains = [
        f"{child} <- {name} <- {base}"
        for base, (name, *more) in ((base, sorted(names)) for base, names in subclasses.items())
        if not more and len(subclasses.get(name, ())) == 1
        for child in subclasses[name]
    ]
    assert not chains


def _bases(node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(plain, ast.Attribute):
            yield plain.attr
        elif isinstance(plain, ast.Name):
            yield plain.id


def _is_bare_participle(name: str) -> bool:
    words = [word for word in re.split(r"_|\d+", name.lower()) if word and word not in FILLERS]
    return len(words) == 1 and words[0] in PARTICIPLES


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, SCOPES))


def _bindings(scope: ast.AST) -> dict[str, int]:
    """Every name that this scope binds, each with its first line; attributes of `self` count for the class."""
    bindings: dict[str, int] = {}
    if isinstance(scope, (*FUNCTIONS, ast.Lambda)):
        arguments = scope.args
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if each is not None:
                bindings.setdefault(each.arg, each.lineno)
    for node in _own_nodes(scope):
        name = _bound_name(node)
        if name:
            bindings.setdefault(name, getattr(node, "lineno", 0))
    if isinstance(scope, ast.ClassDef):
        for node in ast.walk(scope):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
                bindings.setdefault(node.attr, node.lineno)
    return bindings


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the scopes inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _bound_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.MatchAs(name=name) | ast.MatchStar(name=name) | ast.ExceptHandler(name=name) | ast.alias(asname=name):
            return name
        case _:
            return None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()
