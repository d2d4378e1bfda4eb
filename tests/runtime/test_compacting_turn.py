"""A turn that keeps within the window: what it sends, repeats, remembers and reports."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.agent_helpers import run
from tests.cases import check_each
from toolspeak import AsyncClient, Scripted, UpstreamError
from toolspeak.core.events import Event, Failure, Finish, TextDelta, UsageSeen
from toolspeak.core.types import JSONObject, Message, Request, Usage
from toolspeak.engine.context.complaints import ContextComplaint
from toolspeak.engine.context.sizes import request_tokens
from toolspeak.engine.planning.capabilities import Capabilities
from toolspeak.engine.turn.trace import TracedReply
from toolspeak.key_value import MemoryState
from toolspeak.runtime.compacting_turn import ContextMemory
from toolspeak.runtime.learning import UseStore
from toolspeak.runtime.probe_cache import ProbeTarget
from toolspeak.upstreams.scripted import Script

pytestmark = pytest.mark.requirement("F11")

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
TOO_LONG = Failure("maximum context length is 2000 tokens; your messages resulted in 3000 tokens", status=400, code="x")
NO_NUMBERS = Failure("Your input exceeds the context window of this model.", status=400)


def said(text: str) -> list[Event]:
    """An answer of an upstream that counts no tokens."""
    return [TextDelta(text), UsageSeen(Usage()), Finish("stop")]


FOUND = said("Found.")
NOTHING = said("Nothing yet.")


def history(rounds: int, chars: int = 2000, task: str = "Find it.") -> list[JSONObject]:
    messages: list[JSONObject] = [{"role": "user", "content": task}]
    for number in range(rounds):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number} " + "word " * (chars // 5)},
        ]
    return messages


def client(upstream: Scripted, window: int = 2000, **settings: Any) -> AsyncClient:
    known = Capabilities()
    known.override_model("*", {"context_window": window, "capability": "openai"})
    options: dict[str, Any] = {"compact": "summary", **settings}
    return AsyncClient(upstream, known=known, **options)


def replies(upstream: Scripted, *histories: list[JSONObject], window: int = 2000, **settings: Any) -> list[TracedReply]:
    async def main() -> list[TracedReply]:
        one = client(upstream, window, **settings)
        return [await one.chat(messages, [LOOK]) for messages in histories]

    return run(main())


def codes(reply: TracedReply) -> list[str]:
    return [note.code for note in reply.notes]


def is_summary(request: Request) -> bool:
    return request.messages[-1].text.startswith("Summarise the conversation")


# ---- before it is sent


def test_what_fits_is_sent_as_it_is():
    upstream = Scripted(FOUND)
    (reply,) = replies(upstream, history(2))
    assert upstream.requests[0].messages[2].results[0].content.endswith("word ")
    assert (reply.text, reply.requests, reply.warnings, codes(reply)) == ("Found.", 1, (), [])


@check_each("compact", ["", "off"])
def test_without_the_setting_nothing_is_changed(compact: str):
    upstream = Scripted(FOUND)
    replies(upstream, history(40), compact=compact)
    assert len(upstream.requests[0].messages) == 81


def test_old_results_are_shortened_before_anything_is_summarised():
    upstream = Scripted(FOUND)
    (reply,) = replies(upstream, history(5))
    assert codes(reply) == ["results_shortened"]
    assert "results shortened by" in reply.warnings[0]
    sent = upstream.requests[0].messages
    assert len(sent) == 11
    assert "characters left out" in sent[2].results[0].content
    assert "characters left out" not in sent[-1].results[0].content


def test_old_rounds_are_summarised_by_the_model_and_that_counts():
    summary: list[Event] = [TextDelta("Steps 0 to 37 found nothing."), UsageSeen(Usage(900, 30)), Finish("stop")]
    found: list[Event] = [TextDelta("Found."), UsageSeen(Usage(800, 10)), Finish("stop")]

    def play(request: Request) -> list[Event]:
        return summary if is_summary(request) else found

    upstream = Scripted(play, again=True)
    (reply,) = replies(upstream, history(40))
    *asked, last = upstream.requests
    assert asked
    assert all(map(is_summary, asked))
    assert all(not request.tools and request.options.max_tokens for request in asked)
    assert all(request_tokens(request) < 1500 for request in upstream.requests)
    assert all("\nuser: Find it.\n" in request.messages[0].text for request in asked)
    assert last.messages[0].text == "Find it."
    assert last.messages[1].text.endswith("Steps 0 to 37 found nothing.")
    assert "rounds_summarised" in codes(reply)
    assert reply.requests == len(upstream.requests)
    assert reply.usage == Usage(900 * len(asked) + 800, 30 * len(asked) + 10)
    assert [attempt.phase for attempt in reply.trace().attempts] == ["summary"] * len(asked) + ["native"]


def test_the_task_in_a_request_for_a_summary_is_shortened():
    upstream = Scripted(NOTHING, again=True)
    replies(upstream, history(40, task="Find " + "this and " * 400))
    asked = list(filter(is_summary, upstream.requests))
    assert asked
    for request in asked:
        assert "user: Find this and" in request.messages[0].text
        assert "characters left out" in request.messages[0].text.partition("Find this")[2][:1500]
        assert request_tokens(request) < 1500


def test_a_summary_is_not_written_twice_for_a_conversation_that_grows():
    def play(request: Request) -> Script:
        return NOTHING if is_summary(request) else FOUND

    upstream = Scripted(play, again=True)
    replies(upstream, *(history(rounds) for rounds in range(30, 36)))
    first = next(at for at, request in enumerate(upstream.requests) if not is_summary(request))
    later = upstream.requests[first + 1 :]
    assert len(later) <= 5 + 2  # five answers, and at most two more summaries


def test_tenants_share_no_summary():
    upstream = Scripted(lambda request: NOTHING if is_summary(request) else FOUND, again=True)

    async def main() -> list[int]:
        counts: list[int] = []
        one = client(upstream)
        for tenant in ("a", "a", "b"):
            one._tenant = tenant  # pyright: ignore[reportPrivateUsage] - as the proxy does for its callers
            await one.chat(history(40), [LOOK])
            counts.append(sum(map(is_summary, upstream.requests)))
        return counts

    first, second, third = run(main())
    assert first == second
    assert third == 2 * first


@check_each("answer", [[Failure("overloaded", status=503)], "", "<think>Well"], ids=["failed", "empty", "thought"])
def test_if_the_model_writes_no_summary_an_excerpt_stands_in(answer: Script):
    def play(request: Request) -> Script:
        return answer if is_summary(request) else FOUND

    upstream = Scripted(play, again=True)
    (reply,) = replies(upstream, history(40))
    assert reply.text == "Found."
    assert "Step 0." in upstream.requests[-1].messages[1].text or answer == "<think>Well"
    assert sum(map(is_summary, upstream.requests)) <= 8


def test_the_thoughts_of_a_reasoning_model_are_no_part_of_its_summary():
    upstream = Scripted(
        lambda request: said("<think>Hmm.</think>Nothing yet.") if is_summary(request) else FOUND, again=True
    )
    replies(upstream, history(40))
    assert upstream.requests[-1].messages[1].text.endswith("]\n\nNothing yet.")


def test_a_window_that_the_request_sets_itself_counts():
    upstream = Scripted(FOUND, FOUND)

    async def main() -> list[TracedReply]:
        one = client(upstream, 100_000)
        sized = {"options": {"num_ctx": 2000}}
        return [await one.chat(history(5), [LOOK]), await one.chat(history(5), [LOOK], extra_body=sized)]

    plain, sized = run(main())
    assert codes(plain) == []
    assert codes(sized) == ["results_shortened"]


# ---- after a complaint


def test_a_request_that_is_too_long_is_compacted_and_repeated():
    upstream = Scripted([TOO_LONG], lambda request: NOTHING if is_summary(request) else FOUND, again=True)
    first, second = replies(upstream, history(9, 600), history(9, 600), window=0)
    assert first.text == "Found."
    assert codes(first)[0] == "context_exceeded"
    assert "3000 tokens did not fit the context window (2000 tokens)" in first.notes[0].detail
    assert all(request_tokens(later) < request_tokens(upstream.requests[0]) / 2 for later in upstream.requests[1:])
    assert first.requests > 1
    # The next turn knows.
    assert "context_exceeded" not in codes(second)
    assert codes(second)


def test_what_a_complaint_said_is_remembered_for_the_model():
    known = Capabilities()
    known.override_model("*", {"capability": "openai"})
    upstream = Scripted([TOO_LONG], provider="p", base_url="http://127.0.0.1:1/v1")

    state = MemoryState()

    async def main() -> None:
        async with AsyncClient(upstream, known=known, probe="off", state=state) as client:
            with pytest.raises(UpstreamError):
                await client.chat(history(9), [LOOK])

    run(main())
    use = UseStore(state, time.time).get(ProbeTarget("p", "p", "http://127.0.0.1:1/v1"))
    assert use.tenants[""].refused == {"context_window": 2000}


def test_an_upstream_that_never_accepts_is_asked_four_times_at_most():
    upstream = Scripted([NO_NUMBERS], again=True)

    async def main() -> UpstreamError:
        with pytest.raises(UpstreamError) as caught:
            await client(upstream, 0, compact="results").chat(history(9), [LOOK])
        return caught.value

    error = run(main())
    assert len(upstream.requests) <= 4
    assert "does not fit the context window" in str(error)
    sizes = [request_tokens(request) for request in upstream.requests]
    assert sizes == sorted(sizes, reverse=True)


def test_a_client_that_asks_for_too_long_an_answer_gets_the_upstreams_error():
    message = "maximum context length is 2000 tokens and your request has 100 input tokens"
    upstream = Scripted([Failure(message, status=400)])

    async def main() -> UpstreamError:
        with pytest.raises(UpstreamError) as caught:
            await client(upstream, 0).chat(history(1), [LOOK], max_tokens=1950)
        return caught.value

    assert str(run(main())) == message
    assert len(upstream.requests) == 1


def test_a_complaint_that_mentions_tools_is_not_taken_for_a_refusal_of_tools():
    message = "maximum context length is 2000 tokens; your messages resulted in 3000 tokens (99 in the tools)"
    upstream = Scripted(
        [Failure(message, status=400)], lambda request: NOTHING if is_summary(request) else FOUND, again=True
    )
    (reply,) = replies(upstream, history(9, 600), window=0)
    assert reply.text == "Found."
    assert upstream.requests[-1].tools
    assert "native_unsupported" not in codes(reply)


def test_after_the_first_word_nothing_is_repeated():
    upstream = Scripted([TextDelta("I see"), TOO_LONG], FOUND)

    async def main() -> None:
        with pytest.raises(UpstreamError):
            await client(upstream, 0).chat(history(9), [LOOK])

    run(main())
    assert len(upstream.requests) == 1


def test_a_complaint_about_a_request_for_a_summary_makes_the_parts_smaller():
    def play(request: Request) -> Script:
        if not is_summary(request):
            return FOUND
        size = request_tokens(request)
        complaint = Failure(f"maximum context length is 1200 tokens; your messages resulted in {size + 300} tokens")
        return [complaint] if size > 900 else NOTHING

    upstream = Scripted(play, again=True)
    (reply,) = replies(upstream, history(40), window=3000)
    assert reply.text == "Found."
    assert upstream.requests[-1].messages[1].text.endswith("Nothing yet.")


def cut_at_once(output: int) -> list[Event]:
    return [UsageSeen(Usage(1990, output)), Finish("length")]


def test_an_answer_without_room_is_asked_for_again():
    upstream = Scripted(cut_at_once(0), FOUND)
    (reply,) = replies(upstream, history(9), window=0)
    assert reply.text == "Found."
    assert "context_exceeded" in codes(reply)


@check_each(
    ("events", "options"),
    [
        (cut_at_once(100), {}),
        (cut_at_once(0), {"max_tokens": 1}),
        ([UsageSeen(Usage(0, 0)), Finish("length")], {}),
        ([TextDelta("Well"), *cut_at_once(1)], {}),
    ],
    ids=["it thought", "it was asked for little", "nothing was counted", "it began"],
)
def test_an_answer_cut_for_another_reason_is_not(events: list[Event], options: dict[str, Any]):
    upstream = Scripted(events, FOUND)

    async def main() -> None:
        await client(upstream, 0).chat(history(9), [LOOK], **options)

    run(main())
    assert len(upstream.requests) == 1


def test_what_can_never_fit_is_not_even_sent():
    upstream = Scripted(FOUND)

    async def main() -> UpstreamError:
        with pytest.raises(UpstreamError) as caught:
            await client(upstream).chat(history(3, task="word " * 8000), [LOOK])
        return caught.value

    error = run(main())
    assert not any(not is_summary(request) for request in upstream.requests)
    assert error.code == "context_length_exceeded"
    assert "does not fit the context window of 2000 tokens, even after compaction; shorten the task" in str(error)


# ---- as a turn


def test_a_turn_that_is_cancelled_during_a_summary_leaves_nothing_open():
    begun = asyncio.Event()

    async def endless() -> Any:
        yield [TextDelta("So")]
        begun.set()
        await asyncio.Event().wait()

    upstream = Scripted(lambda request: endless(), again=True)

    async def main() -> None:
        task = asyncio.create_task(client(upstream).chat(history(40), [LOOK]))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert upstream.cancelled == [0]


def test_long_conversations_are_compacted_off_the_event_loop():
    upstream = Scripted(lambda request: NOTHING if is_summary(request) else FOUND, again=True)
    (reply,) = replies(upstream, history(30, 8000))
    assert reply.text == "Found."
    assert all(request_tokens(request) < 1500 for request in upstream.requests)


def test_media_that_are_left_out_are_counted():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    before: list[JSONObject] = [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, image]},
        {"role": "assistant", "content": "A cat."},
    ]
    upstream = Scripted(FOUND)
    (reply,) = replies(upstream, [*before, *history(3, 1200)])
    assert "1 media left out" in reply.notes[0].detail


# ---- memory


def test_a_ratio_rises_at_once_and_falls_gradually():
    memory = ContextMemory()
    memory.calibrate(1000, 100)
    assert memory.ratio == 0.7
    memory.calibrate(1000, 1500)
    assert memory.ratio == 1.5
    memory.calibrate(1000, 700)
    assert memory.ratio == pytest.approx(1.3)
    memory.calibrate(10, 700)
    memory.calibrate(1000, 0)
    assert memory.ratio == pytest.approx(1.3)
    memory.calibrate(1000, 1_000_000)
    assert memory.ratio == 4.0


def test_a_window_that_has_grown_is_forgotten():
    memory = ContextMemory()
    memory.learn(ContextComplaint(2000, 3000), 2500)
    assert (memory.window, memory.ratio) == (2000, 1.2)
    memory.calibrate(2500, 2600)
    assert memory.window == 0


@check_each(
    ("window", "used", "estimated", "assumed"),
    [(128_000, 0, 5000, 3000), (8192, 0, 5000, 8192), (8192, 9000, 1000, 8192), (0, 0, 5000, 3000)],
)
def test_a_stated_window_that_the_request_does_not_reach_is_not_believed(
    window: int, used: int, estimated: int, assumed: int
):
    memory = ContextMemory()
    memory.learn(ContextComplaint(window, used), estimated)
    assert memory.window == assumed


def test_summaries_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.runtime.compacting_turn._MAX_SUMMARIES", 2)
    memory = ContextMemory()
    for key in (b"1", b"2", b"3"):
        memory.store_summary("t", key, "text")
    assert [memory.summary("t", key) for key in (b"1", b"2", b"3")] == ["", "text", "text"]


def test_a_message_without_a_task_is_no_problem():
    upstream = Scripted(FOUND)
    only = [Message("system", ()), *(Message("assistant", ()) for _ in range(3))]

    async def main() -> TracedReply:
        return await client(upstream, 8).chat(only, [LOOK])

    with pytest.raises(UpstreamError, match="does not fit"):
        run(main())
