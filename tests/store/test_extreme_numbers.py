"""Numbers that nobody means, from an upstream or in a database already: no text is lost, and what is kept is listed."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from tests.agent_helpers import agent, calling, look, model, run
from tests.store.test_sessions import begun
from toolspeak import ToolCall
from toolspeak.cli import main
from toolspeak.core.events import Finish, TextDelta, UsageSeen
from toolspeak.core.types import MAX_TOKEN_COUNT, Usage
from toolspeak.engine.rounds.transcript import Answer
from toolspeak.errors import StoreError
from toolspeak.store.schema import entries, sessions
from toolspeak.store.sessions import Store
from toolspeak.store.transfer import export


@pytest.mark.parametrize("tokens", [2**63, 10**30, MAX_TOKEN_COUNT])
def test_however_many_tokens_an_upstream_claims_the_answer_is_kept(store: Store, tokens: int):
    claimed = UsageSeen(Usage(tokens, tokens))
    upstream = model(
        [*calling(ToolCall("look", {"at": "home"})), claimed], [TextDelta("Not there."), claimed, Finish("stop")]
    )
    result = run(agent(upstream, look, store=store).run("Find it."))
    assert (result.content, result.status) == ("Not there.", "complete")
    assert result.usage == Usage(MAX_TOKEN_COUNT, MAX_TOKEN_COUNT)
    answer = store.entries(result.session)[-1]
    assert isinstance(answer, Answer)
    assert answer.content == "Not there."
    assert store.info(result.session).input_tokens == MAX_TOKEN_COUNT


def test_what_the_database_does_not_take_is_a_typed_error_that_says_so(store: Store):
    session = begun(store, "one")
    for column, value in (("input_tokens", 2**63), ("status", "a\ud800")):
        change = sa.update(entries).where(entries.c.session == session).values({column: value})
        with pytest.raises(StoreError, match="cannot store this value") as caught:
            store.database.write(lambda connection, change=change: connection.execute(change))
        assert "is not responding" not in str(caught.value)


@pytest.mark.parametrize("moment", [float("inf"), float("-inf"), 1e300, -1e300, -1.0])
def test_times_that_are_none_do_not_break_what_is_listed_or_exported(store: Store, url: str, moment: float):
    session = begun(store, "one")
    absurd = sa.update(sessions).values(created=moment, updated=moment)
    store.database.write(lambda connection: connection.execute(absurd))
    assert [(info.id, info.created, info.updated) for info in store.sessions()] == [(session, 0.0, 0.0)]
    assert '"created":0.0,"updated":0.0' in list(export(store))[1]
    told = CliRunner().invoke(main, ["sessions", "list"], env={"TOOLSPEAK_STORE": url})
    assert told.exit_code == 0, told.output
    assert "(time unknown)" in told.output


def test_sums_of_tokens_that_no_integer_holds_do_not_break_the_list(store: Store):
    session = begun(store, "one", "two", "three")
    store.database.write(lambda connection: connection.execute(sa.update(entries).values(input_tokens=2**62)))
    assert store.info(session).input_tokens == 4 * 2**62
