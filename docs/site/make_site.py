"""The documentation site, from the pages of docs/, the vignettes, docstrings and the help of the R package.

    python docs/site/make_site.py         writes docs/_build/html, to be opened from the disk

The pages are put together in docs/_build/source at the places that they have in the repository, so that their links
hold; those of docs/site come to the top.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from notebooks import ROOT, executed, run

SITE = ROOT / "docs" / "site"
BUILD = ROOT / "docs" / "_build"
AS_THEY_ARE = (
    "*.md", "LICENSE", "CITATION.cff", "docs/*.md", "docs/decisions/*.md", "docs/*.png", "docs/app/*.png",
    "vignettes/*.py", "benchmarks/*/*.*", "replication/README.md", "r_bridge/README.md", "r_bridge/vignettes/*.png",
)  # fmt: skip
PROGRAMS = {"conf.py", "make_site.py", "notebooks.py", "settings.py"}
HELP = """
topics <- tools::Rd_db(dir = "r_bridge")
is_alias <- function(part) attr(part, "Rd_tag") == "\\\\alias"
aliases <- function(topic) unlist(lapply(Filter(is_alias, topic), as.character))
links <- unlist(lapply(names(topics), function(file) {
    names <- aliases(topics[[file]])
    stats::setNames(rep(sub("Rd$", "html", file), length(names)), names)
}))
suppressWarnings(for (file in names(topics))
    tools::Rd2HTML(topics[[file]], file.path(commandArgs(TRUE), sub("Rd$", "html", file)), package = "surveysynth",
                   Links = links, Links2 = tools::findHTMLlinks()))
"""


def sources() -> dict[str, Path]:
    """Every file that is in the site as it is in the repository: its place there, and here."""
    kept = {path.relative_to(ROOT).as_posix(): path for pattern in AS_THEY_ARE for path in ROOT.glob(pattern)}
    own = {path.relative_to(SITE).as_posix(): path for path in SITE.rglob("*.*") if "__pycache__" not in path.parts}
    return kept | {place: path for place, path in own.items() if place not in PROGRAMS}


def notebooks() -> list[Path]:
    """The documents of code: vignettes, gallery, evidence."""
    return [path for path in sources().values() if path.suffix == ".py"]


def assemble(folder: Path) -> None:
    """Write the sources into a folder; what was there goes."""
    shutil.rmtree(folder, ignore_errors=True)
    for place, path in sources().items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / place)
    readme = folder / "README.md"
    listed = readme.read_text(encoding="utf-8").replace("](vignettes)", "](tutorials.md)")  # a forge lists the folder
    readme.write_text(listed, encoding="utf-8")
    for vignette in (ROOT / "r_bridge" / "vignettes").glob("*.Rmd"):
        (folder / "r_bridge" / "vignettes" / f"{vignette.stem}.md").write_text(from_r(vignette), encoding="utf-8")


def from_r(vignette: Path) -> str:
    """A vignette of the R package, which was computed beforehand, as a page."""
    _, head, body = vignette.read_text(encoding="utf-8").split("---\n", 2)
    (title,) = re.findall(r'^title: "?(.+?)"?$', head, re.M)
    return f"# {title}\n\n{body}"


def r_help(folder: Path) -> None:
    """The help of the R package, a page a topic, made of R's own html, and a list of them."""
    folder.mkdir(parents=True)
    subprocess.run(["Rscript", "--vanilla", "-e", HELP, folder], cwd=ROOT, check=True)
    topics = sorted(folder.glob("*.html"), key=lambda html: html.stem.lower())
    rows = []
    for html in topics:
        ((title, body),) = re.findall(r"<h2>(.*?)</h2>(.*)</div>\s*</body>", html.read_text(encoding="utf-8"), re.S)
        title = " ".join(title.split())
        body = re.sub(r'<a href="\.\./[^"]*">(.*?)</a>', r"\1", body)  # to help of other packages, which is not here
        page = f"# {html.stem}\n\n{title}.\n\n```{{raw}} html\n{body}\n```\n"
        html.with_suffix(".md").write_text(page, encoding="utf-8")
        html.unlink()
        rows.append(f"| [{html.stem}]({html.stem}.md) | {title} |")
    index = [
        "# R functions\n\nThe help of the [R package](../r_bridge/README.md).\n\n| topic | |\n|---|---|", *rows,
        "\n```{toctree}\n:hidden:\n", *(html.stem for html in topics), "```\n",
    ]  # fmt: skip
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")


def main() -> int:
    """Build the site; a warning is an error."""
    from sphinx.cmd.build import main as sphinx

    assemble(BUILD / "source")
    r_help(BUILD / "source" / "r")
    texts = {path: path.read_text(encoding="utf-8") for path in notebooks()}
    for path in [path for path in texts if path.parent.name == "evidence"]:
        run(texts.pop(path))  # seconds; reads files all over the repository
    with ThreadPoolExecutor(2) as two_at_a_time:
        list(two_at_a_time.map(executed, texts.values()))
    return sphinx(["-q", "-W", "--keep-going", "-E", "-c", str(SITE), str(BUILD / "source"), str(BUILD / "html")])


if __name__ == "__main__":
    sys.exit(main())
