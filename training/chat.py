"""Small talk for training: questions, and what the base model itself answers, so that it stays who it is.

    python -m training.chat --weights model.gguf --out chat.json

Above: nothing. Below: `model`, `tokens`, `pools`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path

import torch

from . import pools
from .model import Model, linear_names, load
from .render import DEFAULT_SYSTEM
from .tokens import END, tokenizer

_PLAIN = (
    "Hello!", "Hi", "Good morning", "Hey there, how are you?", "Thanks, that's all.", "Thank you!", "Who are you?", "What can you do?",
    "What's your name?", "Tell me a joke.", "How are you today?", "Good night.", "Are you a robot?", "Can you help me?", "Sing me a song.",
    "What is the meaning of life?", "Do you like music?", "I'm bored.", "I'm sad today.", "What should I read?", "That was great.",
)  # fmt: skip
_FORMS = (
    ("What is the capital of {}?", pools.COUNTRIES), ("Explain {} in simple terms.", pools.TOPICS), ("Write a short poem about {}.", pools.TOPICS),
    ("Tell me a fun fact about {}.", pools.CITIES), ("Give me three tips for learning {}.", pools.LANGUAGES), ("Why is {} important?", pools.TOPICS),
    ("Who wrote {}?", pools.BOOKS), ("What do you think about {}?", pools.TOPICS), ("Describe {} in one sentence.", pools.CITIES),
    ("What is {}?", pools.TOPICS), ("Who was {}?", pools.FIGURES), ("How do I cook {}?", pools.DISHES), ("What does the word {} mean?", pools.RARE_WORDS),
    ("Write a slogan for {}.", pools.COMPANIES), ("What are the main ideas of {}?", pools.TOPICS), ("Is {} healthy?", pools.FOODS),
    ("Write one sentence about a {}.", pools.PLANTS), ("Where is {}?", pools.COUNTRIES), ("What color is a {}?", pools.PLANTS),
    ("Give me a name for a shop that sells {}s.", pools.PRODUCTS), ("Which language is spoken in {}?", pools.COUNTRIES),
    ("Write a haiku about {}.", pools.PLANTS), ("What is {} used for?", pools.ELEMENTS), ("How do I start with {}?", pools.SUBJECTS),
)  # fmt: skip


def questions() -> list[str]:
    """What people say when they want to talk."""
    return [*_PLAIN, *(form.format(word) for form, words in _FORMS for word in words)]


def _is_good(answer: str) -> bool:
    words = re.findall(r"\w+", answer.lower())
    return 2 < len(words) < 90 and len(set(words)) / len(words) > 0.45


def main() -> None:
    """Ask the base model, and keep what it answered well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--out", default="chat.json")
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    coder = tokenizer(Path(asked.weights))
    weights = load(Path(asked.weights), asked.device, torch.bfloat16 if asked.device == "cuda" else torch.float32)
    found = questions()
    random.Random(0).shuffle(found)
    frame = f"<|im_start|>system\n{DEFAULT_SYSTEM}<|im_end|>\n<|im_start|>user\n{{}}<|im_end|>\n<|im_start|>assistant\n"
    prompts = [coder.encode(frame.replace("{}", each), add_special_tokens=False).ids for each in found]
    end = coder.token_to_id(END)
    answers = Model(weights).decode(prompts, {name: weights[name] for name in linear_names()}, end, 110, 768)
    told = [
        (question, coder.decode(ids).strip()) for question, ids in zip(found, answers, strict=True) if len(ids) < 110
    ]
    kept = [(question, answer) for question, answer in told if _is_good(answer)]
    Path(asked.out).write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
    print(f"{len(kept)} of {len(found)} answers kept")


if __name__ == "__main__":
    main()
