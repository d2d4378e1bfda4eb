"""What the embedded model says of itself: a model of its size would make something up.

A chat that begins with a greeting, or with the question what the model can do, is answered from a card.
"""

import re

from ...core.types import Request

#: A greeting, a question about abilities, or both.
_ASKS_FOR_CARD = re.compile(
    r"(?=.*\w)"
    r"(?:(?:hi|hello|hey|greetings|good (?:morning|afternoon|evening))(?: there)?\b)?\W*"
    r"(?:what (?:can|do) you do(?: for me)?|what can you help(?: me)? with|how can you help(?: me)?"
    r"|(?:who|what) are you|help)?\W*",
    re.IGNORECASE,
).fullmatch
#: Longest text that may ask for the card.
_MAX_QUESTION = 80
#: Questions that the model answers well with a tool of this name.
_EXAMPLES = {
    "calculator": "What is 17 times 23?",
    "clock": "What time is it in Oslo?",
    "dice": "Roll two dice.",
    "get_weather": "What is the weather in Paris?",
    "list_files": "List the files here.",
    "read_file": "Read notes.md.",
}
_MAX_NAMED = 12


def card_for(request: Request) -> str:
    """Return the card if a chat begins with a question for it; otherwise an empty string."""
    turns = [message for message in request.messages if message.role not in ("system", "developer")]
    options = request.options
    if options.bound or options.response_format is not None or len(turns) != 1 or turns[0].role != "user":
        return ""
    question = turns[0].text.strip()
    if len(question) > _MAX_QUESTION or _ASKS_FOR_CARD(question) is None:
        return ""
    about = "Hello! I am a small demo model with 135 million parameters that runs on this computer."
    advice = "I know little myself: connect a larger model for real work."
    return " ".join((about, *_about_tools(options.described_tools), advice))


def _about_tools(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        return ("Offer me tools, and I can call them.",)
    mentions = [f"`{name}`" for name in names[:_MAX_NAMED]]
    if len(names) > _MAX_NAMED:
        mentions.append(f"{len(names) - _MAX_NAMED} more")
    offer = f"I can call {_joined(mentions)}."
    example = next((_EXAMPLES[name] for name in names if name in _EXAMPLES), "")
    return (offer, f'For example, ask me: "{example}"') if example else (offer,)


def _joined(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
