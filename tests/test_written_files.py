"""Files that models write as arguments arrive byte for byte, in every dialect, as the templates of the models write them."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

import toolspeak as ts
from tests.cases import size
from toolspeak.dialects.registry import DIALECTS

pytestmark = [pytest.mark.no_cover, pytest.mark.requirement("B12")]

TOOLS = [
    ts.Tool(
        "write_file",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    ),
    ts.Tool("now", parameters={"type": "object", "properties": {}}),
]
PATH = "src/notes.txt"
NOISE = "]<]minimax[>["
#: A call as the template of a model family writes it; TEXT is the file. Templates escape nothing.
TEMPLATES: dict[str, str] = {
    "Qwen-Coder": (
        f"<tool_call>\n<function=write_file>\n<parameter=path>\n{PATH}\n</parameter>\n<parameter=content>\nTEXT\n"
        "</parameter>\n</function>\n</tool_call>"
    ),
    "Seed": (
        f"<seed:tool_call>\n<function=write_file>\n<parameter=path>{PATH}</parameter>\n<parameter=content>TEXT"
        "</parameter>\n</function>\n</seed:tool_call>"
    ),
    "GLM 4.5": (
        f"<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>{PATH}</arg_value>\n<arg_key>content</arg_key>\n"
        "<arg_value>TEXT</arg_value>\n</tool_call>"
    ),
    "GLM 4.7": (
        f"<tool_call>write_file<arg_key>path</arg_key><arg_value>{PATH}</arg_value><arg_key>content</arg_key>"
        "<arg_value>TEXT</arg_value></tool_call>"
    ),
    "MiniMax M2": (
        f'<minimax:tool_call>\n<invoke name="write_file">\n<parameter name="path">{PATH}</parameter>\n'
        '<parameter name="content">TEXT</parameter>\n</invoke>\n</minimax:tool_call>'
    ),
    "MiniMax M3": (
        f'{NOISE}<tool_call>\n{NOISE}<invoke name="write_file">{NOISE}<path>{PATH}{NOISE}</path>{NOISE}<content>TEXT'
        f"{NOISE}</content>{NOISE}</invoke>\n{NOISE}</tool_call>"
    ),
    "Claude-like": (
        f'<function_calls>\n<invoke name="write_file">\n<parameter name="path">{PATH}</parameter>\n'
        '<parameter name="content">TEXT</parameter>\n</invoke>\n</function_calls>'
    ),
    "Muse Glimmer": (
        f'<atem:function_calls>\n<atem:invoke name="write_file">\n<atem:parameter name="path">{PATH}</atem:parameter>\n'
        '<atem:parameter name="content">TEXT</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
    ),
    "DeepSeek V3.2": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="write_file">\n'
        f'<｜DSML｜parameter name="path" string="true">{PATH}</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="content" string="true">TEXT</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
    ),
    "Hunyuan": (
        "<tool_calls:opensource>\n<tool_call:opensource>write_file<tool_sep:opensource>\n"
        f"<arg_key:opensource>path</arg_key:opensource>\n<arg_value:opensource>{PATH}</arg_value:opensource>\n"
        "<arg_key:opensource>content</arg_key:opensource>\n<arg_value:opensource>TEXT</arg_value:opensource>\n"
        "</tool_call:opensource>\n</tool_calls:opensource>"
    ),
    "LongCat": (
        f"<longcat_tool_call>write_file\n<longcat_arg_key>path</longcat_arg_key>\n<longcat_arg_value>{PATH}"
        "</longcat_arg_value>\n<longcat_arg_key>content</longcat_arg_key>\n<longcat_arg_value>TEXT</longcat_arg_value>\n"
        "</longcat_tool_call>"
    ),
    "Cline": f"<write_file>\n<path>{PATH}</path>\n<content>\nTEXT\n</content>\n</write_file>",
    "MiniCPM": (
        f'<function name="write_file"><param name="path">{PATH}</param><param name="content"><![CDATA[TEXT]]></param>'
        "</function>"
    ),
    "Step 3": (
        "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
        f'<steptml:invoke name="write_file"><steptml:parameter name="path">{PATH}</steptml:parameter>'
        '<steptml:parameter name="content">TEXT</steptml:parameter></steptml:invoke>'
        "<｜tool_call_end｜><｜tool_calls_end｜>"
    ),
    "Kimi K3": (
        '<|open|>tools<|sep|><|open|>call tool="write_file" index="1"<|sep|>'
        f'<|open|>argument key="path" type="string"<|sep|>{PATH}<|close|>argument<|sep|>'
        '<|open|>argument key="content" type="string"<|sep|>TEXT<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|>"
    ),
    "dots": (
        f'<dots_function_call>\n<invoke name="write_file">\n<parameter name="path">{PATH}</parameter>\n'
        '<parameter name="content">TEXT</parameter>\n</invoke>\n</dots_function_call>'
    ),
}


def _template(text: str) -> Callable[[str], str]:
    return lambda content: text.replace("TEXT", content)


def _rendered(dialect: str) -> Callable[[str], str]:
    return lambda content: ts.render_calls(dialect, [ts.ToolCall("write_file", {"path": PATH, "content": content})])


#: Functions that write a call with a file, by their name.
WRITERS: dict[str, Callable[[str], str]] = {
    **{name: _template(text) for name, text in TEMPLATES.items()},
    **{name: _rendered(name) for name in DIALECTS},
}
PARTS = 8
FILES = size(80, 3_000)
#: Number of dialects in which each file is written. The dialects take turns.
WRITERS_PER_FILE = size(2, 4)
MAX_BYTES = 60_000
KINDS = (".py", ".md", ".html", ".svg", ".js", ".css", ".txt", ".rst", ".c", ".h", ".toml", ".json", ".xml", ".pyi")


def _roots() -> list[Path]:
    project = Path(__file__).parent.parent
    paths = sysconfig.get_paths()
    own = [project / "src", project / "docs", project / "tests"]
    return size(own, [*own, Path(paths["stdlib"]), Path(paths["purelib"])])


@cache
def _files() -> list[Path]:
    """Files of every kind, evenly spread: of this project; at full size also Python's library and packages."""
    by_kind: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for root in _roots():
        for path in sorted(root.rglob("*")):
            if path.suffix in by_kind and path.is_file() and 0 < path.stat().st_size <= MAX_BYTES:
                by_kind[path.suffix].append(path)
    chosen: list[Path] = []
    most = 2 * FILES // len(KINDS)
    for kind, paths in by_kind.items():
        share = FILES // 3 if kind == ".py" else most
        step = max(1, len(paths) // share)
        chosen += islice(paths[::step], share)
    return chosen[:FILES]


def _texts(part: int) -> Iterator[tuple[Path, str]]:
    for path in _files()[part::PARTS]:
        try:
            yield path, path.read_bytes().decode()
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("part", range(PARTS))
def test_a_file_arrives_as_it_was_written(part: int):
    names = tuple(WRITERS)
    changed: list[str] = []
    unread: list[str] = []
    count = 0
    for number, (path, text) in enumerate(_texts(part)):
        first = (number * PARTS + part) * WRITERS_PER_FILE
        for name in (names[(first + at) % len(names)] for at in range(WRITERS_PER_FILE)):
            count += 1
            calls = ts.parse(WRITERS[name](text), TOOLS).calls
            if not calls:
                unread.append(f"{name}: {path}")
            elif [(call.name, call.arguments) for call in calls] != [("write_file", {"path": PATH, "content": text})]:
                changed.append(f"{name}: {path}")
    assert count
    assert not changed
    assert len(unread) <= 0.003 * count, unread
