"""Prove that specsim works where nobody has a checkout: from the wheel and from the source archive.

Builds the source archive, and the wheel from it; looks at what the wheel holds; installs each of the two into an
environment with nothing else in it, and runs specsim there from an empty directory.

Usage: python tools/check_packages.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]

SHELVES = ("hardware", "hardware/kernels", "models", "runtimes", "evidence/acceptances", "scenarios")
"""Folders of cards, in the source archive at its root and in the wheel inside the package."""

SWEEP = ("specsim", "sweep", "--config", "quickstart", "--format", "csv")
"""The command whose rows must be the same text from everywhere."""

COMMANDS = (
    ("specsim", "--version"),
    ("specsim", "catalog", "list"),
    SWEEP,
    ("specsim", "optimal-gamma", "--acceptance", "rate=0.8", "--draft-cost-ratio", "0.1"),
    ("python", "-m", "specsim", "--version"),
    ("python", "-c", "import specsim; print(specsim.optimal_gamma, 'from', specsim.__file__)"),
)


class CheckError(Exception):
    """What is wrong with a package, for the person who built it."""


def main() -> int:
    """Build and check both packages; 1 with a message if anything is wrong."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # keeps its place in a log
    try:
        with tempfile.TemporaryDirectory(prefix="specsim-packages-") as folder:
            check(Path(folder))
    except CheckError as error:
        print(f"\nThe packages are not right: {error}", file=sys.stderr)
        return 1
    print("Both packages work.")
    return 0


def check(folder: Path) -> None:
    """Build both packages in a folder and check them.

    Raises:
        CheckError: At the first thing that is wrong.
    """
    archive, wheel = build(folder / "dist")
    expected = rows_of_the_checkout(folder / "checkout")
    check_wheel(wheel, archive)
    for package in (wheel, archive):
        print(f"{package.name}: into an empty environment")
        binaries = install(package, folder / package.suffix.strip("."))
        if run_everything(binaries, folder / f"away-{package.suffix.strip('.')}") != expected:
            raise CheckError(f"{package.name}: {' '.join(SWEEP)} prints other rows than the checkout does.")


def build(folder: Path) -> tuple[Path, Path]:
    """The source archive, and the wheel that is built from it and not from the checkout."""
    print("Building the source archive, and the wheel from it")
    run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)])
    found = sorted(folder.iterdir())
    archives = [path for path in found if path.name.endswith(".tar.gz")]
    wheels = [path for path in found if path.suffix == ".whl"]
    if len(archives) != 1 or len(wheels) != 1 or len(found) != 2:
        raise CheckError(f"expected one .tar.gz and one .whl, found {', '.join(path.name for path in found)}.")
    return archives[0], wheels[0]


def check_wheel(wheel: Path, archive: Path) -> None:
    """Hold the contents of the wheel against what it must have, and against the cards of the source archive."""
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as opened_archive:
        members = [member.name for member in opened_archive.getmembers() if member.isfile()]
    sources = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in members}
    about = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    shelved = {name.removeprefix("specsim/_catalog/") for name in names if name.startswith("specsim/_catalog/")}
    catalogues = {shelf.partition("/")[0] for shelf in SHELVES}
    cards = {name for name in sources if name.endswith(".yaml") and name.partition("/")[0] in catalogues}
    faults = [f"specsim/_catalog/{shelf} has no card" for shelf in SHELVES if not has_card(shelved, shelf)]
    faults += sorted(f"{card} is in the source archive only" for card in cards - shelved)
    faults += [f"{name} is missing" for name in ("specsim/py.typed", f"{about}/licenses/LICENSE") if name not in names]
    faults += sorted(f"{name} does not belong in it" for name in names if foreign(PurePosixPath(name), about))
    if faults:
        raise CheckError(f"{wheel.name}: " + "; ".join(faults) + ".")
    print(f"{wheel.name}: {len(names)} files, {len(shelved)} of them in the catalogue")


def has_card(names: set[str], folder: str) -> bool:
    """Whether a YAML file stands directly in a folder."""
    return any(path.suffix == ".yaml" and path.parent == PurePosixPath(folder) for path in map(PurePosixPath, names))


def foreign(path: PurePosixPath, about: str) -> bool:
    """Whether a file has no business in a wheel: anything but the package and what is said about it."""
    unwanted = {"tests", "benchmarks", "tools", "docs", "__pycache__"}
    return path.parts[0] not in ("specsim", about) or not unwanted.isdisjoint(path.parts) or path.suffix == ".pyc"


def install(package: Path, environment: Path) -> Path:
    """Install a package with what it declares and nothing else; the folder of its commands."""
    run([sys.executable, "-m", "venv", str(environment)])
    binaries = environment / "bin"
    pip = [str(binaries / "python"), "-m", "pip"]
    run([*pip, "install", "--quiet", "--disable-pip-version-check", str(package)])
    run([*pip, "check"])
    return binaries


def run_everything(binaries: Path, away: Path) -> str:
    """Run every command from an empty directory; the rows that the sweep prints.

    Raises:
        CheckError: If a command fails or says nothing.
    """
    away.mkdir()
    rows = ""
    for command in COMMANDS:
        said = run([str(binaries / command[0]), *command[1:]], away)
        if not said.strip():
            raise CheckError(f"{' '.join(command)} prints nothing.")
        print(f"  {' '.join(command)}: {len(said.splitlines())} lines")
        if command == SWEEP:
            rows = said
    if left := sorted(path.name for path in away.iterdir()):
        raise CheckError(f"running it left {', '.join(left)} in the working directory.")
    return rows


def rows_of_the_checkout(away: Path) -> str:
    """What the sweep prints from the checkout, with the dependencies of this environment."""
    away.mkdir()
    return run([sys.executable, "-m", *SWEEP], away, PYTHONPATH=str(ROOT))


def run(command: Sequence[str], folder: Path | None = None, **environment: str) -> str:
    """What a command prints, away from every other Python's settings.

    Raises:
        CheckError: If it fails, with the end of what it said.
    """
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=clean | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
        raise CheckError(f"exit code {done.returncode} from: {' '.join(command)}\n{said}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
