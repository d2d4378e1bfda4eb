"""What `make run` does for an engine that is built for this processor, where that helps. It says little.

python scripts/native.py install    before the server starts: install what was built
python scripts/native.py build      beside the server: build it, unless that failed before
"""

from __future__ import annotations

import sys

from toolspeak.config import load
from toolspeak.upstreams.embedded.engine_build import EngineBuilder, EngineBuildError, missing, would_help


def main(step: str) -> None:
    config = load()
    builder = EngineBuilder(config.cache_folder, config.environment())
    #: Exists if a build failed. Then only `toolspeak engine build` tries again.
    failed = builder.folder / "failed"
    wheel = builder.wheel
    try:
        if step == "install" and wheel is not None and would_help():
            builder.install()
        possible = not failed.exists() and not missing(config.environment())
        if step == "install" and wheel is None and possible and would_help():
            builder.folder.mkdir(parents=True, exist_ok=True)  # the server then knows that a build was begun
            print(
                "in the background, an engine for this processor is built; from the next start on, answers come faster"
            )
        if step == "build" and wheel is None and possible and would_help():
            builder.build(sys.exit)  # leave it to the process that is building
            print("an engine was built for this processor: the model is faster from the next start")
    except EngineBuildError as error:
        if wheel is not None:
            wheel.unlink()
        if wheel is not None or builder.sources.is_dir():  # else it was not fetched, and the next start tries again
            failed.touch()
        print(f"the engine stays as it is: {error.args[0]}; see {builder.log}", file=sys.stderr)
        if failed.exists():
            print("`make native` tries again", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:] not in (["install"], ["build"]):
        sys.exit(__doc__)
    main(sys.argv[1])
