"""Long results: the model gets their head and their tail, and can read the rest in the same session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.agent_helpers import agent, calling, content, look, model, run
from tests.cases import check_each
from toolspeak import ToolCall, UsageError
from toolspeak.core.types import JSONObject
from toolspeak.tools.base import CallContext, ToolOutput
from toolspeak.tools.functions import tool
from toolspeak.tools.wrappers import ReadMore, Remainders, Truncated

pytestmark = pytest.mark.requirement("F5")

LONG = "".join(f"{number:>9}\n" for number in range(5000))  # 50,000 characters
PAGE = ToolCall("page", {})


def page() -> str:
    """Show a page."""
    return LONG


def read_more(offset: int, name: str = "call_1") -> ToolCall:
    return ToolCall("read_more", {"id": name, "offset": offset})


def test_of_a_long_result_the_model_gets_head_and_tail_and_may_ask_for_the_rest():
    async def main() -> None:
        upstream = model(calling(ToolCall("page", {}, "call_1")), calling(read_more(2730)), "Done.")
        result = await agent(upstream, page).run("Read it.")
        assert result.content == "Done."
        (first,), (second,) = (made.calls for made in result.rounds)
        shown = content(first)
        assert len(shown) < 4300
        assert shown.startswith(LONG[:2730])
        assert shown.endswith(LONG[-1366:])
        assert 'read_more with id "call_1" and offset 2730' in shown
        assert content(second).startswith(LONG[2730 : 2730 + 4096])
        assert [each.name for each in upstream.requests[0].tools] == ["page", "read_more"]

    run(main())


def test_a_result_that_fits_comes_whole():
    async def main() -> None:
        result = await agent(model(calling(ToolCall("look", {"at": "x" * 4000})), "Done."), look).run("Look.")
        assert content(result.rounds[0].calls[0]) == f"nothing at {'x' * 4000}"

    run(main())


@check_each(("limit", "length"), [(None, len(LONG)), (100_000, len(LONG)), (60, 200)])
def test_how_much_is_shown_can_be_set_and_all_of_it(limit: int | None, length: int):
    async def main() -> None:
        upstream = model(calling(PAGE), "Done.")
        result = await agent(upstream, page, max_output=limit).run("Read it.")
        assert len(content(result.rounds[0].calls[0])) <= length
        assert (content(result.rounds[0].calls[0]) == LONG) is (length == len(LONG))
        assert len(upstream.requests[0].tools) == (1 if limit is None else 2)

    run(main())


@check_each("limit", [0, -1, 1.5, True])
def test_a_limit_is_a_number_above_zero(limit: Any):
    with pytest.raises(UsageError, match="max_output"):
        agent(model(), page, max_output=limit)


def test_an_agent_without_tools_gets_none():
    async def main() -> None:
        upstream = model("Hi.")
        await agent(upstream).run("Hi.")
        assert upstream.requests[0].tools == ()

    run(main())


@pytest.mark.parametrize("kept", [False, True], ids=["memory", "database"])
def test_what_was_left_out_in_one_session_cannot_be_read_in_another(kept: bool, tmp_path: Path):
    if kept:
        pytest.importorskip("sqlalchemy")

    async def main() -> None:
        upstream = model(
            calling(ToolCall("page", {}, "call_1")),
            "One.",
            calling(read_more(0)),
            "Two.",
            calling(read_more(0)),
            "Three.",
        )
        async with agent(upstream, page, store=f"sqlite:///{tmp_path}/work.db" if kept else None) as one:
            first = await one.run("Read it.")
            other = await one.run("Read it.")
            assert "no output kept" in content(other.rounds[0].calls[0])
            again = await one.run("Go on.", first.session)
            assert content(again.rounds[0].calls[0]).startswith(LONG[:4096])

    run(main())


def test_of_many_sessions_only_what_was_stored_can_be_read_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolspeak.agent.calls._MAX_SESSIONS", 1)

    async def main() -> None:
        upstream = model(calling(ToolCall("page", {}, "call_1")), "One.", "Two.", calling(read_more(0)), "Three.")
        one = agent(upstream, page)
        first = await one.run("Read it.")
        await one.run("Hi.")
        again = await one.run("Go on.", first.session)
        assert "characters were not stored; run the tool again" in content(again.rounds[0].calls[0])

    run(main())


def test_who_cuts_results_himself_is_left_alone():
    async def main() -> None:
        kept = Remainders()
        upstream = model(calling(ToolCall("page", {}, "call_1"), read_more(0)), "Done.")
        own = [Truncated(tool(page), kept, 6000), ReadMore(kept, 6000)]
        result = await agent(upstream, *own, parallel=False).run("Read it.")
        assert [len(content(record)) > 6000 for record in result.rounds[0].calls] == [True, True]
        assert len(upstream.requests[0].tools) == 2

    run(main())


def test_beside_somebodys_own_read_more_results_are_cut_without_a_way_to_the_rest():
    def read_more() -> str:
        """Read."""
        return LONG

    async def main() -> None:
        upstream = model(calling(PAGE, ToolCall("read_more", {})), "Done.")
        result = await agent(upstream, page, read_more).run("Read it.")
        for record in result.rounds[0].calls:
            assert "characters left out ...]" in re.sub(r"\d+ ", "", content(record))

    run(main())


def test_an_error_is_not_endless_either_and_a_wrong_output_is_still_told():
    class Odd:
        tool = tool(look).tool

        async def run(self, arguments: JSONObject, context: CallContext) -> ToolOutput:
            if arguments["at"] == "text":
                return LONG  # pyright: ignore[reportReturnType]
            raise UsageError(LONG)

    async def main() -> None:
        upstream = model(calling(ToolCall("look", {"at": "text"}), ToolCall("look", {"at": "error"})), "Done.")
        result = await agent(upstream, Odd()).run("Look.")
        wrong, error = map(content, result.rounds[0].calls)
        assert wrong == "the tool gave a `str` instead of its output"
        assert len(error) == 4096

    run(main())
