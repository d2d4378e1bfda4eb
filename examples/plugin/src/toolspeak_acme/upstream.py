"""The provider `acme-demo`: a model that needs no server. A real one would send the messages somewhere."""

from toolspeak.plugin_api import FunctionUpstream, JSONObject


def connect(model: str, base_url: str, api_key: str) -> FunctionUpstream:
    """Create the upstream of a model. The arguments are what the user and the configuration say about it."""
    upstream = FunctionUpstream(answer)
    upstream.name = model
    return upstream


def answer(messages: list[JSONObject]) -> str:
    """Ask for the weather once, then say what the tool returned."""
    last = str(messages[-1]["content"])
    if "acme_result" in last:
        return "It is sunny." if "sunny" in last else "I do not know."
    if "weather" in last:
        return "<acme_call>\nget_weather\ncity = Paris\n</acme_call>"
    return "Hello."
