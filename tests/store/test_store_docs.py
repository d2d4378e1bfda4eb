"""What the comments in docs/store.md say is what comes out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "store.md"


def test_the_samples_give_what_their_comments_say():
    names: dict[str, Any] = {}
    for sample in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(sample, str(PAGE), "exec"), names)  # noqa: S102 - our own documentation
    result, info, answer = names["result"], names["info"], names["answer"]
    assert (result.content, len(result.session), info.id) == ("It is paid.", 32, result.session)
    assert (info.title, answer.rounds[0].calls[0].result.content) == ("Pay bill 7.", "bill 7 is paid")
    assert (names["imported"].sessions, names["same"], names["nothing"]) == (1, True, [])
