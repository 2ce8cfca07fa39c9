"""Run a function over many settings: on one core, on all, or on a cluster, with the same call.

Every result is written to a file as soon as it is there. A sweep that was interrupted and is called again computes what
is missing and nothing else.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import joblib
from tqdm.auto import tqdm

Setting = Mapping[str, object]


def sweep(
    function: Callable[..., object], settings: Iterable[Setting], path: str | Path, jobs: int | None = None
) -> list:
    """``function(**setting)`` for every setting, in their order.

    Args:
        function: returns what JSON can hold; for more than one process it must be importable.
        settings: keyword arguments that JSON can hold.
        path: of the file of results, one line of JSON each; made if it is not there.
        jobs: processes; -1 for one on every core. None leaves the choice to ``joblib.parallel_config``, which may also
            name a cluster: with a ``dask.distributed`` client, ``with joblib.parallel_config("dask"): sweep(...)``.
    Returns:
        The results, those read from the file and those computed now.
    Raises:
        Whatever ``function`` raises; the results that had come back before are in the file.
    """
    path, settings = Path(path), [dict(setting) for setting in settings]
    done = read(path)
    _cut(path)
    missing = [setting for setting in settings if as_key(setting) not in done]
    run = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    with path.open("a", encoding="utf-8") as file:
        finished = run(joblib.delayed(_call)(function, setting) for setting in missing)
        for setting, result in tqdm(finished, total=len(missing), desc="sweep", leave=False):
            file.write(json.dumps({"setting": setting, "result": result}) + "\n")
            file.flush()
            done[as_key(setting)] = result
    return [done[as_key(setting)] for setting in settings]


def read(path: str | Path) -> dict[str, object]:
    """The results in a file by their settings, these as JSON with sorted names; a last line without its end is none.

    Raises:
        ValueError: a line with an end that is not a result.
    """
    path = Path(path)
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    done = {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            done[as_key(entry["setting"])] = entry["result"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number}, is not a result: {line.decode(errors='replace')[:80]!r}"
            ) from error
    return done


def _cut(path: Path) -> None:
    """Take away what is after the last whole line: it was written when the power went."""
    if path.is_file():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def as_key(setting: Setting) -> str:
    """A setting as JSON with sorted names, as :func:`read` returns it.

    Example:
        >>> as_key({"seed": 0, "scheme": "Alibi"})
        '{"scheme": "Alibi", "seed": 0}'
    """
    return json.dumps(setting, sort_keys=True)


def _call(function: Callable[..., object], setting: dict) -> tuple[dict, object]:
    return setting, function(**setting)
