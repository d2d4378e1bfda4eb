"""Instructor fills a model from an answer in JSON, by two of its modes. Argument: the errand."""

import sys
from pathlib import Path

import instructor
from pydantic import BaseModel


class Found(BaseModel):
    """A word that was found."""

    word: str
    letters: int


text = Path("secret.txt").read_text(encoding="utf-8")
asked = [{"role": "user", "content": f"{sys.argv[1]} {text}"}]
for mode in (instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA):
    client = instructor.from_provider("openai/m", mode=mode)
    found = client.create(response_model=Found, messages=asked, max_retries=0)
    Path("made.txt").write_text(f"{found.word}\n", encoding="utf-8")
    print(f"{mode.value}: Done. The word is {found.word}. {found.letters}")
