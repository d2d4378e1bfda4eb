"""Run notebooks from the first cell to the last, and write their outputs into them.

    python scripts/notebooks.py                # all of examples/notebooks
    python scripts/notebooks.py --check FILE   # write nothing; say what differs, with exit status 1

The outputs are those of Jupyter: what a cell prints, and the value of its last line. Nothing else is supported, so that
no notebook server has to be installed.
"""

from __future__ import annotations

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ALL = sorted((Path(__file__).parent.parent / "examples" / "notebooks").glob("*.ipynb"))


def with_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of this run."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell = cell | {"execution_count": count, "outputs": run_cell("".join(cell["source"]), names, count)}
        cells.append(cell)
    return notebook | {"cells": cells}


def run_cell(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Run a cell and return its outputs."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, f"cell {count}", "exec"), names)  # noqa: S102 - our own notebook
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)  # noqa: S307 - our own notebook
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": lines(repr(value))}
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    different = 0
    for path in [Path(each) for each in arguments if each != "--check"] or ALL:
        stored = json.loads(path.read_text(encoding="utf-8"))
        fresh = with_outputs(stored)
        if not check:
            path.write_text(json.dumps(fresh, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            continue
        for before, after in zip(stored["cells"], fresh["cells"], strict=True):
            if before != after:
                different += 1
                outputs = json.dumps([before["outputs"], after["outputs"]], indent=1, ensure_ascii=False)
                print(f"{path.name}: cell {after['execution_count']} has other outputs, stored and fresh: {outputs}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
