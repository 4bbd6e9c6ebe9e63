"""Makes a site of pages that were written to be read in the repository.

The menu is what the index, docs/README.md, lists: a section for each of its tables. A link to a file that is no page
leads to the repository.
"""

import os
import posixpath
import re

TOP = os.path.join(os.path.dirname(__file__), "..", "..")
INDEX = "docs/README.md"
PAGE = re.compile(r"\]\(([\w./-]+\.md)\)")
LINK = re.compile(r"\]\(([\w./-]+)(#[\w-]+)?\)")


def beside(page, path):
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


def tables(page):
    """Yields the title of each table of a page, and the pages that the table links."""
    with open(os.path.join(TOP, page), encoding="utf-8") as text:
        for block in re.split(r"\n\n+", text.read()):
            if block.startswith("| "):
                yield block.split("|")[1].strip(), [beside(page, path) for path in PAGE.findall(block)]


def entry(page):
    """Returns the entry of a page in the menu; that of an index has its pages below it."""
    if page.endswith("how-to/README.md"):
        return {"How-tos": [page] + [p for _, pages in tables(page) for p in pages]}
    return page


def on_config(config):
    config.nav = ["README.md", INDEX]
    config.nav += [{title.capitalize(): [entry(page) for page in pages]} for title, pages in tables(INDEX)]
    config.nav += [{"Project": ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]}]
    return config


def on_page_markdown(markdown, page, config, files):
    def lead(link):
        path = beside(page.file.src_uri, link[1])
        if files.get_file_from_path(path) or not os.path.exists(os.path.join(TOP, path)):
            return link[0]
        return f"]({config.repo_url}/blob/main/{path}{link[2] or ''})"

    return LINK.sub(lead, markdown)
