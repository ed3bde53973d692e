"""Print the requirements of a dependency group, for a pip that knows no groups (before 25.1).

python .ci/group.py dev > dev.txt && python -m pip install -c constraints.txt -e . -r dev.txt
"""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"

print(*tomllib.loads(PROJECT.read_text("utf-8"))["dependency-groups"][sys.argv[1]], sep="\n")
