"""Links and paths in a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnp_router.text import mask_links


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Read https://www.example.org/a/b.html, then stop.", "Read URL example, then stop."),
        ("See (http://docs.example.org:8080/?q=mail#top).", "See (URL docs example)."),
        ("www.example.org is down", "URL example is down"),
        ("HTTPS://EXAMPLE.ORG/MAIL", "URL EXAMPLE"),
        ("ping http://localhost/mail", "ping URL localhost"),
        ("请打开https://example.com/page并总结", "请打开URL example并总结"),
        ("öffne https://müller.de/straße bitte", "öffne URL müller bitte"),
        ("[the film](https://example.org/mail)!", "[the film](URL example)!"),
        ("copy s3://photos/2024/mail", "copy s3 URL photos"),
        ("dump postgres://ann:secret@db.example.org/mail", "dump postgres URL db example"),
        ("open file:///home/mail", "open file URL"),
        ("open https://a.example/?next=https://mail.example.com/x", "open URL a"),
        ("delete ~/mail/bill.pdf", "delete pdf"),
        ("delete ../mail", "delete …"),
        ("delete C:\\Users\\mail\\photo.JPG", "delete JPG"),
        ("fix src/mail/client.py and ./run.sh.", "fix py and sh."),
        ("read '/home/me/mail.txt'", "read 'txt'"),
    ],
)
def test_what_a_link_or_a_path_leads_to_is_not_read(text, masked):
    assert mask_links(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "",
        "photos and/or maps, he/she/they, 24/7 on 12/05/2024 at 60 km/h",
        "Node.js/Express on Last.fm and Box.net",
        "GET /pets/5/photos of the shop",
        "bob@example.org wants 1/2.5 and a/b.c",
        "https: the protocol, and www. of its own",
        "http://",
        "~ and . and ..",
    ],
)
def test_what_is_no_link_stays(text):
    assert mask_links(text) == text


@given(st.text(alphabet="a.:/\\~-@w ?,)「本", max_size=60))
def test_any_text(text):
    assert mask_links(text).count(" ") >= text.count(" ")
    assert mask_links(f"{text} mail") == f"{mask_links(text)} mail"


@pytest.mark.parametrize("piece", ["a.", "a-", "/a", "a/", "~/a", "https://)", "./", "a.a/", "a@"])
def test_a_long_text_takes_no_hours(piece):
    assert mask_links(piece * 100_000 + "/x mail").endswith("mail")
