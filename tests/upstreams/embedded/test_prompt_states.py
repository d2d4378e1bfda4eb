"""What the model has made of a tool prompt is saved, restored after a restart, and bounded; nothing else is saved."""

from __future__ import annotations

import asyncio
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases import check_each
from toolspeak.config import load
from toolspeak.core.events import TextDelta, UsageSeen
from toolspeak.core.types import Message, Options, Request, TextPart, Usage
from toolspeak.upstreams.embedded import prompt_states
from toolspeak.upstreams.embedded.model_process import StateCommand
from toolspeak.upstreams.embedded.prompt_states import PromptStates
from toolspeak.upstreams.embedded.upstream import EmbeddedUpstream, recipe_for
from toolspeak.upstreams.embedded.weights import obtain_merged

pytest.importorskip("xllamacpp", reason="the embedded model is not installed")


def asking(
    prompt: str = "Tools: f, g.",
    text: str = "Hello, which of these do you have for me today, please?",
    *,
    tools: tuple[str, ...] = ("f",),
) -> Request:
    messages = Message("system", (TextPart(prompt),)), Message("user", (TextPart(text),))
    return Request("", messages, options=Options(described_tools=tools, max_tokens=3, temperature=0.0))


class Process:
    """A model process that writes files of one byte, or fails."""

    def __init__(self, folder: Path, *, fails: str = "") -> None:
        self.states = PromptStates(folder, self.carry_out)
        self.folder = self.states.process_starts()
        self.commands: list[str] = []
        self.fails = fails

    async def carry_out(self, command: StateCommand) -> bool:
        self.commands.append(command.action)
        await asyncio.sleep(0)
        if command.action == "save":
            (self.folder / command.file).write_bytes(b"s")
        return command.action != self.fails

    async def answer(self, *requests: Request) -> None:
        for request in requests:
            async with self.states.of(request):
                await asyncio.sleep(0)
        await self.states.settle()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def test_a_tool_prompt_that_comes_again_is_saved_once_and_restored_by_the_next_process(tmp_path: Path):
    async def talk() -> None:
        first = Process(tmp_path)
        await first.answer(asking())
        assert first.commands == []
        await first.answer(asking(text="And now?"), asking(text="And then?"))
        assert first.commands == ["save"]
        (file,) = first.files()
        assert file.endswith(".state")
        second = Process(tmp_path)
        await second.answer(asking(), asking(text="And now?"), asking("Tools: h."))
        assert second.commands == ["restore"]
        await second.answer(asking("Tools: h."))
        assert second.commands == ["restore", "save"]
        assert len(second.files()) == 2
        await second.states.settle()

    asyncio.run(talk())


def test_a_request_that_comes_while_a_state_is_saved_waits_for_it(tmp_path: Path):
    async def talk() -> None:
        process = Process(tmp_path)
        for _ in range(2):
            async with process.states.of(asking()):
                pass
        saving = process.states._saving  # pyright: ignore[reportPrivateUsage]
        assert saving is not None
        async with process.states.of(asking(text="Next")):
            assert saving.done()

    asyncio.run(talk())


def test_a_busy_process_neither_restores_nor_saves(tmp_path: Path):
    async def talk() -> None:
        await Process(tmp_path).answer(asking(), asking())
        process = Process(tmp_path)
        async with process.states.of(asking("Tools: other.")):
            await process.answer(asking(), asking())
            assert process.commands == []
        await process.answer(asking("Tools: other."))
        assert process.commands == ["save"]

    asyncio.run(talk())


@check_each(
    "request_",
    [
        asking(tools=()),
        Request("", (Message("user", (TextPart("Tools: f. Hello"),)),), options=Options(described_tools=("f",))),
    ],
)
def test_only_system_messages_with_tools_are_saved(tmp_path: Path, request_: Request):
    async def talk() -> None:
        process = Process(tmp_path)
        await process.answer(request_)
        assert process.commands == []

    asyncio.run(talk())


@check_each("fails", ["save", "restore"])
def test_a_state_that_cannot_be_used_is_made_anew_and_fails_no_request(tmp_path: Path, fails: str):
    async def talk() -> None:
        await Process(tmp_path).answer(asking(), asking())
        process = Process(tmp_path, fails=fails)
        before = process.files()
        await process.answer(*[asking()] * 2, *[asking("Tools: h.")] * 2)
        assert process.files() == before if fails == "save" else len(process.files()) == 2

    asyncio.run(talk())


@check_each("damage", [lambda state: state[:-1], lambda state: b"x" + state[1:], lambda state: b""])
def test_a_damaged_state_never_reaches_the_engine_and_is_made_anew(tmp_path: Path, damage: Callable[[bytes], bytes]):
    async def talk() -> None:
        process = Process(tmp_path)
        await process.answer(asking(), asking())
        (file,) = process.folder.iterdir()
        file.write_bytes(damage(file.read_bytes()))
        second = Process(tmp_path)
        await second.answer(asking(), asking())
        assert second.commands == ["save"]
        assert file.read_bytes() == b"s"

    asyncio.run(talk())


def test_an_answer_that_breaks_off_saves_nothing(tmp_path: Path):
    async def talk() -> None:
        process = Process(tmp_path)
        with pytest.raises(RuntimeError):
            async with process.states.of(asking()):
                raise RuntimeError
        assert process.states._saving is None and not process.files()  # pyright: ignore[reportPrivateUsage]
        await process.answer(asking(), asking())
        assert process.commands == ["save"]

    asyncio.run(talk())


@check_each(("files", "size_", "left"), [(3, 100, 3), (100, 2, 2)])
def test_files_are_bounded_by_number_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, size_: int, left: int
):
    monkeypatch.setattr(prompt_states, "_MAX_FILES", files)
    monkeypatch.setattr(prompt_states, "_MAX_BYTES", size_)

    async def talk() -> None:
        process = Process(tmp_path)
        for number in range(6):
            await process.answer(*[asking(f"Tools: f{number}.")] * 2)
            for age, path in enumerate(process.folder.iterdir()):
                os.utime(path, (age, age))
        assert len(process.files()) == left

    asyncio.run(talk())


def test_an_announced_tool_prompt_is_saved_before_the_first_question_unless_the_process_is_busy(tmp_path: Path):
    async def talk() -> None:
        process = Process(tmp_path)
        async with process.states.of(asking("Tools: other.")):
            process.states.save_when_idle(asking())
            await process.states.settle()
            assert process.commands == []
        for _ in range(2):
            process.states.save_when_idle(asking())
            await process.states.settle()
        assert process.commands == ["save"]

    asyncio.run(talk())


@pytest.mark.requirement("H1")
def test_the_first_question_finds_its_tools_read_if_they_were_announced(weights: Path, tmp_path: Path):
    prompt = "Tools: " + " ".join(f"tool_{number}(text: string)" for number in range(12))

    async def talk() -> Usage:
        upstream = EmbeddedUpstream(recipe_for("", states=str(tmp_path)), lambda: weights)
        try:
            await upstream.read_ahead(asking(prompt, "?"))
            events = [event async for batch in upstream.open(asking(prompt)) for event in batch]
        finally:
            await upstream.close()
        return next(event.usage for event in events if isinstance(event, UsageSeen))

    usage = asyncio.run(talk())
    assert usage.cached_tokens > usage.input_tokens / 2


@pytest.mark.requirement("H1")
def test_merged_weights_continue_with_the_states_of_those_they_were_made_from(weights: Path, tmp_path: Path):
    prompt = "Tools: " + " ".join(f"tool_{number}(text: string)" for number in range(12))
    merged = obtain_merged(weights.parent, load().environment())

    async def talk() -> Usage:
        before = EmbeddedUpstream(recipe_for("", states=str(tmp_path)), lambda: weights)
        await before.read_ahead(asking(prompt, "?"))
        states = before._states  # pyright: ignore[reportPrivateUsage]
        assert states is not None
        await states.settle()
        await before.close()
        after = EmbeddedUpstream(recipe_for("", states=str(tmp_path)), lambda: merged)
        try:
            events = [event async for batch in after.open(asking(prompt)) for event in batch]
        finally:
            await after.close()
        return next(event.usage for event in events if isinstance(event, UsageSeen))

    usage = asyncio.run(talk())
    assert usage.cached_tokens > usage.input_tokens / 2
    assert len([*tmp_path.glob("*/*.state")]) == 1


def test_nothing_is_kept_of_announced_tools_without_a_folder(weights: Path):
    async def talk() -> None:
        upstream = EmbeddedUpstream(recipe_for(""), lambda: weights)
        try:
            await upstream.read_ahead(asking())
        finally:
            await upstream.close()

    asyncio.run(talk())


def test_other_weights_have_other_states(tmp_path: Path):
    weights = tmp_path / "model.gguf"
    states = PromptStates(tmp_path / "states", Process(tmp_path).carry_out)
    folders: list[Path] = []
    for content in (b"a", b"ab"):
        weights.write_bytes(content)
        folders.append(states.process_starts(str(weights), ""))
    assert folders[0] != folders[1]
    weights.unlink()  # merged weights stay when those that they were made from are deleted
    assert states.process_starts(str(weights), "") not in folders
    assert stat.S_IMODE(folders[0].stat().st_mode) == 0o700


@pytest.mark.requirement("H1", "R-T3")
def test_the_model_reads_a_tool_prompt_once_also_over_a_restart_and_says_the_same(weights: Path, tmp_path: Path):
    prompt = "Tools: " + " ".join(f"tool_{number}(text: string)" for number in range(12))

    async def talk() -> tuple[list[str], list[int], list[int]]:
        texts, read, kept = list[str](), list[int](), list[int]()
        for _ in range(2):
            upstream = EmbeddedUpstream(recipe_for("", states=str(tmp_path)), lambda: weights)
            try:
                answers = [[e async for batch in upstream.open(asking(prompt)) for e in batch] for _ in range(2)]
                events = answers[0]
                states = upstream._states  # pyright: ignore[reportPrivateUsage]
                assert states is not None
                await states.settle()
            finally:
                await upstream.close()
            usage = next((event.usage for event in events if isinstance(event, UsageSeen)), Usage())
            texts.append("".join(event.text for event in events if isinstance(event, TextDelta)))
            read.append(usage.input_tokens - usage.cached_tokens)
            kept.append(usage.cached_tokens)
        return texts, read, kept

    texts, read, kept = asyncio.run(talk())
    assert texts[0] == texts[1] != ""
    assert read[0] > 100 > 40 > read[1]
    (file,) = tmp_path.glob("*/*.state")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    _, _, saved = struct.unpack("<III", file.read_bytes()[:12])
    assert kept[1] <= saved < kept[1] + 8  # the tokens of the system message, and none of what the user says
