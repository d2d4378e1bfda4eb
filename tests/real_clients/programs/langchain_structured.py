"""LangChain's structured output, by default and in JSON mode. Arguments: which API, and the errand."""

import sys
from pathlib import Path
from typing import Any

from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Found(BaseModel):
    """A word that was found."""

    word: str
    letters: int


kind, errand = sys.argv[1:]
text = Path("secret.txt").read_text(encoding="utf-8")
model = ChatOpenAI(model="m", max_retries=0, use_responses_api=kind == "responses")
ways: list[dict[str, Any]] = [{}, {"method": "json_mode"}]
for way in ways:
    found: Any = model.with_structured_output(Found, **way).invoke(f"{errand} Answer in JSON. {text}")
    Path("made.txt").write_text(f"{found.word}\n", encoding="utf-8")
    print(f"{way or 'default'}: Done. The word is {found.word}. {found.letters}")
