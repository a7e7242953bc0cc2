"""The code of docs/extending.md, section by section."""

import re
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[1] / "docs" / "extending.md"
BLOCK = re.compile(r"^```(python|stan)\n(.*?)^```$", re.M | re.S)
NAMED = re.compile(r"(?:#|//) (\w+\.(?:py|stan))\n")


def text_beside_code():
    return re.sub(r"^```.*?^```$", "", GUIDE.read_text(encoding="utf-8"), flags=re.M | re.S)


def sections():
    """Blocks by the heading of their section, "" before the first: name of the file, or None, and code."""
    first, *others = re.split(r"^## ", GUIDE.read_text(encoding="utf-8"), flags=re.M)
    parts = {"": first} | {part.partition("\n")[0]: part for part in others}
    found = {heading: [code for _, code in BLOCK.findall(part)] for heading, part in parts.items()}
    return {
        heading: [(name[1] if (name := NAMED.match(code)) else None, code) for code in codes]
        for heading, codes in found.items()
    }


def made_by(name):
    """What a Python file of the page makes, by name."""
    code = next(code for codes in sections().values() for named, code in codes if named == name)
    session = {"__name__": Path(name).stem}
    exec(code, session)
    return session


def run(headings, folder, monkeypatch):
    """Run sections in a folder, after what comes before all: what their session has in the end."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    session = {"__name__": "session"}
    for name, code in [block for heading in ("", *headings) for block in sections()[heading]]:
        if name is None:
            exec(code, session)
            continue
        (folder / name).write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, Path(name).stem, raising=False)
    return session
