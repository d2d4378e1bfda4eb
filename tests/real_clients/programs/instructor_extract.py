"""Instructor fills a model from a text by a forced call, once whole and once streamed. Argument: the errand."""

import sys
from pathlib import Path

import instructor
from pydantic import BaseModel


class Found(BaseModel):
    """A word that was found."""

    word: str
    letters: int


client = instructor.from_provider("openai/m", mode=instructor.Mode.TOOLS)
text = Path("secret.txt").read_text(encoding="utf-8")
asked = [{"role": "user", "content": f"{sys.argv[1]} {text}"}]
whole = client.create(response_model=Found, messages=asked, max_retries=0)
Path("made.txt").write_text(f"{whole.word}\n", encoding="utf-8")
print(f"whole: Done. The word is {whole.word}. {whole.letters}")
last = None
for last in client.create_partial(response_model=Found, messages=asked, max_retries=0):  # noqa: B007
    pass
print(f"streamed: Done. The word is {last.word if last else None}.")
