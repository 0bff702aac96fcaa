"""Strings of user interfaces with every kind of span that translations must keep."""

from itertools import islice, product

SPANS = [
    *(
        "{name}",
        "{0}",
        "{user.first_name}",
        "{price:.2f}",
        "{{count}}",
        "{{ user|title }}",
        "${total}",
        "#{id}",
    ),
    *(
        "%{amount}",
        "%s",
        "%d",
        "%1$s",
        "%2$d",
        "%(count)d",
        "%(name)s",
        "%-5d",
        "%.2f",
        "%@",
        "%USERNAME%",
        "%%",
    ),
    *("$HOME", "[[page]]", "<%= title %>", "__NAME__", "<0/>", "<br/>", "<1>", "&copy;", "&#169;"),
    "{count, plural, one {# file} other {# files}}",
    "{sex, select, male {{n, plural, one {his # file} other {his # files}}} other {their files}}",
    *(
        "{day, date, ::yMMMd}",
        "https://example.org/a_(b)?q=1&r=%20#top",
        "www.example.org",
        "ftp://a.example/x.zip",
    ),
    *("jane.doe+x@mail.example.org", "`pip install x`", "#release", "#Größe2", "@jane_doe"),
    *("5 GB", "3.5 km/h", "-4 °C", "€ 1,200", "$9.99", "1\u202f024 px", "🎉", "👩🏽‍💻", "🇩🇪", "3️⃣"),
]
"""One span of each form."""
FRAMES = [
    "Hello {}, a man is waiting.",
    "{} has sent you {}.",
    "Two men look at {} near the water",
    "Please open {} and then close {} before {}!",
    "{}: a dog runs to {}.",
    "A woman ({}) sits on a bench with '{}'.",
    "Three {}-year-old dogs\u00a0jump over {}; see {} 🎉",
]


def ui_strings() -> list[tuple[str, list[str]]]:
    """300 texts with their spans, in order."""
    made = []
    for number, (frame, first) in enumerate(islice(product(FRAMES, SPANS), 300)):
        num_more = frame.count("{}") - 1
        more = [SPANS[(number * 7 + 11 * place) % len(SPANS)] for place in range(1, num_more + 1)]
        spans = [first, *more]
        made.append((frame.format(*spans), spans + ["🎉"] * frame.endswith("🎉")))
    return made
