"""Conversations about the product's own tools: each kind can be drawn, and every call fits its tool and gives what it gives in use."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cases import check_each
from toolspeak.agent.calls import run_tool
from toolspeak.cli import agent_options
from toolspeak.core.schema.argument_schema import ArgumentSchema
from toolspeak.core.types import JSONObject, Message
from toolspeak.tools.approval import Approval
from toolspeak.tools.base import CallContext
from toolspeak.tools.files import file_tools
from toolspeak.tools.final_output import FinalOutput
from toolspeak.tools.shell import Shell
from toolspeak.tools.wrappers import cut_short
from training.closings import closings
from training.compare import stands
from training.family import families
from training.product import INSTRUCTIONS, Asked, Offered, ProductTask, Round, offered, read, written
from training.product_tools import CALCULATOR, CLOCK, DICE, ZONES, Desk, calculate, clock_text, local_tools
from training.product_values import SLOT, Place, compared, drawn, filled
from training.scenes import Scenes
from training.unseen import ASKED, READERS

TASKS = (*written(), *written(held_out=True))
STATIC = Path(__file__).parents[2] / "src/toolspeak/server/web/static"
NOON = datetime(2026, 1, 5, 12, 7, 3, tzinfo=UTC)
ONE = """
task the_number
set f = textfile
set n = id(100,999)
file {f} = The number is {n}.
> Which number is in {f}?
call read_file {"path": "{f}"}
= It is {n}.
"""
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node runs the tools of the page")


def fitting(task: ProductTask, rng: random.Random) -> Offered:
    return next(offer for offer in (offered(rng) for _ in range(2000)) if task.fits(offer.names))


def rounds(task: ProductTask, seed: int) -> tuple[Offered, list[Round]]:
    rng = random.Random(seed)
    offer = fitting(task, rng)
    return offer, Asked(task, offer, rng).rounds()


def results(messages: tuple[Message, ...]) -> str:
    return "\n".join(result.content for message in messages for result in message.results)


@check_each("task", TASKS, ids=lambda task: task.name)
def test_every_kind_can_be_drawn_and_its_calls_fit_the_tools_that_are_offered(task: ProductTask):
    for seed in range(3):
        offer, turns = rounds(task, seed)
        tools = {tool.name: tool for tool in offer.tools}
        assert not turns[-1].answer.calls
        for turn in turns:
            for call in turn.answer.calls:
                assert not ArgumentSchema.of(tools[call.name].parameters).problems(call.arguments)
            assert stands(turn.holds, turn.answer.text)
            left = [name for name, _ in SLOT.findall(turn.answer.text) if name in {"r", "dir", "can"}]
            assert not left, turn.answer.text


@check_each("task", TASKS, ids=lambda task: task.name)
def test_what_an_answer_must_hold_is_told_by_the_results_and_not_by_the_user(task: ProductTask):
    _, turns = rounds(task, 7)
    for turn in turns:
        said = "\n".join(message.text for message in turn.messages if message.role == "user")
        assert all(value not in said for value in turn.holds)
        assert not turn.holds or results(turn.messages)


def test_the_same_seed_gives_the_same_conversation():
    for task in TASKS[::9]:
        assert rounds(task, 5) == rounds(task, 5)


def test_there_are_many_kinds_and_wordings():
    assert len(TASKS) > 150
    assert len({request for task in TASKS for part in task.parts for request in part.requests}) > 1800


def test_nothing_that_a_threshold_is_chosen_by_or_a_test_asks_is_trained_on():
    asked = {_bare(request) for task in TASKS for part in task.parts for request in part.requests}
    unseen = [request for each in READERS for request in each.requests]
    unseen += [request for each in ASKED for request in (*each.requests, *each.alone)]
    assert not asked & set(map(_bare, (*(each.said for each in closings(held_out=True)), *unseen)))


def _bare(text: str) -> str:
    return re.sub(r"[^\w ]", "", text.lower()).strip()


def test_the_same_words_never_ask_for_different_tools_where_the_same_tools_are_offered():
    rng = random.Random(2)
    lists = [offered(rng).names for _ in range(200)]
    first: dict[tuple[str, int], set[tuple[str, ...]]] = {}
    for task in TASKS:
        part = task.parts[0]
        tools = tuple(name for name, _ in part.steps[0].calls) if part.steps else ()
        for at in (at for at, names in enumerate(lists) if task.fits(names)):
            for request in part.requests:
                first.setdefault((request, at), set()).add(tools)
    assert not {request: found for (request, _), found in first.items() if len(found) > 1}


def test_kinds_are_held_out_with_all_that_share_their_wordings():
    trained, held = written(), written(held_out=True)
    assert 0.02 < len(held) / len(TASKS) < 0.15
    assert not {task.like for task in trained} & {task.like for task in held}
    requests = {request for task in held for request in task.parts[0].requests if "{" in request}
    assert len(requests & {request for task in trained for request in task.parts[0].requests}) < len(requests) / 20


def test_twelve_groups_of_a_hundred_ask_the_products_own_tools_and_none_is_held_out():
    scenes, rng = Scenes(families(), None, [], product=written()), random.Random(3)
    groups = [scenes.group(rng) for _ in range(300)]
    own = [group for group in groups if any(scene.what.startswith("product") for scene in group)]
    assert 20 < len(own) < 55
    for group in own:
        assert all(scene.turn.tools == group[0].turn.tools for scene in group)
        assert all(scene.what.startswith("product") for scene in group)
    assert any(scene.turn.messages[0].text == INSTRUCTIONS for group in own for scene in group)


def test_what_is_held_out_can_be_measured_though_no_tools_may_fit_it():
    scenes, rng = Scenes(families(), None, [], product=written(held_out=True)), random.Random(3)
    drawn_ = [scene.what for _ in range(400) for scene in scenes.group(rng)]
    assert {"product", "product_told"} <= set(drawn_)


def test_a_task_is_read_as_it_is_written_and_served_by_the_real_tool():
    (task,) = read(ONE)
    assert (task.name, task.uses, task.fails) == ("the_number", {"read_file"}, False)
    _, (first, last) = rounds(task, 1)
    (call,) = first.answer.calls
    assert call.name == "read_file"
    number = re.findall(r"number is (\d+)", results(last.messages))
    assert list(last.holds) == number
    assert last.answer.text == f"It is {number[0]}."


@check_each(
    "wrong",
    [
        "task a\ncal read_file",
        "task a\n> b\ncall read_file {",
        "task a\nlike b\n> c",
        "set a = city\n> b\n= c",
        "task a\n= b\nalso dice",
    ],
)
def test_what_is_no_task_is_told_by_its_first_line(wrong: str):
    with pytest.raises(ValueError, match=f"no task: {wrong.split(chr(10), maxsplit=1)[0]}"):
        read(wrong)


def test_two_tasks_cannot_have_one_name():
    with pytest.raises(ValueError, match="two tasks"):
        read(f"{ONE}\n{ONE}")


def test_a_task_that_never_goes_as_it_should_is_told():
    (task,) = read(ONE.replace("set f", "fails yes\nset f"))
    with pytest.raises(ValueError, match="never goes"):
        rounds(task, 1)


# ---- the tools are those of the product


def test_the_agent_tells_the_model_what_it_tells_in_use():
    assert INSTRUCTIONS == agent_options.INSTRUCTIONS


@check_each(
    ("name", "arguments"),
    [
        ("read_file", {"path": "nope.txt"}), ("read_file", {"path": "a.txt", "first_line": 99}), ("read_file", {"path": "../x"}), ("read_file", {}),
        ("list_files", {"path": "nope"}), ("list_files", {}), ("search_files", {"text": "b"}), ("edit_file", {"path": "a.txt", "old": "z", "new": "y"}),
        ("edit_file", {"path": "a.txt", "old": "b", "new": "y"}), ("write_file", {"path": "new/b.txt", "content": "c"}),
    ],
)  # fmt: skip
def test_a_file_tool_gives_what_the_agent_gets_from_it(name: str, arguments: JSONObject, tmp_path: Path):
    desk = Desk(random.Random(1), str(tmp_path), "Europe/Oslo", NOON)
    for folder in (desk.path, tmp_path):
        (folder / "a.txt").write_text("a\nb\nc\n")
    real = {each.tool.name: each for each in file_tools(tmp_path)}
    told = asyncio.run(run_tool(real[name], arguments, CallContext(), None))
    found = desk.run(name, arguments)
    assert (found.content, found.error) == (told.content, told.error)


def test_the_definitions_of_the_agents_tools_are_the_products_own(tmp_path: Path):
    shell = Shell(tmp_path, Approval(), sandbox=False)
    real = [each.tool for each in (*cut_short([*file_tools(tmp_path), shell]), FinalOutput())]
    ours = local_tools(shell.work, sandboxed=False)
    assert [(tool.name, tool.description, tool.parameters) for tool in real] == [
        (tool.name, tool.description, tool.parameters) for tool in ours.values()
    ]
    assert "in a sandbox, without network access" in local_tools("/srv/x", sandboxed=True)["shell"].description


@check_each(
    "command",
    [
        "echo one two", "ls", "python3 p.py", "cat a.txt nope.txt", "wc -l < a.txt", "rm nope.txt", "true", "false", "no_such_command", "printf abc; exit 3",
        "pwd | wc -l", "sort -r a.txt", "grep -rn b .", "python3 -c \"print(80 * 15 / 100 + 3)\"", 'python3 -c "print(3 * 4)"',
        'python3 -c "print(0.1 + 0.2)"', 'python3 -c "print((7 - 2) * 3)"', "TZ=UTC date +%Y | wc -c",
    ],
)  # fmt: skip
def test_the_shell_gives_what_the_real_one_gives(command: str, tmp_path: Path):
    desk = Desk(random.Random(1), str(tmp_path), "Europe/Oslo", NOON)
    for folder in (desk.path, tmp_path):
        (folder / "a.txt").write_text("a\nb\nc\n")
        (folder / "p.py").write_text('print("one")\nprint("two words")\n')
    real = Shell(tmp_path, Approval(lambda _: "once"), sandbox=False)
    told = asyncio.run(run_tool(real, {"command": command}, CallContext(), None))
    assert desk.run("shell", {"command": command}) == told


@check_each(
    ("command", "told"),
    [
        ("date +%H:%M", "12:07"), ("date +%F", "2026-01-05"), ("date +%A", "Monday"), ("TZ=Asia/Tokyo date +%H:%M", "21:07"),
        ("shuf -r -i 4-4 -n 2", "4\n4"),
    ],
)  # fmt: skip
def test_commands_that_hang_on_clock_or_chance_are_imitated(command: str, told: str):
    assert Desk(random.Random(1), "/w", "Europe/Oslo", NOON).run("shell", {"command": command}).content == f"{told}\n"


SUMS = (
    "1 + 2 * 3", "80 * 15 / 100 + 3", "0.1 + 0.2", "(3 + 4) * 2", "2 ^ 3 ^ 2", "-2 ^ 2", "7 % 3", "-7 % 3", "1 / 0", "0 / 0", "-1 / 0", "2 ^ 0.5",
    "4 * 5.48 + 8 * 0.85", "1e3 * 2", ".5 * 4", "9007199254740991 + 0", "100000 * 100000 * 100", "10 / 3", "1.50", "((2))", "- - 3", "5 - -9",
    "", "2 +", "(2", "2)", "two", "2 x 3", "* 2", "3 3",
    "2 ** 3", "3 × 4 ÷ 2", "5 − 2", "15% of 80", "1,234 + 1", "12,34", "2 + 2 =", "6 * 7 = ?", "six times 7", "2 Times 3", "2 plus 3 minus 1", "0x10", "10 x 4",
)  # fmt: skip


@needs_node
def test_the_calculator_gives_what_the_page_gives():
    program = f"""
    import {{ calculate }} from "{(STATIC / "calculator.js").as_uri()}";
    const told = (text) => {{ try {{ return String(calculate(text)); }} catch (error) {{ return "error: " + error.message; }} }};
    console.log(JSON.stringify({json.dumps(SUMS)}.map(told)));
    """
    assert [_calculated(text) for text in SUMS] == json.loads(_node(program))


def _calculated(text: str) -> str:
    return Desk(random.Random(1), "/w", "Europe/Oslo", NOON).run("calculator", {"expression": text}).content


def _node(program: str) -> str:
    ran = subprocess.run(["node", "--input-type=module", "-e", program], capture_output=True, check=True, text=True)
    return ran.stdout


@needs_node
def test_the_definitions_of_the_pages_tools_and_its_clock_are_the_pages_own():
    moments = [datetime(2026, month, 5, hour, 7, 3, tzinfo=UTC) for month in (1, 2, 6, 7) for hour in (0, 9, 23)]
    program = f"""
    import {{ DEMO_TOOLS }} from "{(STATIC / "demo_tools.js").as_uri()}";
    const told = (zone, at) => new Intl.DateTimeFormat("en-GB", {{ dateStyle: "full", timeStyle: "long", timeZone: zone }}).format(new Date(at));
    const clock = {json.dumps(list(ZONES))}.flatMap((zone) => {json.dumps([each.isoformat() for each in moments])}.map((at) => told(zone, at)));
    console.log(JSON.stringify({{ tools: DEMO_TOOLS.map(({{ name, description, parameters }}) => ({{ name, description, parameters }})), clock }}));
    """
    page = json.loads(_node(program))
    ours = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in (CLOCK, CALCULATOR, DICE)
    ]
    assert page["tools"] == ours
    told = [clock_text(moment, zone) for zone in ZONES for moment in moments]
    # What a zone is called, the last word, hangs on the version of the browser.
    assert [each.rpartition(" ")[0] for each in page["clock"]] == [each.rpartition(" ")[0] for each in told]
    assert sum(one == other for one, other in zip(page["clock"], told, strict=True)) > 0.8 * len(told)


def test_an_unknown_zone_and_a_sum_that_is_none_are_errors_as_the_page_tells_them():
    desk = Desk(random.Random(1), "/w", "Europe/Oslo", NOON)
    assert desk.run("clock", {"zone": "Mars"}) == desk.run("clock", {"zone": "Mars"})
    assert desk.run("clock", {"zone": "Mars"}).error
    assert desk.run("clock", {}).content == "Monday, 5 January 2026 at 13:07:03 CET"
    assert desk.run("calculator", {"expression": "two"}).content == (
        "error: cannot read `two`; use numbers with + - * / % ^ and brackets, such as (3 + 4) * 2"
    )
    assert calculate("6 * 7") == "42"


def test_dice_show_as_many_numbers_as_are_thrown_and_none_beyond_their_sides():
    shown = Desk(random.Random(1), "/w", "Europe/Oslo", NOON).run("dice", {"count": 100, "sides": 4}).content
    assert set(shown.split(", ")) == set("1234")
    assert len(shown.split(", ")) == 100


# ---- slots


def test_what_is_true_of_files_and_folders_is_what_lies_there(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.md").write_text("three")
    (tmp_path / "sub").mkdir()
    values = {"f": Place("a.txt"), "dir": Place(".")}
    text = "{f.size} {f.lines} {f.words} {f.last} {f.stem} {dir.largest} {dir.smallest_size} {dir.said} {dir.folders} {dir.sum}"
    assert filled(text, values, tmp_path) == "8 2 2 two a a.txt 5 a.txt and b.md sub 8 + 5"
    assert filled("{unknown} {print}", values, tmp_path) == "{unknown} {print}"


def test_results_of_one_round_are_compared_by_their_numbers():
    found = compared([("Oslo", "-3 °C, snow"), ("Rome", '{"temperature": 12}')], limit="10")
    assert found == {"high": "Rome", "low": "Oslo", "most": "12", "least": "-3", "over": "Yes"}


def test_a_number_is_said_in_digits_where_the_sentence_is_not_english():
    rng = random.Random(1)
    numbers = [drawn("int(2,9)", rng, {}) for _ in range(60)]
    said = {filled("Roll {n} dice.", {"n": each}, None, said=True) for each in numbers}
    assert {each for each in said if not re.search(r"\d", each)}
    assert all(re.search(r"\d", filled("Wirf {n} Würfel.", {"n": each}, None, said=True)) for each in numbers)
