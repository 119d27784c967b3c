"""Pages of reports, as a browser reads them."""

from html.parser import HTMLParser

VOID = {"meta", "wbr", "br", "rect", "path"}


class Page(HTMLParser):
    """A page: its elements, properly nested, and its text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text, self._open = [], [], "", []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data
