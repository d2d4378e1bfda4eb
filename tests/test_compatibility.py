"""The surface that users rely on, compared with golden files under `tests/compatibility/`.

Public names, the command line, configuration, codes, the database, stored formats, prompts and bytes on the wire. A
change of structure must leave every golden file as it is. A change of behaviour may rewrite them, and then their
difference shows exactly what users will notice:

    TOOLSPEAK_UPDATE_GOLDEN=1 python -m pytest tests/test_compatibility.py    (or: python -m tests.test_compatibility)

Use that only when the surface is meant to change, and never together with a move or a rename: first prove that the move
changes nothing. Identifiers and times that differ from run to run are replaced; messages of errors may be reworded, so
they are replaced too. Prompts are compared byte for byte.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import json
import os
import pkgutil
import re
import sqlite3
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_args

import click
import msgspec
import msgspec.inspect as mi
import pytest

import toolspeak as ts
from tests.cases import check_each

pytestmark = pytest.mark.no_cover

#: Every internal path that this file uses: role -> `module:name`. When a module or an internal name moves, edit only
#: this table. No golden file contains a path of this table.
INTERNAL = {
    "agent_event": "toolspeak.agent.events:AgentEvent",
    "agent_result": "toolspeak.agent.events:AgentResult",
    "answer": "toolspeak.engine.rounds.transcript:Answer",
    "app": "toolspeak.server.app:App",
    "async_stream": "toolspeak.client:AsyncStream",
    "attempt_trace": "toolspeak.engine.turn.trace:AttemptTrace",
    "call_record": "toolspeak.engine.rounds.transcript:CallRecord",
    "capabilities": "toolspeak.engine.planning.capabilities:Capabilities",
    "cli": "toolspeak.cli:main",
    "client_rows": "toolspeak.client_settings.table:clients",
    "codec": "toolspeak.upstreams.codecs:codec",
    "concession": "toolspeak.engine.turn.upstream_limits:UpstreamLimitation",
    "config_columns": "toolspeak.config.values:COLUMNS",
    "config_defaults": "toolspeak.config.values:DEFAULTS",
    "config_harmless": "toolspeak.config.values:HARMLESS",
    "config_load": "toolspeak.config:load",
    "config_secrets": "toolspeak.config.values:SECRETS",
    "decision_rules_at_end": "toolspeak.core.parsing.acceptance:_REJECT_AT_END",
    "decision_rules_at_name": "toolspeak.core.parsing.acceptance:_REJECT_AT_NAME",
    "dialects": "toolspeak.dialects.registry:DIALECTS",
    "errors": "toolspeak.errors:__all__",
    "evaluation_record": "toolspeak.evaluation.results_file:CaseResult",
    "evaluation_report": "toolspeak.evaluation.report:EvalReport",
    "evidence": "toolspeak.core.parsing.acceptance:Evidence",
    "fault_kinds": "toolspeak.engine.turn.faults:FaultKind",
    "file_state": "toolspeak.key_value:FileState",
    "gateway": "toolspeak.server.proxy.upstream_router:Gateway",
    "guard": "toolspeak.server.access.origin_guard:OriginGuard",
    "hub_file_list_item": "toolspeak.upstreams.embedded.hub:HubFile",
    "idempotent_answer": "toolspeak.server.proxy.idempotency:_StoredAnswer",
    "idempotent_place": "toolspeak.server.proxy.idempotency:_AnswerLocation",
    "keys": "toolspeak.server.access.api_keys:ApiKeys",
    "loop_memory": "toolspeak.server.proxy.tool_loop.memory:_StoredRounds",
    "mcp_pin": "toolspeak.tools.mcp.approved_definitions:_Pin",
    "mcp_server_row": "toolspeak.tools.mcp.config:McpServer",
    "mcp_tokens": "toolspeak.tools.mcp.oauth:_StoredLogin",
    "memory_state": "toolspeak.key_value:MemoryState",
    "message": "toolspeak.core.types:Message",
    "metrics_snapshot": "toolspeak.server.observe.counters:Counters",
    "nonces": "toolspeak.engine.prompting.nonces:nonces_of",
    "openapi": "toolspeak.server.openapi:document",
    "options": "toolspeak.core.types:Options",
    "policy": "toolspeak.core.parsing.acceptance:Policy",
    "probe_place": "toolspeak.runtime.probe_cache:ProbeTarget",
    "probe_result": "toolspeak.runtime.probe_cache:StoredProbe",
    "profile": "toolspeak.engine.planning.capabilities:Profile",
    "provider_row": "toolspeak.engine.planning.capabilities:_ProviderRow",
    "family_row": "toolspeak.engine.planning.capabilities:_FamilyRow",
    "reason_texts": "toolspeak.engine.turn.faults:REASON_TEXTS",
    "recording_entry": "toolspeak.server.recording.entries:RecordingEntry",
    "refusal_categories": "toolspeak.engine.refusals.classifier:Category",
    "request_settings": "toolspeak.server.proxy.request_settings:ALLOWED",
    "request_settings_header": "toolspeak.server.proxy.request_settings:HEADER",
    "response_format": "toolspeak.core.types:ResponseFormat",
    "round": "toolspeak.engine.rounds.transcript:Round",
    "routes": "toolspeak.server.routes:all_routes",
    "running_server": "toolspeak.server.process.control_file:ControlFile",
    "server_line": "toolspeak.server.proxy.upstream_router:UpstreamConfig",
    "session_info": "toolspeak.store.sessions:SessionInfo",
    "settings": "toolspeak.engine.planning.strategy:Settings",
    "statistics_period": "toolspeak.server.observe.counters:Period",
    "store": "toolspeak.store.sessions:Store",
    "store_head": "toolspeak.store.schema:HEAD",
    "store_export": "toolspeak.store.transfer:export",
    "store_import": "toolspeak.store.transfer:import_lines",
    "stored_response": "toolspeak.server.proxy.previous_responses:StoredResponse",
    "stream": "toolspeak.client:Stream",
    "telemetry": "toolspeak.server.observe.spans:CHAT",
    "templates": "toolspeak.engine.prompting.templates:TEMPLATES",
    "trace": "toolspeak.engine.turn.trace:Trace",
    "traced_reply": "toolspeak.engine.turn.trace:TracedReply",
}
#: Names of arguments of internal classes that this file passes by keyword, and the attribute path to page sessions.
_LINE_ARGUMENTS = ("connect", "settings", "models")
_PAGE_SESSIONS = ("access", "sessions", "exchange", "new_code")

ROOT = Path(ts.__file__).parent
GOLDEN = Path(__file__).parent / "compatibility"
PROTOCOLS = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama")
_COLLECTORS: dict[str, Callable[[], str]] = {}


def internal(role: str) -> Any:
    module, _, name = INTERNAL[role].partition(":")
    return getattr(import_module(module), name)


def golden(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Register what produces a golden file."""

    def register(collect: Callable[[], str]) -> Callable[[], str]:
        _COLLECTORS[name] = collect
        return collect

    return register


def as_json(value: Any) -> str:
    """Sorted JSON, with values on one line where there is room for them."""
    return _laid_out(value, "") + "\n"


_WIDTH = 120


def _laid_out(value: Any, indent: str) -> str:
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(line) + len(indent) <= _WIDTH or not isinstance(value, dict | list):
        return line
    inner = indent + " "
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + _laid_out(each, inner) for each in value) + f"\n{indent}]"
    rows = (f"{inner}{json.dumps(name, ensure_ascii=False)}: {_laid_out(value[name], inner)}" for name in sorted(value))
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


# ---- public names


def _default(value: Any) -> str:
    text = repr(value)
    return f"<{type(value).__name__}>" if " at 0x" in text or text.startswith("<") else text


def _signature(value: Any) -> Any:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    return [
        f"{parameter.kind.name.lower()} {parameter.name}"
        + ("" if parameter.default is parameter.empty else f" = {_default(parameter.default)}")
        for parameter in signature.parameters.values()
    ]


def _class(kind: type) -> dict[str, Any]:
    inherited = {name for base in (object, Exception, msgspec.Struct) for name in dir(base)}
    names = {name for name in dir(kind) if not name.startswith("_")} - inherited
    operators = {name for name in dir(kind) if name.startswith("__") and name in _OPERATORS}
    methods = {name: _signature(getattr(kind, name)) for name in names if callable(getattr(kind, name))}
    return {
        "attributes": sorted(names | set(getattr(kind, "__struct_fields__", ()))),
        "constructor": _signature(kind),
        "methods": methods,
        "operators": sorted(
            operators - {name for name in operators if getattr(object, name, 0) is getattr(kind, name)}
        ),
    }


_OPERATORS = frozenset("__iter__ __next__ __aiter__ __anext__ __enter__ __exit__ __aenter__ __aexit__ __call__".split())
#: Values that public methods return or take, without a public name of their own.
_REACHABLE = (
    "agent_result answer async_stream attempt_trace call_record options response_format round stream trace traced_reply"
)


@golden("names.json")
def collect_names() -> str:
    listed = {name: getattr(ts, name) for name in ts.__all__}
    unlisted = {name: getattr(ts, name) for name in _unlisted()}
    reachable = {role: internal(role) for role in _REACHABLE.split()}
    return as_json(
        {
            "all": list(ts.__all__),
            "unlisted": sorted(unlisted),
            "version": ts.__version__,
            "definitions": {name: _described(value) for name, value in (listed | unlisted | reachable).items()},
        }
    )


def _described(value: Any) -> Any:
    if isinstance(value, type):
        return _class(value)
    return (
        {"signature": _signature(value)} if callable(value) else {"union": [kind.__name__ for kind in get_args(value)]}
    )


def _unlisted() -> list[str]:
    """Names that the package gives on request without listing them: words of its source that it has a value for."""
    words = set(re.findall(r"\b[A-Z]\w+", (ROOT / "__init__.py").read_text(encoding="utf-8")))
    return sorted(word for word in words - {"TYPE_CHECKING", *ts.__all__} if hasattr(ts, word))


# ---- the command line


@golden("cli.json")
def collect_cli() -> str:
    return as_json(_command(internal("cli"), "toolspeak"))


def _command(command: click.Command, name: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "hidden": command.hidden,
        "options": {
            max(each.opts, key=len): _parameter(each) for each in command.params if isinstance(each, click.Option)
        },
        "arguments": [_parameter(each) for each in command.params if isinstance(each, click.Argument)],
    }
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        commands = {each: command.get_command(context, each) for each in command.list_commands(context)}
        described["runs_without_command"] = command.invoke_without_command
        described["commands"] = {
            each: _command(subcommand, each) for each, subcommand in commands.items() if subcommand
        }
    return described


def _parameter(parameter: click.Parameter) -> dict[str, Any]:
    kind = parameter.type
    simple = isinstance(parameter.default, str | int | float | bool | list | tuple)
    described: dict[str, Any] = {
        # An argument has no spelling: its name is that of a variable.
        "spellings": [*parameter.opts, *parameter.secondary_opts] if isinstance(parameter, click.Option) else None,
        "type": kind.name,
        "required": parameter.required,
        "multiple": parameter.multiple,
        "nargs": parameter.nargs,
        "default": parameter.default if simple else None,
        "environment": parameter.envvar,
        "is_flag": getattr(parameter, "is_flag", False),
        "hidden": getattr(parameter, "hidden", False),
    }
    if isinstance(kind, click.Choice):
        described["choices"] = [str(choice) for choice in kind.choices]
    if isinstance(kind, click.IntRange | click.FloatRange):
        described["range"] = [kind.min, kind.max]
    return {name: value for name, value in described.items() if value not in (False, None, ()) or name == "default"}


# ---- configuration


@golden("configuration.json")
def collect_configuration() -> str:
    columns = {
        table or "(top)": [_columns(kind) for kind in kinds] for table, kinds in internal("config_columns").items()
    }
    profiles = tomllib.loads(_data_file("profiles.toml"))
    clients_table = tomllib.loads(_data_file("clients.toml"))
    digest = hashlib.sha256(json.dumps(profiles, sort_keys=True).encode()).hexdigest()
    return as_json(
        {
            "tables": {
                name: {key: row for part in parts for key, row in part.items()} for name, parts in columns.items()
            },
            "defaults": {name: repr(value) for name, value in internal("config_defaults").items()},
            "harmless": sorted(internal("config_harmless")),
            "secrets": sorted(internal("config_secrets")),
            "variables": _variables(),
            "profile_rows": {role: _columns(internal(role)) for role in ("profile", "provider_row", "family_row")},
            "profiles_digest": digest,
            "providers": {name: row.get("aliases", []) for name, row in profiles["providers"].items()},
            "models": sorted(profiles.get("models", {})),
            "families": [row["name"] for row in profiles.get("families", [])],
            "dialects": list(internal("dialects")),
            "clients": {name: row.program for name, row in internal("client_rows")().items()},
            "clients_digest": hashlib.sha256(json.dumps(clients_table, sort_keys=True).encode()).hexdigest(),
            "mcp_servers": describe(internal("mcp_server_row")),
            "templates": _templates(),
        }
    )


def _templates() -> Any:
    table: Mapping[str, Any] = internal("templates")
    return {name: sorted(re.findall(r"\{(\w+)\}", str(getattr(row, "text", row)))) for name, row in table.items()}


def _data_file(name: str) -> str:
    (path,) = ROOT.rglob(name)
    return path.read_text(encoding="utf-8")


def _columns(kind: Any) -> dict[str, str]:
    return {str(field.encode_name): _column(field) for field in _struct(kind).fields}


def _column(field: mi.Field) -> str:
    default = "" if field.default is msgspec.NODEFAULT else f" = {_default(field.default)}"
    return json.dumps(_type(field.type, ())) + default


def _variables() -> dict[str, bool]:
    """The variables of the environment, and whether the configuration takes each without a note."""
    fields = {name for kind in internal("config_columns")[""] for name in kind.__struct_fields__}
    literals = {text for text in _index().strings if re.fullmatch(r"TOOLSPEAK_[A-Z_]+[A-Z]", text)}
    names = sorted(literals | {f"TOOLSPEAK_{name.upper()}" for name in fields})
    with tempfile.TemporaryDirectory() as folder:
        return {name: _takes(name, folder) for name in names}


def _takes(variable: str, folder: str) -> bool:
    try:
        config = internal("config_load")(env={"HOME": folder, variable: "x=none"}, cwd=Path(folder))
    except ts.ToolspeakError:
        return True  # the variable was read, and this value cannot be used
    return not any(note.code == "unknown_variable" for note in config.notes)


# ---- codes


#: The parameter of functions that write notes.
_CODE = "code"
#: Codes of notes that reach a note by way of a table or of what a function returns.
_OTHER_CODES = "call_not_allowed extra_call_dropped limit_rounds limit_seconds limit_tokens loop_broken"
#: A file without any of these words has nothing that is collected.
_OF_INTEREST = re.compile(r"note|getLogger|TOOLSPEAK_|UpstreamLimitation", re.IGNORECASE)


class _Call(NamedTuple):
    """A call in the source: what is called, with what, and the function around it."""

    name: str
    arguments: list[ast.expr]
    keywords: dict[str, ast.expr]
    #: The name and the parameters of the function that the call is in.
    inside: str
    parameters: list[str]


class _Index(ast.NodeVisitor):
    """What the collectors need of the source of the whole package, gathered in one pass."""

    def __init__(self) -> None:
        self.strings: set[str] = set()
        self.calls: list[_Call] = []
        #: Keys of tables that are called `notes`.
        self.note_keys: set[str] = set()
        self._inside = ""
        self._parameters: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self._inside, self._parameters
        self._inside = node.name
        self._parameters = [each.arg for each in node.args.args if each.arg not in ("self", "cls")]
        self.generic_visit(node)
        self._inside, self._parameters = outer

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.strings.add(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        keywords = {each.arg: each.value for each in node.keywords if each.arg}
        self.calls.append(_Call(name, node.args, keywords, self._inside, self._parameters))
        if name == "setdefault" and isinstance(function, ast.Attribute) and _is_notes(function.value):
            self.note_keys.update(_literals(node.args[0]))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _is_notes(node.value):
            self.note_keys.update(_literals(node.slice))
        self.generic_visit(node)


@cache
def _index() -> _Index:
    index = _Index()
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if _OF_INTEREST.search(text):
            index.visit(ast.parse(text))
    return index


def _is_notes(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.strip("_") == "notes"


def _literals(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may be: a literal, either half of a condition, a template."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp():
            yield from _literals(node.body)
            yield from _literals(node.orelse)
        case ast.BoolOp():
            for value in node.values:
                yield from _literals(value)
        case ast.JoinedStr():
            pieces = [str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values]
            yield "".join(pieces)
        case _:
            pass


def _code_takers() -> dict[str, set[int]]:
    """Functions that pass their argument `code` on as the code of a note: name -> positions, found step by step."""
    takers: dict[str, set[int]] = {"Note": {0}}
    while True:
        before = {name: set(places) for name, places in takers.items()}
        for call in _index().calls:
            for code in _codes_in(call, before):
                if isinstance(code, ast.Name) and code.id == _CODE and _CODE in call.parameters:
                    takers.setdefault(call.inside, set()).add(call.parameters.index(_CODE))
        if takers == before:
            return takers


def _codes_in(call: _Call, takers: Mapping[str, set[int]]) -> Iterator[ast.expr]:
    places = takers.get(call.name)
    if places is None:
        return
    yield from (call.arguments[place] for place in places if place < len(call.arguments))
    if _CODE in call.keywords:
        yield call.keywords[_CODE]


def _note_codes() -> list[str]:
    takers = _code_takers()
    codes = {text for call in _index().calls for code in _codes_in(call, takers) for text in _literals(code)}
    codes |= _index().note_keys | _first_arguments(INTERNAL["concession"].rpartition(":")[2])
    codes |= _index().strings & set(_OTHER_CODES.split())
    return sorted(text for text in codes if re.fullmatch(r"[a-z{][a-z0-9_{}.]*", text))


def _first_arguments(name: str) -> set[str]:
    calls = (call for call in _index().calls if call.name == name and call.arguments)
    return {text for call in calls for text in _literals(call.arguments[0])}


@cache
def _modules() -> None:
    """Import the whole package, so that every subclass exists."""
    for module in pkgutil.walk_packages([str(ROOT)], "toolspeak."):
        if module.name.startswith("toolspeak.integrations."):  # they need libraries that are not installed
            continue
        if not module.name.endswith("__main__"):
            import_module(module.name)


def _subclasses(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def _error(kind: type) -> dict[str, Any]:
    names = ("status", "final", "kind", "code", "error_type")
    values = {name: getattr(kind, name) for name in names if isinstance(getattr(kind, name, None), str | int | bool)}
    return {"bases": [base.__name__ for base in kind.__mro__[1:] if base.__name__ in internal("errors")], **values}


@golden("codes.json")
def collect_codes() -> str:
    _modules()
    public = set(internal("errors"))
    kinds = [
        kind for kind in {ts.ToolspeakError, *_subclasses(ts.ToolspeakError)} if kind.__module__.startswith("toolspeak")
    ]
    rules = [name for role in ("decision_rules_at_name", "decision_rules_at_end") for name, _ in internal(role)]
    telemetry = import_module(INTERNAL["telemetry"].partition(":")[0])
    attributes = [value for name, value in vars(telemetry).items() if name.isupper() and isinstance(value, str)]
    return as_json(
        {
            "notes": _note_codes(),
            "errors": {kind.__name__: _error(kind) for kind in kinds if kind.__name__ in public},
            "errors_of_parts": sorted(json.dumps(_error(kind)) for kind in kinds if kind.__name__ not in public),
            "decision_rules": rules,
            "decision_reasons": sorted(internal("reason_texts")),
            "evidence": sorted(internal("evidence").__struct_fields__),
            "policies": list(get_args(internal("policy"))),
            "faults": list(get_args(internal("fault_kinds"))),
            "refusals": list(get_args(internal("refusal_categories"))),
            "telemetry": sorted(attributes),
            "request_settings": sorted(internal("request_settings")),
            "request_settings_header": internal("request_settings_header").decode(),
            "loggers": sorted(_first_arguments("getLogger")),
            "states": {
                role: _literal_fields(internal(role)) for role in ("answer", "call_record", "settings", "profile")
            },
        }
    )


def _literal_fields(kind: Any) -> dict[str, Any]:
    fields = {field.name: field.type for field in _struct(kind).fields}
    return {name: list(kind.values) for name, kind in fields.items() if isinstance(kind, mi.LiteralType)}


# ---- the database


@golden("database.txt")
def collect_database() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store.db"
        with internal("store")(f"sqlite:///{path}") as store:
            internal("store_import")(store, SESSION_LINES)
            exported = list(internal("store_export")(store))
        connection = sqlite3.connect(path)
        schema = list(connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name"))
        tables = [name for kind, name, _ in schema if kind == "table" and not name.startswith("sqlite_")]
        parts = ["# schema", *(f"{kind} {name}\n{sql}" for kind, name, sql in schema)]
        for table in tables:
            parts += [f"# pragma {table}", *(str(row) for row in connection.execute(f"PRAGMA table_info({table})"))]
            parts += [str(row) for row in connection.execute(f"PRAGMA foreign_key_list({table})")]
        for table in tables:
            parts += [f"# rows {table}", *sorted(map(str, connection.execute(f"SELECT * FROM {table}")))]  # noqa: S608
        connection.close()
    parts += ["# export", *exported, "# revisions", *_revisions(), f"head {internal('store_head')}"]
    return _without_times("\n".join(parts)) + "\n"


def _revisions() -> list[str]:
    """The revisions with the ones before them, in whichever folder they are."""
    revisions: list[str] = []
    for path in sorted(ROOT.rglob("versions/*.py")):
        text = path.read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if re.match(r"(down_)?revision\b", line)]
        revisions.append(f"{path.name}: {'; '.join(lines)}")
    return revisions


def _without_times(text: str) -> str:
    """Without times of today; those that the test gives are in another century."""
    return re.sub(r"\b1[789]\d{8}\.\d+\b", "TIME", text)


SESSION_LINES = [
    '{"format": "toolspeak sessions", "version": 1}',
    '{"session": {"id": "aaaaaaaaaaaaaaaaaaaaaaaaaa", "title": "Oslo", "created": 1000.5, "updated": 2000.5, '
    '"about": {"model": "openai:m"}}}',
    '{"message": {"role": "user", "parts": [{"type": "text", "text": "How is it in Oslo?"}]}}',
    '{"answer": {"content": "Windy.", "reasoning": "hm", "requests": 2, "usage": {"input_tokens": 7}, '
    '"notes": [{"code": "missing_closer", "detail": "x"}], "rounds": [{"text": "I look.", "calls": [{"call": '
    '{"name": "get_weather", "arguments": {"city": "Oslo"}, "id": "call_1"}, "state": "finished", "seconds": 0.5, '
    '"result": {"id": "call_1", "content": "windy", "name": "get_weather"}}]}]}}',
]


# ---- stored formats


def _struct(kind: Any) -> mi.StructType:
    info = mi.type_info(kind)
    assert isinstance(info, mi.StructType)
    return info


def describe(kind: Any) -> Any:
    """The encoded form of a type: names of fields as they are written, without the names of classes."""
    return _type(mi.type_info(kind), ())


def _type(kind: mi.Type, outer: tuple[Any, ...]) -> Any:
    match kind:
        case mi.StructType():
            return _fields(kind, outer)
        case mi.UnionType():
            return {"one_of": [_type(each, outer) for each in kind.types]}
        case mi.ListType() | mi.VarTupleType() | mi.SetType() | mi.FrozenSetType():
            return {"list_of": _type(kind.item_type, outer)}
        case mi.TupleType():
            return {"row_of": [_type(each, outer) for each in kind.item_types]}
        case mi.DictType():
            return {"keys": _type(kind.key_type, outer), "values": _type(kind.value_type, outer)}
        case mi.LiteralType():
            return {"literal": list(kind.values)}
        case mi.Metadata():
            return _type(kind.type, outer)
        case mi.IntType() | mi.FloatType():
            bounds = {name: getattr(kind, name) for name in ("gt", "ge", "lt", "le") if getattr(kind, name) is not None}
            name = _plain(kind)
            return {name: bounds} if bounds else name
        case _:
            return _plain(kind)


def _plain(kind: mi.Type) -> str:
    return type(kind).__name__.removesuffix("Type").lower()


def _fields(kind: mi.StructType, outer: tuple[Any, ...]) -> Any:
    if kind.cls in outer:
        return "(as above)"
    inner = (*outer, kind.cls)
    fields = {field.encode_name + ("" if field.required else "?"): _type(field.type, inner) for field in kind.fields}
    described: dict[str, Any] = {"fields": [[*item] for item in fields.items()] if kind.array_like else fields}
    if kind.tag is not None:
        described["tag"] = f"{kind.tag_field}={kind.tag}"
    if kind.forbid_unknown_fields:
        described["closed"] = True
    return described


#: What is written to a disk, to a database, or to another process.
_STORED = (
    "agent_event answer evaluation_record evaluation_report hub_file_list_item idempotent_answer idempotent_place "
    "loop_memory mcp_pin mcp_tokens message metrics_snapshot probe_result recording_entry running_server "
    "session_info settings statistics_period stored_response"
)


@golden("stored.json")
def collect_stored() -> str:
    return as_json(
        {
            "structs": {role: describe(internal(role)) for role in _STORED.split()},
            "events": {kind.__name__: describe(kind) for kind in get_args(ts.Event)},
            "state_file": _state_file(),
            "probe_key": internal("probe_place")("openai", "m", "http://127.0.0.1:9/v1").key,
            "nonces": [internal("nonces")(b"a secret", "tenant", _messages())(number) for number in range(3)],
        }
    )


def _state_file() -> Any:
    """The file of the state after a key was made and a conversation was remembered, without what is random."""
    with tempfile.TemporaryDirectory() as folder:
        state = internal("file_state")(Path(folder) / "state.json")
        internal("keys")(state, lambda: 1000.0).new("ann", ("m",), 5, 2, admin=True)
        state.put("a key", {"a": "value"})
        _converse(state)
        text = (Path(folder) / "state.json").read_text(encoding="utf-8")
    document = json.loads(text)
    document["entries"] = dict(sorted(document["entries"].items()))
    text = re.sub(r"[0-9a-f]{16,}", "HEX", json.dumps(document))
    return json.loads(re.sub(r"\b1[789]\d{8}\.\d+\b", '"TIME"', text))


def _converse(state: Any) -> None:
    client = ts.Client(ts.Scripted(ACTION_CALL), config=_config(), state=state, mode="force", marks="fixed")
    with client:
        client.chat(QUESTION, tools=TOOLS)


# ---- prompts

SECRET = "a secret for tests"
SYSTEM = "You are a careful assistant.\nAnswer in English."
QUESTION = 'How is the weather in Oslo, and what did I note about <b>"umbrellas"</b>?'
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of the next days.\nUse it for any place.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The name of the city."},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
                    "unit": {"enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "search_notes",
            "description": "Search the notes.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "minLength": 1},
                    "filter": {
                        "type": "object",
                        "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
                    },
                },
                "required": ["query"],
            },
        },
    },
    {"type": "function", "function": {"name": "ping"}},
]
CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": QUESTION},
    {
        "role": "assistant",
        "content": "I look it up.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}},
            {
                "id": "call_2",
                "type": "function",
                "function": {"name": "search_notes", "arguments": '{"query": "Größe"}'},
            },
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Windy, 18 °C.\n```\nSecond line."},
    {"role": "tool", "tool_call_id": "call_2", "content": '{"notes": []}'},
    {"role": "user", "content": "And tomorrow in Bergen?"},
]
OPENING: list[dict[str, Any]] = CONVERSATION[:2]
GOOD = ts.ToolCall("get_weather", {"city": "Bergen", "days": 1})
ACTION_CALL = '```json action\n{"tool": "get_weather", "parameters": {"city": "Bergen"}}\n```'
#: An answer without a call, which ends a turn.
DONE = "It will be windy."


def _messages() -> tuple[ts.Message, ...]:
    return (ts.Message("system", (ts.TextPart(SYSTEM),)), ts.Message("user", (ts.TextPart(QUESTION),)))


@cache
def _nonce() -> str:
    return internal("nonces")(SECRET.encode(), "", _messages())(0)


def _config() -> Any:
    return internal("config_load")({"secret": SECRET, "probe": "off"}, env={"HOME": "/nonexistent"}, project=False)


def _turn(
    script: Sequence[Any],
    messages: Any = None,
    *,
    profile: Mapping[str, Any] | None = None,
    protocol: str = "",
    **how: Any,
) -> str:
    """What reached the model during one turn, and how the turn ended."""
    upstream: Any = ts.Scripted(*script, again=True)
    upstream.protocol = protocol or "openai_chat"
    profiles = internal("capabilities")()
    profiles.override_provider("scripted", dict(profile or {}))
    state = internal("memory_state")()
    arguments = {"tools": TOOLS, "tool_choice": None, **{k: v for k, v in how.items() if k in _OF_CHAT}}
    settings = {"mode": "force", **{k: v for k, v in how.items() if k not in _OF_CHAT}}
    with ts.Client(upstream, config=_config(), state=state, known=profiles, **settings) as client:
        try:
            reply = client.chat(messages or CONVERSATION, **arguments)
            ended = f"{reply.finish_reason} {[(call.name, call.arguments) for call in reply.calls]} {reply.text!r}"
        except ts.ToolspeakError as error:
            ended = f"{type(error).__name__}"
    return _requests(upstream.requests, upstream.protocol) + f"==== end: {ended}\n"


_OF_CHAT = frozenset("tools tool_choice response_format stop temperature max_tokens seed".split())


def _requests(requests: Iterable[Any], protocol: str, *, random_nonce: bool = False) -> str:
    parts: list[str] = []
    for number, request in enumerate(requests, 1):
        data: bytes = internal("codec")(protocol).encode(request)
        data = _without_nonce(data) if random_nonce else data
        parts.append(f"==== request {number}, sha256 {hashlib.sha256(data).hexdigest()}")
        body = json.loads(data)
        messages = body.pop("messages", [])
        parts += [f"{_PIECE}body", json.dumps(body, ensure_ascii=False)]
        for message in messages:
            content = message.pop("content", None)
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            parts += [f"{_PIECE}message {json.dumps(message, ensure_ascii=False)}", text]
    return "\n".join(parts) + "\n"


def _without_nonce(data: bytes) -> bytes:
    """The same request with a fixed word for its nonce, which the prompt names."""
    match = re.search(rb'only with (?:the mark |\\"nonce\\":\\")([a-z0-9]{7})\b', data)
    return data.replace(match[1], b"NONCE") if match else data


#: Begins each piece of a request: its body without messages, and every message.
_PIECE = "-- "
#: Shorter pieces are repeated.
_SHORT = 60


def _sections(sections: Mapping[str, str]) -> str:
    """Texts under their names. A piece that appeared before is named by its number, which keeps the files short."""
    numbers: dict[str, int] = {}
    parts: list[str] = []
    for name, text in sections.items():
        parts.append(f"######## {name}\n")
        for piece in re.split(rf"^(?={_PIECE}|====|# )", text, flags=re.MULTILINE):
            if not piece.startswith((_PIECE, "# ")) or len(piece) < _SHORT:
                parts.append(piece)
            elif piece in numbers:
                parts.append(f"-- [{numbers[piece]}] again\n")
            else:
                numbers[piece] = len(numbers) + 1
                new = piece.removeprefix(_PIECE) if piece.startswith(_PIECE) else f"continued\n{piece}"
                parts.append(f"-- [{numbers[piece]}] {new}")
    return "".join(parts)


def _bad_call(dialect: str) -> Callable[[Any], str]:
    """A call without the argument that the tool needs, in the marks that the prompt asks for."""

    def answer(request: Any) -> str:
        nonce = _nonce() if any(_nonce() in message.text for message in request.messages) else None
        return ts.render_calls(dialect, [ts.ToolCall("get_weather", {"days": 1})], nonce)

    return answer


@golden("prompts/dialects.txt")
def collect_dialects() -> str:
    return _sections(
        {
            f"{dialect}, marks {marks}": _turn(
                [_bad_call(dialect), DONE], dialect=dialect, plan="inline", marks=marks, retries=1
            )
            for dialect in internal("dialects")
            for marks in ("nonce", "fixed")
        }
    )


def _written(plan: str, marks: str, calls: Sequence[ts.ToolCall], reply: str = "") -> str:
    """Calls as a model writes them under this plan."""
    nonce = _nonce() if marks == "nonce" else None
    listed = [{"name": call.name, "arguments": call.arguments} for call in calls]
    head = {"nonce": nonce} if nonce else {}
    match plan:
        case "inline":
            return ts.render_calls("action", calls, nonce)
        case "decision":
            return json.dumps({**head, "tools": listed})
        case _:
            return json.dumps({**head, "calls": listed, "reply": reply})


def _faulty(plan: str, marks: str) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Answers that will not do: name -> the answer, and what else the request says."""
    good = _written(plan, marks, [GOOD])
    return {
        "refusal": ("I'm sorry, but I don't have access to any tools.", {}),
        "described": ("I would call get_weather with the city Bergen to find out.", {}),
        "permission": ("Would you like me to check the weather in Bergen with get_weather?", {}),
        "malformed": (good.replace('"city": ', '"city" : {{').rstrip("`}\n"), {}),
        "unknown_tool": (_written(plan, marks, [ts.ToolCall("get_wether_now", {"city": "Bergen"})]), {}),
        "bad_arguments": (_written(plan, marks, [ts.ToolCall("get_weather", {"days": 99, "unit": "kelvin"})]), {}),
        "in_reasoning": (f"<think>\nLet me see.\n{good}\n</think>\n", {}),
        "empty": ("", {}),
        "no_call": ("It is nice there.", {"tool_choice": "required"}),
        "wrong_tool": (
            _written(plan, marks, [ts.ToolCall("ping", {})]),
            {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
        ),
        "too_many": (
            _written(plan, marks, [GOOD, GOOD]),
            {"tool_choice": ts.ToolChoice(mode="named", allowed=("get_weather",))},
        ),
        "good": (good, {}),
        "answer": (_written(plan, marks, [], DONE) if plan != "inline" else DONE, {}),
    }


_ALSO_WITH_FIXED_MARKS = frozenset("bad_arguments unknown_tool no_call good answer".split())


def _plan_prompts(plan: str, marks: str) -> str:
    turns = {
        name: _turn([answer], OPENING, plan=plan, marks=marks, retries=2, **options)
        for name, (answer, options) in _faulty(plan, marks).items()
        if marks == "nonce" or name in _ALSO_WITH_FIXED_MARKS
    }
    return _sections({"history": _turn([DONE], plan=plan, marks=marks, retries=0), **turns})


def _register_plans() -> None:
    for plan in ("inline", "decision", "envelope"):
        for marks in ("nonce", "fixed"):
            golden(f"prompts/plan_{plan}_{marks}.txt")(lambda plan=plan, marks=marks: _plan_prompts(plan, marks))


_register_plans()
SCHEMA = {
    "type": "object",
    "properties": {"degrees": {"type": "number"}},
    "required": ["degrees"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA, "strict": True}}
LONG = [
    *OPENING,
    *({"role": ("assistant", "user")[n % 2], "content": f"Part {n} of a long talk."} for n in range(40)),
    {"role": "user", "content": "Bergen?"},
]
PICTURE = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ],
    }
]


@golden("prompts/variants.txt")
def collect_variants() -> str:
    native: dict[str, Any] = {"profile": {"capability": "openai"}, "mode": "auto"}
    variants: dict[str, dict[str, Any]] = {
        "no system role": {"profile": {"system_role": False}},
        "no system message": {"messages": OPENING[1:]},
        "whole schemas": {"contract": "schema"},
        "small budget": {"contract_budget": 120},
        "long conversation": {"messages": LONG},
        "picture for a text model": {"messages": PICTURE, "profile": {"media": ()}},
        "one call at a time": {"profile": {"parallel": False}},
        "choice none": {"tool_choice": "none"},
        "choice required": {"tool_choice": "required"},
        "choice named": {"tool_choice": {"type": "function", "function": {"name": "ping"}}},
        "choice among some": {"tool_choice": ts.ToolChoice(allowed=("ping", "get_weather"))},
        "answer in a schema": {"response_format": FORMAT},
        "answer in a schema, envelope": {"response_format": FORMAT, "plan": "envelope"},
        "answer in a schema, decision": {"response_format": FORMAT, "plan": "decision"},
        "chat only": {"chat_only": True},
        "mode off": {"mode": "off"},
        "native": native,
        "native, required": {**native, "tool_choice": "required"},
        "fallback": {**native, "mode": "fallback"},
        "fallback, inline": {**native, "mode": "fallback", "plan": "inline"},
        "few stop sequences": {"profile": {"max_stop": 1}, "stop": ["END", "STOP"]},
        "no stop sequences": {"profile": {"max_stop": 0}},
        "options": {"temperature": 0.5, "max_tokens": 77, "seed": 3},
        "hermes history": {"dialect": "hermes", "plan": "decision"},
    }
    turns = {name: _turn([DONE], **{"retries": 1, **how}) for name, how in variants.items()}
    turns |= {f"inline over {protocol}": _turn([DONE], protocol=protocol) for protocol in PROTOCOLS[1:]}
    return _sections(turns)


@golden("prompts/constraints.txt")
def collect_constraints() -> str:
    turns: dict[str, str] = {}
    for flavour in ("openai_strict", "json_schema", "gbnf", "lark"):
        for plan in ("inline", "decision", "envelope"):
            for choice in (None, "required"):
                how = {"plan": plan, "profile": {"constraint": flavour}, "retries": 0, "tool_choice": choice}
                turns[f"{flavour}, {plan}, {choice or 'auto'}"] = _turn([DONE], OPENING, tools=TOOLS[:2], **how)
    strict = {"profile": {"constraint": "json_schema"}, "plan": "envelope", "response_format": FORMAT, "retries": 0}
    turns["answer in a schema"] = _turn([DONE], OPENING, **strict)
    refused = ts.UpstreamError("unknown field json_schema", upstream_status=400)
    turns["refused by the upstream"] = _turn(
        [refused, DONE], OPENING, profile={"constraint": "json_schema"}, plan="decision"
    )
    system = ts.UpstreamError("system role is not supported", upstream_status=400)
    turns["system message refused"] = _turn([system, DONE], OPENING)
    return _sections(turns)


@golden("prompts/agent.txt")
def collect_agent() -> str:
    def get_weather(city: str, days: int = 3) -> str:
        """The weather of the next days.

        Args:
            city: The name of the city.
            days: How many days.
        """
        if city == "Atlantis":
            raise ts.UsageError("no such city")
        return f"windy in {city}"

    calls = [_action("get_weather", {"city": city}) for city in ("Bergen", "Atlantis")]
    upstream: Any = ts.Scripted(*calls, DONE, again=True)
    with ts.Client(upstream, config=_config(), state=internal("memory_state")(), mode="force", marks="fixed") as client:
        agent = ts.Agent(client, [get_weather], max_rounds=2, instructions="Be brief.")
        agent.run(QUESTION)
    probed: Any = ts.Scripted(DONE, again=True)
    with ts.Client(probed, config=_config(), state=internal("memory_state")()) as client:
        client.probe()
    return _sections(
        {
            "agent": _requests(upstream.requests, "openai_chat"),
            "probe": _requests(probed.requests, "openai_chat", random_nonce=True),
        }
    )


def _action(name: str, arguments: dict[str, Any]) -> str:
    return ts.render_calls("action", [ts.ToolCall(name, arguments)])


# ---- bytes on the wire


class Face:
    """Requests of one client protocol, written out by hand."""

    def __init__(
        self, path: str, stream_path: str, body: dict[str, Any], tools: dict[str, Any], streams: bool = True
    ) -> None:
        self._paths = {False: path, True: stream_path}
        self._body = body
        self._tools = tools
        self._streams = streams

    def ask(self, stream: bool, tools: bool = True) -> tuple[str, dict[str, Any]]:
        body = {**self._body, **(self._tools if tools else {}), **({"stream": stream} if self._streams else {})}
        return self._paths[stream], body


def _functions_of(key: str, wrapped: bool) -> list[dict[str, Any]]:
    functions = [each["function"] for each in TOOLS]
    rows = [
        {
            "name": each["name"],
            "description": each.get("description", ""),
            key: each.get("parameters", {"type": "object"}),
        }
        for each in functions
    ]
    return [{"type": "function", "function": row} for row in rows] if wrapped else rows


_USER = [{"role": "user", "content": QUESTION}]
FACES = {
    "openai_chat": Face(
        "/v1/chat/completions", "/v1/chat/completions", {"model": "m", "messages": _USER}, {"tools": TOOLS}
    ),
    "openai_responses": Face(
        "/v1/responses",
        "/v1/responses",
        {"model": "m", "input": _USER, "store": False},
        {"tools": [{"type": "function", **row} for row in _functions_of("parameters", wrapped=False)]},
    ),
    "anthropic": Face(
        "/v1/messages",
        "/v1/messages",
        {"model": "m", "max_tokens": 1000, "messages": _USER},
        {"tools": _functions_of("input_schema", wrapped=False)},
    ),
    "gemini": Face(
        "/v1beta/models/m:generateContent",
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
        {"tools": [{"functionDeclarations": _functions_of("parametersJsonSchema", wrapped=False)}]},
        streams=False,
    ),
    "ollama": Face("/api/chat", "/api/chat", {"model": "m", "messages": _USER}, {"tools": TOOLS}),
}
_ONE = [ts.ToolCall("get_weather", {"city": "Oslo", "days": 2})]
_TWO = [*_ONE, ts.ToolCall("search_notes", {"query": "Größe"})]


def _native(calls: Sequence[ts.ToolCall]) -> list[Any]:
    events: list[Any] = [ts.ReasoningDelta("Let me see."), ts.TextDelta("I look.")]
    for at, call in enumerate(calls):
        written = json.dumps(call.arguments)
        events += [
            ts.CallStart(at, call.name, f"call_{at}"),
            ts.CallArgs(at, written[:8]),
            ts.CallArgs(at, written[8:]),
        ]
        events.append(ts.CallEnd(at))
    return [*events, ts.UsageSeen(ts.Usage(20, 10)), ts.Finish("tool_calls")]


_UPSTREAM = ts.UpstreamError(
    "slow down", upstream_status=429, body="{}", retry_after=3.0, code="rate", error_type="limit"
)
#: What the model answers: name -> the script, and whether the model calls natively.
ANSWERS: dict[str, tuple[list[Any], bool]] = {
    "text": ([DONE], False),
    "one call": (["I look.\n" + ts.render_calls("action", _ONE)], False),
    "two calls": (["I look.\n" + ts.render_calls("action", _TWO)], False),
    "native call": ([_native(_ONE)], True),
    "two native calls": ([_native(_TWO)], True),
    "cut off": ([[ts.TextDelta("It will"), ts.Finish("length")]], False),
    "upstream refuses": ([_UPSTREAM], False),
    "upstream breaks off": ([[ts.TextDelta("It"), ts.Failure("gone")]], False),
    "upstream is too slow": ([ts.UpstreamTimeout("too slow")], False),
}


def _app(script: Sequence[Any], native: bool = False, guard: Any = None, retries: int = 0) -> Any:
    upstream = ts.Scripted(*script, again=True, chunk=9)
    profiles = internal("capabilities")()
    if native:
        profiles.override_model("m", "openai")
    settings = internal("settings")(mode="auto" if native else "force", marks="fixed", retries=retries)
    values = (lambda own: upstream, lambda model: settings, ("m",))
    line = internal("server_line")(
        "one", "", "http://one.test/v1", "openai_chat", **dict(zip(_LINE_ARGUMENTS, values, strict=True))
    )
    gateway = internal("gateway")([line], profiles, internal("memory_state")(), b"a secret")
    return internal("app")(gateway, *([guard] if guard else []))


async def _ask(app: Any, method: str, target: str, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()) -> Any:
    """Status, headers and the body of an answer."""
    path, _, query = target.partition("?")
    lines = [(b"host", b"127.0.0.1:8788"), *((name.encode(), value.encode()) for name, value in headers)]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode()}
    scope |= {"scheme": "http", "headers": lines}
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []
    stays = asyncio.Event()

    async def receive() -> Any:
        if not incoming:
            await stays.wait()  # the client waits for its answer
        return incoming.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers_of = sorted((name.decode(), value.decode()) for name, value in sent[0]["headers"])
    return sent[0]["status"], headers_of, b"".join(message.get("body", b"") for message in sent[1:])


def _exchange(app: Any, method: str, target: str, body: Any, headers: Sequence[tuple[str, str]] = ()) -> str:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, fields, answer = asyncio.run(_bounded(_ask(app, method, target, data, headers)))
    lines = [f"{name}: {value}" for name, value in fields]
    return _steady("\n".join([f"{method} {target}", str(status), *lines, "", answer.decode()]), error=status >= 400)


async def _bounded(work: Any) -> Any:
    async with asyncio.timeout(20):
        return await work


_RANDOM = (
    (re.compile(r"\b(chatcmpl-|resp_|msg_|rs_|fc_|toolu_|call_|req_|ctc_)[0-9A-Za-z]{12,}\b"), r"\1ID"),
    (re.compile(r'("(?:id|call_id|item_id|responseId)": ?"(?:[a-z]+[_-])?)[0-9A-Za-z_-]{16,}"'), r'\1ID"'),
    (re.compile(r"(x-request-id: |request-id: ).*"), r"\1ID"),
    (re.compile(r'("(?:created|created_at|completed_at)": ?)\d{9,}(\.\d+)?'), r"\1TIME"),
    (re.compile(r'("(?:created_at|createTime)": ?")\d{4}-[^"]*"'), r'\1TIME"'),
    (re.compile(r'("(?:\w*_duration)": ?)\d+'), r"\1TIME"),
)
_WORDS = re.compile(r'("message": ?")(?:[^"\\]|\\.)*"')
_OLLAMA_WORDS = re.compile(r'("error": ?")(?:[^"\\]|\\.)*"')


def _steady(text: str, *, error: bool) -> str:
    """Without what differs from run to run, and without the words of errors."""
    for pattern, replacement in _RANDOM:
        text = pattern.sub(replacement, text)
    text = _OLLAMA_WORDS.sub(r'\1WORDS"', text)
    text = re.sub(r"(content-length: )\d+", r"\1N", text)
    return _WORDS.sub(r'\1WORDS"', text) if error or '"error"' in text else text


def _wire(name: str) -> str:
    face = FACES[name]
    parts: dict[str, str] = {}
    for stream in (False, True):
        for answer, (script, native) in ANSWERS.items():
            target, body = face.ask(stream, tools=answer != "text")
            parts[f"{answer}, {'stream' if stream else 'whole'}"] = _exchange(
                _app(script, native), "POST", target, body
            )
        target, body = face.ask(stream)
        bad = {
            "not JSON": b"{nonsense",
            "unknown model": {**body, "model": "unlisted"},
            "tools of a wrong type": {**body, "tools": "all"},
            "bad schema": json.loads(json.dumps(body).replace('"string"', '"strung"')),
            "no messages": {key: value for key, value in body.items() if key not in ("messages", "contents", "input")},
        }
        for what, sent in bad.items():
            parts[f"{what}, {'stream' if stream else 'whole'}"] = _exchange(_app([DONE]), "POST", target, sent)
    return "\n".join(f"######## {what}\n{text}" for what, text in parts.items()) + "\n"


def _register_faces() -> None:
    for name in FACES:
        golden(f"wire/face_{name}.txt")(lambda name=name: _wire(name))


_register_faces()


@golden("wire/upstream_requests.txt")
def collect_upstream_requests() -> str:
    """The bytes that each codec writes, where it sends them, and what it could not say."""
    parts: list[str] = []
    for protocol in PROTOCOLS:
        codec = internal("codec")(protocol)
        for name, request in _fixed_requests(protocol).items():
            notes = sorted(note.code for note in codec.notes(request))
            parts += [f"######## {protocol}, {name}", codec.path(request), str(notes), codec.encode(request).decode()]
        key = [codec.key_header, codec.key_prefix, dict(codec.headers), codec.version, list(codec.endings)]
        parts += [f"######## {protocol}, headers", json.dumps(key)]
    return "\n".join(parts) + "\n"


def _fixed_requests(protocol: str) -> dict[str, Any]:
    request = _native_request(protocol)
    replace = msgspec.structs.replace
    options = internal("options")(
        max_tokens=77,
        temperature=0.5,
        top_p=0.9,
        seed=3,
        stop=("END",),
        response_format=internal("response_format")(SCHEMA, "weather", True),
    )
    choices = {mode: ts.ToolChoice(mode) for mode in ("none", "required")}
    choices |= {"named": ts.ToolChoice("named", ("ping",)), "single": ts.ToolChoice(parallel=False)}
    short = replace(request, messages=request.messages[-1:], tools=request.tools[:1])
    picture = ts.Message("user", (ts.TextPart("See:"), ts.Media("image", "data:image/png;base64,AAAA")))
    return {
        "conversation": request,
        "stream": replace(request, stream=True),
        "options": replace(short, options=options),
        "picture": replace(short, messages=(picture,)),
        **{f"choice {name}": replace(short, tool_choice=choice) for name, choice in choices.items()},
    }


def _native_request(protocol: str) -> Any:
    """The conversation as it reaches an upstream that calls natively."""
    upstream: Any = ts.Scripted(DONE)
    upstream.protocol = protocol
    profiles = internal("capabilities")()
    profiles.override_provider("scripted", "openai")
    with ts.Client(upstream, config=_config(), state=internal("memory_state")(), known=profiles, mode="auto") as client:
        client.chat(CONVERSATION, tools=TOOLS)
    return upstream.requests[0]


# ---- routes of our own


def _shape(value: Any) -> Any:
    """The names of fields, and the types of their values."""
    if isinstance(value, dict):
        return {name: _shape(each) for name, each in value.items()}
    if isinstance(value, list):
        shapes = {json.dumps(_shape(each), sort_keys=True) for each in value}
        return [json.loads(each) for each in sorted(shapes)]
    return type(value).__name__


@golden("http.json")
def collect_http() -> str:
    guard = internal("guard")()
    access, sessions, exchange, code = _PAGE_SESSIONS
    desk = getattr(getattr(guard, access), sessions)
    cookie = [("cookie", f"toolspeak_session={getattr(desk, exchange)(getattr(desk, code)())}")]
    # A call that is asked for again, then one that is repaired: every kind of event is counted.
    script = [_action("get_weather", {"days": 1}), _action("get_weather", {"city": "Oslo"}).replace('"}}', '",}}')]
    app = _app(script, guard=guard, retries=1)
    target, body = FACES["openai_chat"].ask(stream=False)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):  # one of the pages lists results in this folder
        pages = asyncio.run(_bounded(_pages(app, target, json.dumps(body).encode(), cookie)))
    document = internal("openapi")("1")
    return as_json(
        {
            "pages": pages,
            "routes": sorted(f"{method} {path}" for method, path in internal("routes")()),
            "openapi": {
                path: {method: sorted(each.get("responses", {})) for method, each in row.items()}
                for path, row in document["paths"].items()
            },
            "schemas": {name: _schema(each) for name, each in document["components"]["schemas"].items()},
        }
    )


def _schema(schema: Mapping[str, Any]) -> Any:
    return {
        "fields": sorted(schema.get("properties", {})),
        "required": sorted(schema.get("required", [])),
        "enum": schema.get("enum", []),
    }


async def _pages(app: Any, target: str, body: bytes, cookie: list[tuple[str, str]]) -> dict[str, Any]:
    _, headers, _ = await _ask(app, "POST", target, body, cookie)
    identifier = json.loads(dict(headers)["x-toolspeak"])["id"]
    paths = {f"/toolspeak/requests/{identifier}": "/toolspeak/requests/ID"}
    paths |= {path: path for method, path in internal("routes")() if method == "GET" and _is_page(path)}
    answers = {label: await _ask(app, "GET", path, b"", cookie) for path, label in paths.items()}
    shapes: dict[str, Any] = {path: [status, _page_shape(data)] for path, (status, _, data) in answers.items()}
    replay = await _ask(app, "POST", f"/toolspeak/requests/{identifier}/replay", b'{"plan": "decision"}', cookie)
    shapes["/toolspeak/requests/ID/replay"] = [replay[0], _page_shape(replay[2])]
    _, _, metrics = await _ask(app, "GET", "/metrics", b"", cookie)
    shapes["/metrics"] = sorted(
        {_metric(line) for line in metrics.decode().splitlines() if not line.startswith("# HELP")}
    )
    return shapes


def _is_page(path: str) -> bool:
    """Whether a path gives JSON without a name in it; the document of all schemas is pinned apart."""
    return "NAME" not in path and path not in ("/", "/docs", "/openapi.json", "/metrics", "/toolspeak/session")


def _page_shape(data: bytes) -> Any:
    try:
        return _shape(json.loads(data))
    except ValueError:
        return "not JSON"


def _metric(line: str) -> str:
    """The name of a metric with the names of its labels."""
    if line.startswith("#"):
        return line
    name, _, labels = line.partition("{")
    keys = ",".join(re.findall(r"(\w+)=", labels))
    return f"{name.split()[0]}{{{keys}}}"


# ---- the comparison


def _update(names: Iterable[str] = ()) -> None:
    for name in names or _COLLECTORS:
        path = GOLDEN / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_COLLECTORS[name](), encoding="utf-8", newline="\n")


@check_each("name", list(_COLLECTORS))
def test_what_users_rely_on_stays_as_it_is(name: str):
    if os.environ.get("TOOLSPEAK_UPDATE_GOLDEN"):
        _update([name])
    assert _COLLECTORS[name]() == (GOLDEN / name).read_bytes().decode()


def test_no_golden_file_is_left_without_a_collector():
    files = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*") if path.is_file()}
    assert files == set(_COLLECTORS)


if __name__ == "__main__":
    _update()
