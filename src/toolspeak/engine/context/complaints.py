"""Recognise the error with which an upstream says that a request is longer than the model's context window.

Every service words this differently. The texts are untrusted: they change how much is sent, and nothing else.
"""

import re
from collections.abc import Iterable

import msgspec

from ...core.events import Failure

#: Statuses of such errors. 0 and 200: an error without a status, or inside a stream. 429 is left out, because a rate
#: limit passes by itself.
_STATUSES = frozenset({0, 200, 400, 413, 422, 500})
#: "Content too large": the status alone says enough.
_TOO_LARGE = 413
#: Some services answer with other statuses if a rate limit is exceeded.
_RATE_LIMIT = re.compile(r"per[ _-]min|per[ _-](?:day|hour|second)|\b[tr]p[md]\b|rate[ _-]?limit|每分钟|pro minute")
#: Characters of an error that are searched.
_MAX_CHARS = 4000
#: Numbers outside this range are not the size of a window.
_MIN_WINDOW, _MAX_WINDOW = 64, 100_000_000

_TOO_LONG = re.compile(
    r"context[_ ]length[_ ]exceeded|context_window_exceeded|exceed_context_size"
    r"|max(?:imum)? (?:context |prompt |model )?length|length of the (?:messages|prompt|input)"
    r"|(?:prompt|input) (?:is )?too long|too many tokens|too large for model"
    r"|exceed[^.]{0,60}context (?:window|size|length|limit)|context (?:window|size|length)[^.]{0,20} exceed"
    r"|(?:greater|longer) than the (?:model'?s )?context|loaded with context length"
    r"|token count[^.]{0,40}exceed|input tokens exceed|exceeded model token limit|inputs\W+tokens \+"
    r"|must have less than [0-9]{1,9} tokens|range of input length|use fewer tokens"
    r"|(?:anfrage|eingabe|prompt|unterhaltung)[^.]{0,20} zu lang|kontext(?:fenster|länge|größe)[^.]{0,40}überschr"
    r"|überschr[^.]{0,40}kontext(?:fenster|länge|größe)"
    r"|(?:输入|prompt|提示词?|上下文|消息|请求)[^。]{0,12}(?:过长|超长|太长|超限)"
    r"|(?:超过|超出)[^。]{0,20}(?:上下文|token|长度)|(?:上下文|token)[^。]{0,12}(?:超过|超出)"
)
_N = r"([0-9][0-9,]{0,11})"
#: Where an error states the size of the window, the surest wording first.
_WINDOW = tuple(
    re.compile(pattern.replace("N", _N))
    for pattern in (
        r"> N",
        r"n_ctx\W{1,4}N",
        r"with N maximum context length",
        r"tokens allowed \(N",
        r"max(?:imum)? (?:context|prompt|model) length(?: of| is|:)? (?:only )?N",
        r"context (?:window|size|length|limit)(?: of| is|:)?(?: only)? \(?N",
        r"token limit: N",
        r"cannot exceed N",
        r"limit (?:of|is) N",
        r"must be <= N",
        r"less than N tokens",
        r"input length should be \[[0-9]{1,4}, ?N",
        r"(?:höchstens|maximal|kontext(?:fenster|länge|größe)[^0-9.]{0,20}) ?N",
        r"(?:长度|上限|限制|最大|超过|超出)[^0-9。]{0,12}N",
    )
)
#: Where an error states the size of the prompt. A number that includes the answer comes last.
_USED = tuple(
    re.compile(pattern.replace("N", _N))
    for pattern in (
        r"n_prompt_tokens\W{1,4}N",
        r"N (?:tokens )?(?:in your prompt|in the messages|of text input|from the input)",
        r"has N input tokens",
        r"resulted in N tokens",
        r"token count (?:of |\()N",
        r"(?:too long|fewer tokens|current length is):? N",
        r"context limit: N \+",
        r"(?:request|input|prompt|requested tokens) \((?:length )?N",
        r"contains N tokens",
        r"first N tokens",
        r"(?:received|requested:?|requested about|given:) N",
    )
)


class ContextComplaint(msgspec.Struct, frozen=True):
    """What an upstream said about a request that is too long, in tokens. 0 means that it did not say."""

    window: int = 0
    used: int = 0


def context_complaint(failure: Failure | None) -> ContextComplaint | None:
    """Return what a failure says about the context window; None if it has another cause."""
    if failure is None or failure.status not in _STATUSES:
        return None
    words = (failure.code, failure.error_type, failure.message, failure.body)
    text = " ".join(words)[:_MAX_CHARS].lower()
    if _RATE_LIMIT.search(text) is not None:
        return None
    if _TOO_LONG.search(text) is None:
        return ContextComplaint() if failure.status == _TOO_LARGE else None
    window = _first_number(_WINDOW, text)
    return ContextComplaint(window if _MIN_WINDOW <= window <= _MAX_WINDOW else 0, _first_number(_USED, text))


def _first_number(patterns: Iterable[re.Pattern[str]], text: str) -> int:
    for pattern in patterns:
        if (match := pattern.search(text)) is not None:
            return int(match[1].replace(",", ""))
    return 0
