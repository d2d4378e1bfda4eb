"""A tiny leaderboard in the format of the real one, and a checker with its face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolspeak.evaluation.bfcl import CATEGORIES, BfclFiles

#: Written for these tests, in the format of the leaderboard.
FUNCTION: dict[str, Any] = {
    "name": "shop.order",
    "description": "Order something.",
    "parameters": {
        "type": "dict",
        "properties": {
            "item": {"type": "string", "description": "What."},
            "price": {"type": "float", "description": "At most.", "default": 1.5},
            "size": {"type": "tuple", "items": {"type": "float"}},
            "extra": {"type": "dict", "properties": {"note": {"type": "any"}}},
        },
        "required": ["item"],
    },
}
ENTRY = {"question": [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Order tea."}]]}
#: A checker with the face of theirs; it imports what theirs imports, and compares exactly.
CHECKER = """
from bfcl_eval.constants.enums import Language
from bfcl_eval.constants.model_config import MODEL_CONFIG_MAPPING

def ast_checker(functions, output, expected, language, category, model):
    assert language is Language.PYTHON
    assert MODEL_CONFIG_MAPPING[model].underscore_to_dot
    if len(output) != len(expected):
        return {"valid": False, "error": ["Wrong number of functions."], "error_type": "wrong_count"}
    for made, wanted in zip(output, expected):
        for name, accepted in wanted.items():
            given = made[name.replace(".", "_")]
            if any(given.get(key, "") not in values for key, values in accepted.items()):
                return {"valid": False, "error": ["Invalid value.", {"given": given}], "error_type": "value_error"}
    return {"valid": True, "error": []}
"""


def made_in(folder: Path) -> BfclFiles:
    """The files, two cases a category."""
    package = folder / "bfcl_eval"
    for each in ("constants", "eval_checker/ast_eval", "data/possible_answer"):
        (package / each).mkdir(parents=True)
    (package / "constants/enums.py").write_text("class Language:\n    PYTHON = 'python'\n")
    (package / "constants/model_config.py").write_text("raise ImportError('the SDKs of all vendors')\n")
    (package / "eval_checker/ast_eval/ast_checker.py").write_text(CHECKER)
    for category in CATEGORIES:
        entries = [{"id": f"{category}_{number}", **ENTRY, "function": [FUNCTION]} for number in range(2)]
        truth = [
            {"id": each["id"], "ground_truth": [{"shop.order": {"item": ["tea"], "price": [2, ""]}}]}
            for each in entries
        ]
        name = f"BFCL_v4_{category}.json"
        (package / "data" / name).write_text("\n".join(map(json.dumps, entries)))
        if category != "irrelevance":
            (package / "data/possible_answer" / name).write_text("\n".join(map(json.dumps, truth)) + "\n")
    return BfclFiles(folder, "fixture")
