"""Build both distributions, check them, and try each in a clean environment of every Python here.

    python .ci/release.py dist

Each wheel is installed with what it needs from the package index and nothing else. That of tpnn
runs the demo and the code of the README; that of tpnn-runtime explains a model of the tests.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TOOLS = ("build", "hatchling", "twine")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SERVE = """
import sys
import tpnn

served = tpnn.load(sys.argv[1])
assert served.model_.components and "pandas" not in sys.modules
print(served.explain().importance())
"""


def run(*command: object, folder: Path | None = None) -> None:
    """Run a command, or end with its words."""
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, cwd=folder)


def environment(folder: Path, python: str, *packages: object) -> Path:
    """Make a new virtual environment and install packages; return its interpreter."""
    run(python, "-m", "venv", folder)
    found = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return found


def build(tools: Path, dist: Path) -> tuple[Path, Path]:
    """Build sdist and wheel of tpnn, and the wheel of tpnn-runtime, which is made of its files."""
    shutil.rmtree(dist, ignore_errors=True)
    run(tools, "-m", "build", "--no-isolation", "--outdir", dist, ROOT)
    run(tools, "-m", "build", "--no-isolation", "--wheel", "--outdir", dist, ROOT / "runtime")
    run(tools, "-m", "twine", "check", "--strict", *sorted(dist.iterdir()))
    (whole,), (runtime,) = dist.glob("tpnn-*.whl"), dist.glob("tpnn_runtime-*.whl")
    return whole, runtime


def try_whole(python: str, wheel: Path, folder: Path) -> None:
    """Run the demo and the code of the README where only the wheel is installed."""
    installed = environment(folder / "whole", python, f"{wheel}[plots]")
    text = (ROOT / "README.md").read_text("utf-8")
    (folder / "readme.py").write_text("\n".join(BLOCK.findall(text)), "utf-8")
    run(installed, "-m", "tpnn", "demo", folder=folder)
    run(installed, "readme.py", folder=folder)


def try_runtime(python: str, wheel: Path, folder: Path) -> None:
    """Load and explain a model where only NumPy and the runtime are installed."""
    installed = environment(folder / "runtime", python, wheel)
    (folder / "serve.py").write_text(SERVE, "utf-8")
    model = ROOT / "tests" / "reference" / "version_1" / "regression.tpnn"
    run(installed, "serve.py", model, folder=folder)


def main(dist: str) -> None:
    """Build, check and try."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tools = environment(folder / "tools", sys.executable, *TOOLS)
        whole, runtime = build(tools, Path(dist).resolve())
        known = {version: shutil.which(f"python{version}") for version in VERSIONS}
        for version, python in known.items():
            if python is None or subprocess.run([python, "-c", ""], check=False).returncode:
                print(f"Python {version} is not here: not tried")
                continue
            place = folder / version
            place.mkdir()
            try_whole(python, whole, place)
            try_runtime(python, runtime, place)
            print(f"Python {version}: both distributions work")


if __name__ == "__main__":
    main(*sys.argv[1:])
