"""Prints the mutation score from mutmut's statistics and fails when it is below a floor.

Usage: `mutation_score.py STATS.json FLOOR`. A mutant counts as caught when a test failed on it or when it
made the tests hang or crash; one that no test reaches counts as survived.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(stats_file: str, floor: float) -> int:
    """The exit status: 0 when enough mutants were caught."""
    stats: dict[str, int] = json.loads(Path(stats_file).read_text(encoding="utf-8"))
    caught = sum(stats.get(key, 0) for key in ("killed", "timeout", "segfault", "suspicious", "caught_by_type_check"))
    considered = stats["total"] - stats.get("skipped", 0)
    if not considered:
        print("error: no mutants were made", file=sys.stderr)
        return 1
    score = 100 * caught / considered
    print(f"mutation score {score:.1f} %: {caught} of {considered} mutants caught, floor {floor:g} %")
    print("survivors: .venv/bin/mutmut results; one of them: .venv/bin/mutmut show NAME")
    return 0 if score >= floor else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
