"""A long agent run that survives a kill: start it, kill it (`kill -9`, a power cut), and start it again.

    python examples/durable_run.py
    python examples/durable_run.py            # after a kill, go on; after the end, show the places once more
    rm shipments.db                           # forget it and start anew

Each step is committed to the store before the next one begins. A call that has a result is not run again. Of a call that
was running when the process died, the model reads that its result is unknown. It may make the call again: one that is
`read_only` then runs, any other only if you allow it (`approve=`).
Without further settings, the small model that `make run` has downloaded answers. For another model, set TOOLSPEAK_MODEL
(such as ollama:qwen3:8b) and, if it is elsewhere, TOOLSPEAK_BASE_URL. TOOLSPEAK_STORE is another place for the store.
"""

import os
import time
from collections.abc import Iterable

import toolspeak as ts
from toolspeak.engine.rounds.transcript import Answer, Entry
from toolspeak.store import open_store

MODEL = os.environ.get("TOOLSPEAK_MODEL", "embedded:")
STORE = os.environ.get("TOOLSPEAK_STORE", "sqlite:///shipments.db")
SECONDS = float(os.environ.get("SECONDS_PER_CALL", "2"))
TASK = "Find out where each of these shipments is:"

PLACES = {"A1": "Oslo", "B2": "Rome", "C3": "Lima", "D4": "Cairo", "E5": "Paris"}


@ts.tool(read_only=True)
def find_shipment(number: str) -> str:
    """Find out where a shipment is

    Args:
        number: its number
    """
    print(f"looking up {number} ...", flush=True)
    time.sleep(SECONDS)  # a slow service
    place = PLACES.get(number, "unknown")
    print(f"{number} is in {place}", flush=True)
    return place


def found(entries: Iterable[Entry]) -> dict[str, str]:
    """The places that calls have returned, in all answers of the session. What the model says is no proof; results are."""
    answers = [entry for entry in entries if isinstance(entry, Answer)]
    records = [record for answer in answers for round_ in answer.rounds for record in round_.calls]
    results = [(record.call.arguments.get("number"), record.result) for record in records]
    return {str(number): result.content for number, result in results if result and not result.error}


with open_store(STORE) as store, ts.Agent(MODEL, [find_shipment], store=store, parallel=False) as agent:
    sessions = store.sessions(TASK)  # those in which this was said, the latest first
    if sessions:
        print(f"Going on with the session {sessions[0].id}", flush=True)
        session = agent.resume(sessions[0].id).session
    else:
        session = agent.run(f"{TASK} {', '.join(PLACES)}").session
    places = found(store.entries(session))
    for _ in range(3):  # a small model may forget some of them
        if left := [number for number in PLACES if number not in places]:
            agent.run(f"{TASK} {', '.join(left)}", session)
            places = found(store.entries(session))

for number, place in sorted(places.items()):
    print(f"{number}: {place}")
