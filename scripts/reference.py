"""Write the reference, docs/reference/, from the code.

The Python pages come from the source: signatures, docstrings, and the comments that start with `#:`. The other pages
come from the tables that the program itself uses. `scripts/reference.toml` has the texts that are nowhere in the code.
`python scripts/reference.py` rewrites the pages, `--check` only says whether they are current.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

import toolspeak as ts
from toolspeak import plugin_api
from toolspeak.cli import main as cli
from toolspeak.config.values import COLUMNS, HARMLESS, SECRETS
from toolspeak.server import openapi
from toolspeak.server.observe import metrics
from toolspeak.server.observe.counters import Counters
from toolspeak.server.routes import all_routes

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "toolspeak"
FOLDER = ROOT / "docs" / "reference"
TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
GENERATED = "<!-- Written by scripts/reference.py from the code: do not edit. `make docs` writes it again. -->"

# ---------------------------------------------------------------------------------------------- Markdown


def cell(text: str) -> str:
    """A text as it may stand in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """A text as code, or nothing."""
    return f"`{text}`" if text else ""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; nothing without rows."""
    names = list(head)
    lines = [f"| {' | '.join(cell(each) for each in row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(names)} |", "|" + "---|" * len(names), *lines]) if lines else ""


def page(name: str, *parts: str) -> str:
    """A whole page: its title, its introduction, and its parts."""
    texts = TEXTS["pages"][name]
    blocks = [f"# {texts['title']}", GENERATED, texts["text"].strip(), *parts]
    return "\n\n".join(block.strip("\n") for block in blocks if block.strip()) + "\n"


def sentence(text: str) -> str:
    """A text with a capital at its beginning and a stop at its end."""
    text = text.strip()
    first = text[:1].upper() + text[1:] if text[:1].isalpha() else text
    return first if not first or first[-1] in ".:!?" else f"{first}."


# ---------------------------------------------------------------------------------------- the source


class Source(NamedTuple):
    """One module: its name, its tree, and the comment that describes each line."""

    name: str
    tree: ast.Module
    comments: dict[int, str]
    lines: list[str]

    def definition(self, name: str) -> ast.stmt | None:
        """Where a name of the module is defined or imported."""
        found = None
        for node in _statements(self.tree):
            if name in _names_of(node):
                found = node
        return found


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module, with those below `if TYPE_CHECKING` and `with extra(...)`."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.If | ast.With) else [node]


def _names_of(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {each.id for each in targets if isinstance(each, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.ImportFrom(names=names):
            return {each.asname or each.name for each in names}
        case _:
            return set()


@cache
def source(module: str) -> Source:
    """Read a module, such as `toolspeak.client`."""
    stem = PACKAGE.parent.joinpath(*module.split("."))
    paths = (stem / "__init__.pyi", stem / "__init__.py", stem.with_suffix(".pyi"), stem.with_suffix(".py"))
    path = next(each for each in paths if each.exists())
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    return Source(module, ast.parse(text), _comments(lines), lines)


def _comments(lines: list[str]) -> dict[int, str]:
    """The comment above each line, if it starts with `#:`, or behind it."""
    found: dict[int, str] = {}
    above: list[str] = []
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if stripped.startswith("#:") or (above and stripped.startswith("#")):
            above.append(stripped.lstrip("#: "))
            continue
        behind = re.search(r"\s{2}# (?!type:|noqa|pyright)(.+)$", line)
        if above or behind:
            found[number] = " ".join(above) or (behind[1] if behind else "")
        above = []
    return found


class Name(NamedTuple):
    """A name with the module and the statement that define it."""

    name: str
    source: Source
    node: ast.stmt


def resolve(module: str, name: str) -> Name | None:
    """Follow imports to the definition of a name. None if it comes from another package."""
    here = source(module)
    node = here.definition(name)
    if isinstance(node, ast.ImportFrom):
        original = next(each.name for each in node.names if (each.asname or each.name) == name)
        target = _module_of(here, node)
        return resolve(target, original) if target.startswith("toolspeak") else None
    return Name(name, here, node) if node is not None else None


def _module_of(here: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    is_package = PACKAGE.parent.joinpath(*here.name.split(".")).is_dir()
    parts = here.name.split(".")
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, *([node.module] if node.module else [])])


# -------------------------------------------------------------------------------------------- Python pages

_ARGS = re.compile(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)
_RAISES = re.compile(r"^Raises:\n((?:[ \t]+.*\n?)+)", re.MULTILINE)
_ITEM = re.compile(r"^\s*(\*{0,2}[\w.]+): (.*)$")
_INTERNAL = "internal use"


def _items(block: str) -> dict[str, str]:
    """The entries of an `Args:` block."""
    found: dict[str, str] = {}
    name = ""
    lines = textwrap.dedent(block).splitlines()
    for line in lines:
        match = _ITEM.match(line) if not line.startswith(" ") else None
        if match:
            name = match[1]
            found[name] = match[2]
        elif name:
            found[name] += " " + line.strip()
    return found


class Docs(NamedTuple):
    """A docstring in its parts."""

    text: str
    arguments: dict[str, str]
    raises: dict[str, str]


def docs_of(node: ast.AST) -> Docs:
    """Read the docstring of a class or function."""
    text = (
        ast.get_docstring(node) or "" if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else ""
    )
    arguments, raises = _ARGS.search(text), _RAISES.search(text)
    rest = _RAISES.sub("", _ARGS.sub("", text)).strip()
    return Docs(_prose(rest), _items(arguments[1]) if arguments else {}, _items(raises[1]) if raises else {})


def _prose(text: str) -> str:
    """A docstring as Markdown: indented lines and those after `>>>` are code."""
    blocks: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith((" ", ">>>")) or block.lstrip().startswith(">>>"):
            blocks.append(f"```python\n{textwrap.dedent(block)}\n```")
        elif block.strip():
            blocks.append(textwrap.dedent(block).strip().removesuffix("::"))
    return "\n\n".join(blocks)


def _function_of(name: Name, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """The function whose parameters apply: a decorator may take them from another one."""
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Name(id="_with_arguments_of"), args=[ast.Attribute(value=ast.Name(id=owner), attr=attr)]
            ):
                target = resolve(name.source.name, owner)
                assert target is not None
                assert isinstance(target.node, ast.ClassDef)
                return next(each for each in _functions(target.node) if each.name == attr)
            case _:
                pass
    return node


def _functions(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def _constant(name: Name, text: str) -> str:
    """The value of a default that is a constant of the module."""
    target = resolve(name.source.name, text) if re.fullmatch(r"_?[A-Z][A-Z_]+", text) else None
    if target is None or not isinstance(target.node, ast.Assign | ast.AnnAssign) or target.node.value is None:
        return text
    value = ast.unparse(target.node.value)
    return value if re.fullmatch(r"[\d._ *]+|'[^']*'", value) else text


class Parameter(NamedTuple):
    """A parameter as it is shown."""

    name: str
    kind: str
    default: str

    def __str__(self) -> str:
        text = f"{self.name}: {self.kind}" if self.kind else self.name
        return f"{text} = {self.default}" if self.default else text


def parameters(name: Name, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[Parameter]:
    """The parameters of a function, without `self`."""
    function = _function_of(name, node)
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)

    def shown(argument: ast.arg, default: ast.expr | None, stars: str = "") -> Parameter:
        kind = ast.unparse(argument.annotation) if argument.annotation else ""
        return Parameter(stars + argument.arg, kind, _constant(name, ast.unparse(default)) if default else "")

    found = [shown(each, default) for each, default in zip(positional, defaults, strict=True)]
    found = found[1:] if found and found[0].name in ("self", "cls") else found
    if given.vararg:
        found.append(shown(given.vararg, None, "*"))
    elif given.kwonlyargs:
        found.append(Parameter("*", "", ""))
    found += [shown(each, default) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return [*found, shown(given.kwarg, None, "**")] if given.kwarg else found


def _signature(
    name: Name, shown: str, node: ast.FunctionDef | ast.AsyncFunctionDef, *, constructor: bool = False
) -> str:
    given = [str(each) for each in parameters(name, node)]
    result = "" if constructor or node.returns is None else f" -> {ast.unparse(node.returns)}"
    prefix = "await " if isinstance(node, ast.AsyncFunctionDef) and not _is_generator(node) else ""
    line = f"{prefix}{shown}({', '.join(given)}){result}"
    if len(line) > 100:
        line = f"{prefix}{shown}(\n" + "".join(f"    {each},\n" for each in given) + f"){result}"
    return f"```python\n{line}\n```"


def _is_generator(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node))


def _arguments_table(name: Name, node: ast.FunctionDef | ast.AsyncFunctionDef, texts: Mapping[str, str]) -> str:
    if not texts:
        return ""
    texts = {**TEXTS["meanings"].get(name.name, {}), **texts}
    shown = [each for each in parameters(name, node) if each.name != "*"]
    if missing := [each.name for each in shown if each.name.lstrip("*") not in texts]:
        raise SystemExit(f"[meanings.{name.name}] in scripts/reference.toml must say what {', '.join(missing)} is")
    rows = [(code(each.name), sentence(texts[each.name.lstrip("*")])) for each in shown]
    return table(("parameter", "meaning"), rows)


def _raises(docs: Docs) -> str:
    return "\n".join(f"Raises `{name}`: {sentence(text)}" for name, text in docs.raises.items())


def function_section(name: Name, shown: str, level: str) -> str:
    """A function, as a section."""
    assert isinstance(name.node, ast.FunctionDef | ast.AsyncFunctionDef)
    docs = docs_of(name.node)
    text = docs.text or TEXTS["docstrings"].get(shown, "")
    parts = [f"{level} `{shown}`", _signature(name, shown, name.node), text]
    return "\n\n".join(filter(None, [*parts, _arguments_table(name, name.node, docs.arguments), _raises(docs)]))


def _base_names(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base) for base in node.bases]


def _fields(name: Name) -> str:
    """The fields of a struct, a typed dict or an exception, as a table."""
    assert isinstance(name.node, ast.ClassDef)
    return _compact(("field", "type", "default", "meaning"), _inherited_rows(name) + _field_rows(name))


def _inherited_rows(name: Name) -> list[tuple[str, ...]]:
    """The keys that a typed dict has from its bases."""
    assert isinstance(name.node, ast.ClassDef)
    rows: list[tuple[str, ...]] = []
    for base in _base_names(name.node):
        target = resolve(name.source.name, base) if base.isidentifier() else None
        if target is not None and isinstance(target.node, ast.ClassDef) and _is_typed_dict(target):
            rows += _inherited_rows(target) + _field_rows(target)
    return rows


def _is_typed_dict(name: Name) -> bool:
    assert isinstance(name.node, ast.ClassDef)
    bases = [resolve(name.source.name, base) for base in _base_names(name.node) if base.isidentifier()]
    return "TypedDict" in _base_names(name.node) or any(_is_typed_dict(each) for each in bases if each is not None)


def _field_rows(name: Name) -> list[tuple[str, ...]]:
    assert isinstance(name.node, ast.ClassDef)
    rows: list[tuple[str, ...]] = []
    for each in name.node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not each.target.id.startswith("_"):
            default = _constant(name, ast.unparse(each.value)) if each.value else ""
            comment = name.source.comments.get(each.lineno, "")
            rows.append((code(each.target.id), code(ast.unparse(each.annotation)), code(default), sentence(comment)))
    return rows


def _compact(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table without its empty columns."""
    used = [at for at in range(len(head)) if any(row[at] for row in rows)]
    return table([head[at] for at in used], [[row[at] for at in used] for row in rows])


def _properties(node: ast.ClassDef) -> str:
    rows = [
        (code(each.name), code(ast.unparse(each.returns) if each.returns else ""), sentence(docs_of(each).text))
        for each in _functions(node)
        if _is_property(each) and _is_public(each)
    ]
    return table(("property", "type", "meaning"), rows)


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(each) in ("property", "cached_property") for each in node.decorator_list)


def _is_public(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str = "") -> bool:
    text = ast.get_docstring(node) or TEXTS["docstrings"].get(f"{owner}.{node.name}", "")
    return not node.name.startswith("_") and bool(text) and _INTERNAL not in text


def class_section(name: Name, shown: str, level: str) -> str:
    """A class with its constructor, fields, properties and methods, as a section."""
    assert isinstance(name.node, ast.ClassDef)
    docs = docs_of(name.node)
    constructor = next((each for each in _functions(name.node) if each.name == "__init__"), None)
    bases = [
        each for each in _base_names(name.node) if not each.startswith(("msgspec", "Protocol", "Generic", "object"))
    ]
    parts = [f"{level} `{shown}`"]
    if shown in TEXTS["returned"]:
        constructor = None
    if constructor is not None and "Exception" not in bases and not shown.endswith("Error"):
        parts.append(_signature(name, shown, constructor, constructor=True))
    if bases:
        parts.append(f"Based on {', '.join(code(each) for each in bases)}.")
    parts.append(docs.text)
    if constructor is not None:
        texts = docs.arguments or docs_of(_function_of(name, constructor)).arguments
        parts.append(_arguments_table(name, constructor, texts))
    parts += [_raises(docs), _fields(name), _properties(name.node)]
    for each in _functions(name.node):
        if _is_public(each, shown) and not _is_property(each):
            parts.append(function_section(Name(each.name, name.source, each), f"{shown}.{each.name}", level + "#"))
    return "\n\n".join(filter(None, parts))


def alias_section(name: Name, shown: str, level: str) -> str:
    """A type that has a name, as a section. Members of a union from the same module follow, if they are classes."""
    comment = name.source.comments.get(name.node.lineno, "")
    value = getattr(name.node, "value", None)
    assert isinstance(value, ast.expr)
    text = ast.get_source_segment("\n".join(name.source.lines), value) or ast.unparse(value)
    return f"{level} `{shown}`\n\n```python\n{shown} = {textwrap.dedent(text)}\n```\n\n{sentence(comment)}".strip()


def section(name: Name, shown: str, level: str = "##") -> str:
    """What defines a name, as a section."""
    match name.node:
        case ast.ClassDef():
            return class_section(name, shown, level)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return function_section(name, shown, level)
        case _:
            return alias_section(name, shown, level)


def public_names() -> list[str]:
    """The names of `toolspeak`: those in `__all__`, and those that can be imported besides."""
    imported = [
        name for each in source("toolspeak").tree.body if isinstance(each, ast.ImportFrom) for name in _names_of(each)
    ]
    return sorted({*ts.__all__, *imported}, key=str.casefold)


def type_names() -> list[str]:
    """The names of `toolspeak.types`."""
    return sorted({name for node in source("toolspeak.types").tree.body for name in _names_of(node)}, key=str.casefold)


def integration_modules() -> list[str]:
    """The modules of `toolspeak.integrations`."""
    return sorted(path.stem for path in (PACKAGE / "integrations").glob("*.py") if path.stem != "__init__")


def integration_names(module: str) -> list[str]:
    """The public classes and functions of one integration."""
    body = source(f"toolspeak.integrations.{module}").tree.body
    defined = [each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef)]
    return [each.name for each in defined if not each.name.startswith("_")]


def _resolved(module: str, name: str) -> Name:
    found = resolve(module, name)
    if found is None:
        raise SystemExit(f"`{name}` of {module} is not defined in this package")
    return found


def python_page() -> str:
    """The names of `toolspeak`, in the groups of reference.toml."""
    groups: dict[str, list[str]] = TEXTS["python"]
    listed = [name for names in groups.values() for name in names]
    if (wrong := sorted(set(public_names()) ^ set(listed))) or len(set(listed)) != len(listed):
        raise SystemExit(f"[python] in scripts/reference.toml must list each name once: {', '.join(wrong)}")
    parts: list[str] = []
    for title, names in groups.items():
        parts += [f"## {title}", *(section(_resolved("toolspeak", name), name, "###") for name in names)]
    return page("python", *parts)


def types_page() -> str:
    """The names of `toolspeak.types`. Those that `toolspeak` has as well are links."""
    public = set(public_names())
    own = [name for name in type_names() if name not in public]
    also = [f"[`{name}`](python.md#{anchor(name)})" for name in type_names() if name in public]
    parts = [section(_resolved("toolspeak.types", name), name) for name in own]
    events = [section(each, each.name, "###") for each in _members(_resolved("toolspeak.types", "AgentEvent"))]
    return page("types", f"Also in `toolspeak`: {', '.join(also)}.", *parts, "## The events of an agent", *events)


def _members(union: Name) -> list[Name]:
    """The classes of a union, in its order."""
    value = getattr(union.node, "value", None)
    assert isinstance(value, ast.expr)
    names = [each.id for each in ast.walk(value) if isinstance(each, ast.Name)]
    found = [resolve(union.source.name, name) for name in dict.fromkeys(names)]
    return [each for each in found if each is not None and isinstance(each.node, ast.ClassDef)]


def anchor(heading: str) -> str:
    """The anchor of a heading, as the site and a forge make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def integrations_page() -> str:
    """Each integration with its extra, its classes and its functions."""
    parts: list[str] = []
    for module in integration_modules():
        path = f"toolspeak.integrations.{module}"
        about = ast.get_docstring(source(path).tree) or ""
        install = f"```console\n$ pip install 'toolspeak[{module.replace('_', '-')}]'\n```"
        parts += [f"## `{path}`", _prose(about), install]
        parts += [section(_resolved(path, name), name, "###") for name in integration_names(module)]
    return page("integrations", *parts)


def plugin_api_page() -> str:
    """The names of `toolspeak.plugin_api`. Those that are defined elsewhere are described here all the same."""
    names = sorted(plugin_api.__all__, key=str.casefold)
    return page("plugin_api", *(section(_resolved("toolspeak.plugin_api", name), name) for name in names))


def errors_page() -> str:
    """The exceptions, and the statuses with which the proxy answers."""
    module = source("toolspeak.errors")
    tree, _, _ = (ast.get_docstring(module.tree) or "").partition("\n\nAny other")
    picture = textwrap.dedent(tree.partition("::")[2].strip("\n"))
    parts = [f"```text\n{picture}\n```"]
    import toolspeak.errors as errors

    for name in errors.__all__:
        kind = getattr(errors, name)
        where = "toolspeak" if name in public_names() else "toolspeak.errors"
        facts = f"Import it from `{where}`. HTTP status {kind.status}." + (
            " Final: a retry does not help." if kind.final else ""
        )
        head, _, rest = class_section(_resolved("toolspeak.errors", name), name, "###").partition("\n\n")
        parts.append(f"{head}\n\n{rest}\n\n{facts}")
    statuses = openapi._PARTS.errors  # pyright: ignore[reportPrivateUsage]
    rows = [(code(status), sentence(text)) for status, text in statuses.items()]
    return page("errors", parts[0], "## Exceptions", *parts[1:], "## HTTP statuses", table(("status", "meaning"), rows))


# -------------------------------------------------------------------------------------------- command line


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command with its whole name, in the order of `toolspeak --help`."""

    def below(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
        yield context.command_path, command, context
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                each = command.get_command(context, name)
                if each is not None and not each.hidden:
                    yield from below(each, click.Context(each, info_name=name, parent=context))

    return below(cli, click.Context(cli, info_name="toolspeak"))


def options_of(command: click.Command) -> list[click.Option]:
    """The options of a command that its help lists."""
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def _values(option: click.Option) -> str:
    kind = option.type
    if option.is_flag:
        return ""
    if isinstance(kind, click.Choice):
        return ", ".join(code(str(each)) for each in kind.choices if each)
    if isinstance(kind, click.IntRange | click.FloatRange):
        low, high = kind.min, kind.max
        between = f"{low} to {high}" if high is not None else f"{low} or more"
        return f"{option.metavar.lower()}, {between}" if option.metavar else between
    return option.metavar or kind.name


def _default(option: click.Option) -> str:
    shown = (
        isinstance(option.default, str | int | float) and not isinstance(option.default, bool) and option.default != ""
    )
    return code(str(option.default)) if shown else ""


def _command_section(path: str, command: click.Command, context: click.Context) -> str:
    level = "##" if path.count(" ") < 2 else "###"
    help_text = (command.help or "").strip()
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f"{level} `{path}`",
        _prose(help_text.replace("\b\n", "")),
        f"```text\n{path} {usage}\n```".replace(" \n", "\n"),
    ]
    rows = [
        (
            ", ".join(code(each) for each in (*option.opts, *option.secondary_opts)),
            _values(option),
            _default(option),
            option.help or "",
        )
        for option in options_of(command)
    ]
    parts.append(_compact(("option", "value", "default", "meaning"), rows))
    parts += list(_epilog(command.epilog or ""))
    return "\n\n".join(filter(None, parts))


def _epilog(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        head, _, rest = paragraph.partition("\n")
        if rest.startswith("  toolspeak") or "\n  toolspeak" in paragraph:
            lines = "\n".join(
                f"$ {line}" if line.startswith(("toolspeak", "echo")) else line
                for line in textwrap.dedent(rest).splitlines()
            )
            yield f"{head}\n\n```console\n{lines}\n```"
        elif rest.startswith("  "):
            yield f"{head}\n\n```text\n{textwrap.dedent(rest)}\n```"
        elif paragraph:
            yield " ".join(paragraph.split())


def cli_page() -> str:
    """Every command with its help and its options."""
    return page("cli", *(_command_section(*each) for each in commands()))


# -------------------------------------------------------------------------------------------- settings


def _columns(struct: type[msgspec.Struct], table_name: str) -> Iterator[tuple[str, str, str, str, str, str]]:
    """The rows of the settings of one struct: name, values, default, variable, trust, meaning."""
    home = _resolved(struct.__module__, struct.__name__)
    assert isinstance(home.node, ast.ClassDef)
    nodes = {
        each.target.id: each
        for each in home.node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    texts: dict[str, str] = TEXTS["meanings"].get(struct.__name__, {})
    for field in msgspec.structs.fields(struct):
        node = nodes[field.encode_name]
        about = texts.get(field.name) or home.source.comments.get(node.lineno, "")
        if not about:
            raise SystemExit(f"[meanings.{struct.__name__}] in scripts/reference.toml must say what `{field.name}` is")
        variable = f"TOOLSPEAK_{field.name.upper()}" if table_name == "" else ""
        trust = "no" if table_name in ("", "providers", "models") and field.name in HARMLESS else "yes"
        default = (
            ""
            if field.default in (msgspec.NODEFAULT, "", ()) or field.default_factory is not msgspec.NODEFAULT
            else str(field.default)
        )
        default = {"True": "true", "False": "false"}.get(default, default)
        shown = "(secret)" if field.name in SECRETS else code(default)
        if isinstance(field.default, tuple) and field.default:
            shown = ", ".join(code(str(each)) for each in field.default)
        yield field.name, _kind(ast.unparse(node.annotation), home), shown, variable, trust, sentence(about)


def _kind(annotation: str, home: Name) -> str:
    """The values that a setting takes, in words."""
    target = resolve(home.source.name, annotation) if annotation.isidentifier() else None
    if target is not None and isinstance(target.node, ast.AnnAssign | ast.Assign) and target.node.value is not None:
        return _kind(ast.unparse(target.node.value), target)
    if annotation.startswith("Literal["):
        return ", ".join(code(each) for each in ast.literal_eval(f"({annotation[8:-1]},)") if each)
    if annotation.startswith("Annotated["):
        low, high = (re.search(rf"{word}=([\w]+)", annotation) for word in ("ge", "le"))
        bounds = [_constant(home, each[1]) if each else "" for each in (low, high)]
        return f"{bounds[0]} to {bounds[1]}" if bounds[1] else f"a number, {bounds[0]} or more"
    if annotation.startswith("tuple["):
        inner = _kind(annotation[6:].split(",", maxsplit=1)[0], home)
        return "a list of texts" if inner == "a text" else f"a list of: {inner}"
    if annotation.startswith("dict["):
        return "a table of numbers"
    return {"str": "a text", "bool": "true or false", "int": "a number"}.get(annotation, annotation)


def _settings_table(structs: Iterable[type[msgspec.Struct]], name: str) -> str:
    rows = [row for struct in structs for row in _columns(struct, name)]
    shown = [
        (f"{code(setting)}<br>{code(variable)}" if variable else code(setting), values, default, trust, meaning)
        for setting, values, default, variable, trust, meaning in rows
    ]
    head = "setting, environment variable" if name == "" else "setting"
    return table((head, "values", "default", "needs trust", "meaning"), shown)


def settings_page() -> str:
    """Every setting of every table."""
    parts = ["## General settings", _settings_table(COLUMNS[""], "")]
    profile = COLUMNS["models"][1]
    parts += ["## Fields of a model's profile", TEXTS["settings"]["profile"], _settings_table([profile], "models")]
    for name in ("upstreams", "aliases", "server_tools"):
        parts += [f"## `[{name}]`", TEXTS["settings"][name], _settings_table(COLUMNS[name][:1], name)]
    variables = TEXTS["variables"]
    parts += [
        "## Other environment variables",
        table(("variable", "meaning"), [(code(each), text) for each, text in variables.items()]),
    ]
    return page("settings", *parts)


# ------------------------------------------------------------------------------ notes, routes and metrics


def notes_page() -> str:
    """The code of every note with its meaning."""
    parts: list[str] = []
    for title, notes in TEXTS["notes"].items():
        parts += [f"## {title}", table(("code", "meaning"), [(code(name), text) for name, text in notes.items()])]
    return page("notes", *parts)


def routes_page() -> str:
    """Every route with its methods and who may use it."""
    merged: dict[tuple[str, str], list[str]] = {}
    for (method, path), route in all_routes().items():
        about = openapi.SUMMARIES.get(route.client_protocol or route.page, route.client_protocol or route.page)
        key = (path, f"{route.level}\0{about}")
        merged.setdefault(key, []).append(method)
    levels: dict[str, dict[str, str]] = TEXTS["levels"]
    parts: list[str] = []
    for level, text in levels.items():
        rows = [
            (", ".join(methods), code(path.replace("NAME", "{name}")), sentence(rest.partition("\0")[2]))
            for (path, rest), methods in sorted(merged.items())
            if rest.partition("\0")[0] == level
        ]
        parts += [f"## {text['title']}", text["text"], table(("method", "path", "answer"), rows)]
    schemes = openapi._PARTS.security_schemes  # pyright: ignore[reportPrivateUsage]
    keys = [(code(name), _scheme(each)) for name, each in schemes.items()]
    return page("routes", *parts, "## Ways to send a key", table(("name", "where it goes"), keys))


def _scheme(scheme: Any) -> str:
    if scheme["type"] == "http":
        return "the header `Authorization: Bearer KEY`"
    return f"{'the ' + scheme['in'] if scheme['in'] != 'query' else 'the query parameter'} `{scheme['name']}`"


class Metric(NamedTuple):
    """A family of `/metrics`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def metric_families() -> list[Metric]:
    """Every family, read from an exposition in which each has a value."""
    texts = metrics._TEXTS  # pyright: ignore[reportPrivateUsage]
    counters = Counters(requests={("",) * 5: 1}, responses={("", ""): 1}, gauges=dict.fromkeys(texts["gauges"], 1.0))
    counters.timing(("", "")).observe(1.0, 1.0, 1.0)
    counters.events = {(name, *("",) * len(row["labels"])): 1 for name, row in texts["events"].items()}
    lines = metrics.exposition(counters, ts.__version__).decode().splitlines()
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", "\n".join(lines), re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (\S+) (.*)$", "\n".join(lines), re.MULTILINE))
    found: list[Metric] = []
    for name, kind in kinds.items():
        sample = next(line for line in lines if re.match(rf"{name}(_bucket|_total)?[ {{]", line))
        labels = tuple(each for each in re.findall(r'(\w+)="', sample) if each != "le")
        found.append(Metric(name, kind, labels, helps[name]))
    return found


def metrics_page() -> str:
    """Every metric with its kind and its labels."""
    rows = [(code(each.name), each.kind, ", ".join(map(code, each.labels)), each.text) for each in metric_families()]
    labels = [(code(name), text) for name, text in TEXTS["labels"].items()]
    return page(
        "metrics", table(("metric", "kind", "labels", "meaning"), rows), "## Labels", table(("label", "values"), labels)
    )


# -------------------------------------------------------------------------------------------- all pages


def index_page() -> str:
    """The list of the other pages."""
    rows = [
        (f"[{TEXTS['pages'][name]['title']}]({name}.md)", TEXTS["pages"][name]["about"])
        for name in PAGES
        if name != "index"
    ]
    return page("index", table(("page", "what it holds"), rows))


PAGES: dict[str, Callable[[], str]] = {
    "index": index_page,
    "python": python_page,
    "types": types_page,
    "integrations": integrations_page,
    "plugin_api": plugin_api_page,
    "errors": errors_page,
    "cli": cli_page,
    "settings": settings_page,
    "notes": notes_page,
    "routes": routes_page,
    "metrics": metrics_page,
}


def stale() -> list[str]:
    """The pages whose files hold something else."""
    files = {name: FOLDER / f"{name}.md" for name in PAGES}
    return [
        name for name, path in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != PAGES[name]()
    ]


def main() -> int:
    """Rewrite or check."""
    changed = stale()
    for name in changed:
        if "--check" in sys.argv:
            sys.stderr.write(f"docs/reference/{name}.md is stale: run `make docs`\n")
        else:
            (FOLDER / f"{name}.md").write_text(PAGES[name](), encoding="utf-8")
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
