"""Every command that the documentation shows prints what it shows; generated pages are fresh; links resolve.

In a ``console`` block ``$ `` starts a command and ``> `` continues it; a line ``...`` stands for lines left out. A
``yaml`` or ``python`` block whose first comment is a file name is that file, in one working folder for each page.
``make golden`` rewrites what is shown, with as many lines left out as before: read the difference.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from specsim import units
from specsim.catalog.cards import RECORDS
from specsim.specs.precision import Precision
from specsim.specs.tree import CountedTree, DynamicTree, Tree

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TREES = (Tree, CountedTree, DynamicTree)
"""They are written as text."""
ELSEWHERE = ("make", ". ", "git ", "pip ")


def console_commands(body):
    """Each command of a console block with the lines shown below it."""
    found = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> ") and not found[-1][1]:
            found[-1] = (found[-1][0] + "\n" + line[2:], [])
        else:
            found[-1][1].append(line)
    return found


def printed(command, folder):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", "exec 2>&1\n" + command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def agrees(shown, got):
    """Whether the shown lines are the printed ones, some left out at each line of dots."""
    parts = "\n".join(shown).split("\n...\n") if shown != ["..."] else [""]
    position, text = 0, "\n".join(got) + "\n"
    for index, part in enumerate(parts):
        whole = part.removesuffix("\n...").removeprefix("...\n")
        start = text.find(whole, position)
        if start < 0 or (index == 0 and start > 0 and not part.startswith("...")):
            return False
        position = start + len(whole)
    return shown[-1:] == ["..."] or text[position:] in ("", "\n")


def shortened(got, like):
    """Printed lines with as many left out, at the same end, as in the lines shown before."""
    if "..." not in like:
        return got
    head, tail = like.index("..."), len(like) - like.index("...") - 1
    return [*got[:head], "...", *(got[-tail:] if tail else [])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_print_what_is_shown(page, tmp_path, request):
    text, edits, wrong = page.read_text(encoding="utf-8"), [], []
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        name = re.match(r"# ([\w./-]+\.(?:yaml|py|json))\n", body)
        if language in ("yaml", "python") and name:
            (tmp_path / name[1]).write_text(body, encoding="utf-8")
        if language != "console":
            continue
        for command, shown in console_commands(body):
            if command.startswith(ELSEWHERE):
                continue
            got = printed(command, tmp_path)
            while shown[-1:] == [""]:
                shown.pop()
            if agrees(shown, got):
                continue
            before, after = "\n".join(shown), "\n".join(shortened(got, shown))
            if request.config.getoption("--regenerate") and shown and shown.count("...") <= 1:
                start = text.index(f"\n{before}\n", text.index("$ " + command.replace("\n", "\n> "), block.start())) + 1
                edits.append((start, start + len(before), after))
            else:
                wrong.append(f"$ {command}\n{after}")
    for start, end, after in reversed(edits):
        text = text[:start] + after + text[end:]
    if edits:
        page.write_text(text, encoding="utf-8")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_generated_pages_are_fresh():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "write_reference.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_field_of_a_card_is_described():
    words = set(re.findall(r"\w+", (ROOT / "docs" / "reference" / "cards.md").read_text(encoding="utf-8")))
    seen, missing = set(), []

    def look(kind):
        for part in get_args(kind):
            look(part)
        if not isinstance(kind, type) or not dataclasses.is_dataclass(kind) or kind in {*seen, Precision, *TREES}:
            return
        seen.add(kind)
        hints = get_type_hints(kind, include_extras=True)
        for field in dataclasses.fields(kind):
            if units.written_name(field.name) not in words:
                missing.append(f"{kind.__name__}.{units.written_name(field.name)}")
            look(hints[field.name])

    for record in RECORDS.values():
        look(record)
    assert len(seen) > 40
    assert not missing
