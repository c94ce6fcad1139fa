"""Check every link of the built site: ``python docs/tools/site_links.py site`` lists the broken ones.

Links to other hosts are not followed, but nothing that a page loads by itself may come from there.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, what it loads, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], {"", "top"}
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        """Collect what the attributes of a tag refer to."""
        found = dict(attrs)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href") is not None:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(found.get("href") or "")
        elif found.get("src"):
            self.loads.append(found["src"])


def broken_links(folder):
    """Return (page, link, what is wrong) of every broken link in a folder of pages."""
    folder = Path(folder).resolve()
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link, is_loaded in [(link, False) for link in page.links] + [(link, True) for link in page.loads]:
            if wrong := _what_is_wrong(link, is_loaded, path, pages, folder):
                found.append((path.relative_to(folder).as_posix(), link, wrong))
    return found


def _what_is_wrong(link, is_loaded, path, pages, folder):
    parts = urlsplit(link)
    if parts.scheme == "data" or (parts.scheme in ("http", "https", "mailto") and not is_loaded):
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from elsewhere"
    if path.name == "404.html" and parts.path.startswith("/"):
        parts, path = parts._replace(path=parts.path.lstrip("/")), folder / "404.html"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target = target / "index.html"
    if not target.is_relative_to(folder) or not target.exists():
        return "no such file"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "no such anchor"
    return None


def main():
    """Print the broken links; the exit status is 1 if there are any."""
    found = broken_links(sys.argv[1])
    for page, link, wrong in found:
        sys.stderr.write(f"{page}: {link}: {wrong}\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
