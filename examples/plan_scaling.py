"""What catalogs and histories of any size need: bytes by formula. Nothing is measured here."""

from __future__ import annotations

ENTRY = 8  # bytes: a number and its column
WORDS, CHARACTERS = 100_000, 50_000  # terms, at most
POSTINGS = 512  # entries of a term in an index, at most
SPELT = 128  # of a run of characters
SAID, RUNS = 40, 200  # words, and runs of characters, of a request
SPECIFIED, SPELLED = 40, 440  # of a specification
USED, PAIRS = 2, 3  # APIs of a mashup, and ordered pairs of them
LATENT = 200  # numbers of 4 bytes
LINE, OBJECT = 250, 1_000  # bytes of a mashup in a file, and in the memory of Python

SIZES = [
    (17_000, 50_000),
    (17_000, 1_000_000),
    (100_000, 1_000_000),
    (1_000_000, 1_000_000),
    (100_000, 100_000_000),
    (1_000_000, 100_000_000),
]


def parts(n_apis: int, n_mashups: int) -> dict[str, float]:
    """Return the bytes of each kind of array."""

    def index(n_terms: int, entries: int, most: int = POSTINGS) -> int:
        return min(entries, n_terms * most) * ENTRY

    n_labels = min(n_apis // 2, n_mashups)
    return {
        "lines in files": n_mashups * LINE,
        "mashups as objects": n_mashups * OBJECT,
        "words of requests": n_mashups * SAID * ENTRY,
        "characters of requests": n_mashups * RUNS * ENTRY,
        "use of APIs": n_mashups * USED * ENTRY,
        "specifications": n_apis * (SPECIFIED + SPELLED) * ENTRY,
        "index of specifications": index(WORDS, n_apis * SPECIFIED)
        + index(CHARACTERS, n_apis * SPELLED, SPELT),
        "latent space": (n_apis + WORDS) * LATENT * 4,
        "index of requests": index(WORDS, n_mashups * SAID),
        "co-occurrence": min(n_mashups * PAIRS, n_labels**2) * ENTRY,
        "linear models": 3 * index(WORDS, n_mashups * SAID * USED),
    }


def shown(count: float) -> str:
    """Return a number of bytes in three places."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def main() -> None:
    """Print the table."""
    columns = [parts(*size) for size in SIZES]
    for column in columns:
        values = list(column.values())
        column["past, of each worker"] = sum(values[2:7])
        column["views of a group"] = sum(values[2:5]) + sum(values[7:])
    rows = {name: [column[name] for column in columns] for name in columns[0]}
    print(f"{'APIs':23}" + "".join(f"{n:>12,}" for n, _ in SIZES))
    print(f"{'mashups':23}" + "".join(f"{n:>12,}" for _, n in SIZES))
    for name, values in rows.items():
        print(f"{name:23}" + "".join(f"{shown(value):>12}" for value in values))


if __name__ == "__main__":
    main()
