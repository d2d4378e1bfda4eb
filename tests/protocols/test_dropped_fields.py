"""What a request loses on its way to another protocol is told, in the same words by every codec."""

from __future__ import annotations

from tests.cases import check_each
from toolspeak.core.types import Media, Message, Note, Opaque, Options, Request, TextPart, Tool, ToolChoice, ToolResult
from toolspeak.protocols import anthropic, gemini, ollama, openai_chat, openai_responses
from toolspeak.protocols.shared.dropped_fields import dropped_field_notes, foreign_notes

MODULES = {
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
}
HELLO = Message("user", (TextPart("hi"),))


def _codes(name: str, request: Request) -> list[str]:
    return [note.code for note in MODULES[name].request_notes(request)]


@check_each("name", MODULES)
@check_each("protocol", ["", "own"])
def test_a_plain_request_loses_nothing(name: str, protocol: str):
    tools = (Tool("f"), Tool("run", kind="custom"))
    request = Request("m", (HELLO,), tools, options=Options(max_tokens=5), protocol=name if protocol else "")
    assert _codes(name, request) == []


@check_each("name", MODULES)
def test_the_words_of_another_protocol_are_told(name: str):
    message = Message("user", (TextPart("hi"), Opaque("sealed", {"a": 1})))
    options = Options(max_tokens=5, extra={"top_secret": 1, "user": "u", "api_key": "k"})
    request = Request("m", (message,), (Tool("f"), Tool("s", kind="search")), options=options, protocol="other")
    notes = {note.code: note.detail for note in MODULES[name].request_notes(request)}
    assert notes.keys() == {"tool_dropped", "opaque_dropped", "fields_dropped"}
    assert notes["fields_dropped"] == "these fields exist only in `other`: `top_secret`"
    assert "`sealed`" in notes["opaque_dropped"]


def test_a_part_of_a_result_counts_as_well():
    message = Message("tool", results=(ToolResult("c", "", parts=(Opaque("sealed"),)),))
    request = Request("m", (message,), protocol="other")
    assert [note.code for note in foreign_notes(request, "gemini")] == ["opaque_dropped"]
    assert foreign_notes(request, "other") == []


def test_only_tools_of_another_protocols_own_are_dropped():
    request = Request("m", (), (Tool("f"), Tool("run", kind="custom"), Tool("s", kind="search")), protocol="other")
    assert foreign_notes(request, "gemini") == [
        Note("tool_dropped", "`s`: the upstream's protocol does not support tools of kind `search`")
    ]


def test_of_many_fields_only_some_are_named():
    request = Request("m", (), options=Options(extra={f"f{n}": n for n in range(9)}), protocol="other")
    (note,) = dropped_field_notes(request)
    assert note.detail.endswith("`f7`, ...")


@check_each("name", ["openai_chat", "openai_responses"])
@check_each("protocol", ["", "other"])
def test_a_choice_without_a_tool_that_can_be_sent_is_told(name: str, protocol: str):
    tools = (Tool("s", kind="search"),) if protocol else ()
    request = Request("m", (HELLO,), tools, ToolChoice("required"), protocol=protocol)
    assert _codes(name, request)[-1] == "choice_not_sent"


def test_chat_completions_sends_a_choice_with_a_tool_of_its_own():
    request = Request("m", (HELLO,), (Tool("s", kind="search"),), ToolChoice("required"), protocol="openai_chat")
    assert _codes("openai_chat", request) == []


@check_each(
    ("message", "options", "codes"),
    [
        (Message("user", (Media("audio", "data:audio/wav;base64,AAAA"),)), Options(), ["media_dropped"]),
        (Message("user", (Media("image", "https://x/y.png"),)), Options(), []),
        (Message("assistant", (Media("image", "https://x/y.png"),)), Options(), ["media_dropped"]),
        (Message("assistant", reasoning="hm"), Options(), ["reasoning_dropped"]),
        (HELLO, Options(stop=("x",), seed=1, n=2), ["stop_dropped", "seed_dropped", "n_dropped"]),
    ],
)
def test_the_responses_api_tells_what_it_has_no_word_for(message: Message, options: Options, codes: list[str]):
    assert _codes("openai_responses", Request("m", (message,), options=options, protocol="other")) == codes


def test_reasoning_in_an_item_of_its_own_is_not_lost():
    item = Opaque("item:reasoning", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]})
    message = Message("assistant", (item, Media("image", "https://x/y.png")), reasoning="hm")
    assert _codes("openai_responses", Request("m", (message,), protocol="openai_responses")) == []


def test_how_long_a_model_is_kept_in_memory_is_nothing_to_others_and_told():
    request = Request("m", (HELLO,), options=Options(max_tokens=5, extra={"keep_alive": "5m"}), protocol="ollama")
    for name in MODULES.keys() - {"ollama"}:
        (note,) = MODULES[name].request_notes(request)
        assert (note.code, note.detail) == ("fields_dropped", "these fields exist only in `ollama`: `keep_alive`")
