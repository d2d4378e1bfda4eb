"""How people type: a request with what stands around it, several requests in one, and slips of the keyboard.

Above: `family`, `compose`, `seal`, `intents`. Below: nothing. The seed decides all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

#: Words that begin a question.
ASKING = frozenset("What What's How When Which Who Where Is Does Do Can Are".split())
#: Words that begin a sentence which tells something: nobody says "please" before it.
_TELLING = frozenset(
    "I I'm I've I'd We We're We've My Our The There This That It It's They He She You Your Sorry Hi Hello Hey".split()
)
_SLOT = re.compile(r"(\{[\w.]+[!~]?\})")
_POLITE = (
    "Please ", "Hey, ", "Could you please ", "I need you to ", "Hi! ", "Can you ", "Quick question: ", "Help me: ", "ok so ",
    "Hello, would you ", "Kindly ", "Next, ", "Now ", "I want you to ", "Your task: ", "Do this: ", "yo, ", "Let's ",
)  # fmt: skip
_CONTEXT = (
    "I'm working on a school project.", "My boss wants to know this.", "I have a question.", "This is for a friend.",
    "I was wondering about something.", "I'm preparing a presentation.", "We are planning something.", "Good evening.",
    "I already tried it twice on my own and failed.", "My colleague said that you can help.", "I have no idea how to do this.",
    "The last answer was wrong, so let me ask again.", "I'm in a hurry and my battery is low.", "Sorry to bother you again.",
    "We talked about it at dinner and could not agree.", "I'm a beginner, so keep it simple.", "You helped me yesterday, thanks!",
    "Forget what I said before.", "My daughter asked me this and I did not know.", "There was a long debate about it in our team.",
    "I'm sitting in the train and have little time.", "It is the last thing on my list.", "I read an article and got curious.",
    "Here is what I need.", "One more thing.", "Imagine you are my assistant.", "I hope you are well.", "Okay, let's begin.",
)  # fmt: skip
_LONG = (
    "You are the assistant of a small company. Answer only what is asked, use the tools where they fit, and never invent values. "
    "The request of the customer follows.\n\n{0}",
    "### Context\nThe user writes from a phone and is in a hurry.\n### Request\n{0}",
    "Below is a message from a user. Do what it asks.\n\"{0}\"",
    "user: {0}",
    "Request: {0}\nAnswer with a call if a tool fits.",
    "I have been a customer for many years and was always happy, until last week when nothing worked any more. Anyway, "
    "my problem today is another one. {0} I hope you can do this for me, because the hotline was no help at all.",
    "{0}\n\nSent from my phone",
    "Subject: request\n\n{0}\n\nBest regards",
    "{0} Think before you answer.",
    "[{0}]",
)  # fmt: skip
_AFTER = (
    "Thanks!", "Thank you.", "Please be quick.", "I'd appreciate your help.", "Thanks in advance.", "I need it today.",
    "That's all.", "No rush.", "It's important to me.", "My friends will be happy.", "That would be great.", "Only that, nothing else.",
    "I'll tell my boss then.", "We can talk about the rest later.", "I really don't know it by heart.", "Just the result, please.",
)  # fmt: skip


def sentence(text: str, rng: random.Random, value_first: bool = False) -> str:
    """A request as people type it. Where a value comes first, its letters stay as they are."""
    if not text.isascii() and rng.random() < 0.8:  # most likely another language
        return text
    text = text if value_first else text[:1].upper() + text[1:]
    roll = rng.random()
    if value_first and roll < 0.16:
        return text.rstrip(".?") if roll < 0.08 else text
    if roll < 0.08:
        text = text[:1].lower() + text[1:].rstrip(".?")
    elif roll < 0.16 and text.split()[0].rstrip(",!") not in ASKING | _TELLING:
        text = rng.choice(_POLITE) + text[:1].lower() + text[1:]
    elif roll < 0.25:
        text = f"{rng.choice(_CONTEXT)} {text}"
    elif roll < 0.31:
        text = f"{_ended(text)} {rng.choice(_AFTER)}"
    elif roll < 0.34:
        text = f"{rng.choice(_CONTEXT)} {_ended(text)} {rng.choice(_AFTER)}"
    elif roll < 0.38:
        text = rng.choice(_LONG).format(text)
    return text


def _ended(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def misspelled(text: str, rng: random.Random) -> str:
    """The text of a request, now and then with a slip or without care; what stands in slots is left alone."""
    roll = rng.random()
    if roll > 0.1:
        return text
    parts = _SLOT.split(text)
    if roll < 0.04:  # no capitals, no marks
        return "".join(part if at % 2 else re.sub(r"[.,?!]", "", part).lower() for at, part in enumerate(parts))
    return "".join(part if at % 2 else _slip(part, rng) for at, part in enumerate(parts))


def _slip(text: str, rng: random.Random) -> str:
    """One word of the text with two letters swapped, one left out or one doubled."""
    words = text.split(" ")
    long = [at for at, word in enumerate(words) if len(word) > 4 and word.isalpha()]
    if not long:
        return text
    at = rng.choice(long)
    word, place = words[at], rng.randint(1, len(words[at]) - 2)
    words[at] = rng.choice(
        [
            word[:place] + word[place + 1] + word[place] + word[place + 2 :],
            word[:place] + word[place + 1 :],
            word[:place] + word[place] + word[place:],
        ]
    )
    return " ".join(words)


#: A request that ends with where or about what something is.
_LAST = re.compile(r" (in|at|for|of|about) (\{\w+\})(?=[.?!]?$)")
_FRONTS = (
    "{0}. {1}", "{0}: {1}", "{0}, {1}", "It's about {0}. {1}", "I have a question about {0}. {1}", "About {0}: {1}",
)  # fmt: skip
_PLACES = ("I'm in {0}. {1}", "Im at {0}, {1}", "I am in {0} right now. {1}", *_FRONTS)


def fronted(text: str, rng: random.Random) -> str:
    """The request, now and then with what it is about in front of it."""
    found = _LAST.search(text) if rng.random() < 0.12 and text.isascii() else None
    if found is None or text.count(found.group(2)) > 1:
        return text
    rest = text[: found.start()] + text[found.end() :]
    return rng.choice(_PLACES if found.group(1) in ("in", "at") else _FRONTS).format(found.group(2), rest)


def _coded(text: str) -> bool:
    """Whether the first word is no word but a name or a code, to judge by its signs."""
    first = text.split(" ", 1)[0].rstrip(",.:;?!'\"")
    return not first.isalpha() or not first[1:].islower()


def lowered(text: str) -> str:
    """The text as it goes on within a sentence."""
    return text if _coded(text) else text[:1].lower() + text[1:]


def strung(parts: Iterable[str], rng: random.Random) -> str:
    """Several requests as one."""
    bare = [each.rstrip(". ") for each in parts]
    upper = [each if _coded(each) else each[:1].upper() + each[1:] for each in bare]
    lower = [bare[0], *(lowered(each) for each in bare[1:])]
    ended = [each if each.endswith(("?", "!")) else f"{each}." for each in upper]
    return rng.choice(
        [
            " ".join(ended),
            " ".join([ended[0], *(f"Also, {lowered(each)}" for each in ended[1:])]),
            " ".join([ended[0], *(f"Then {lowered(each)}" for each in ended[1:])]),
            " and ".join(each.rstrip("?") for each in lower) + ("?" if bare[-1].endswith("?") else "."),
            "\n".join(f"{at}. {each}" for at, each in enumerate(ended, 1)),
            ", ".join(each.rstrip("?") for each in lower[:-1])
            + f", and {lower[-1].rstrip('?')}"
            + ("?" if bare[-1].endswith("?") else "."),
        ]
    )
