"""What a ``config.json`` says about position, in words: python -m posenc_lib.configs PATH."""

import argparse
import json
import sys
from pathlib import Path

from posenc_lib.configs.words import described


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 1 if the file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m posenc_lib.configs", description=__doc__)
    parser.add_argument("path", type=Path, help="a config.json, or the folder of a model")
    parser.add_argument("--length", type=int, help="tokens of a text, for methods that change with it")
    options = parser.parse_args(arguments)
    path = options.path / "config.json" if options.path.is_dir() else options.path
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        print("\n".join(described(config, options.length)))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
