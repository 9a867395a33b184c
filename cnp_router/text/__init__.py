"""Text to words, and words to numbers: the one place that does either."""

from cnp_router.text.bm25 import BM25
from cnp_router.text.boilerplate import Boilerplate
from cnp_router.text.clauses import clauses, cuts, quarters
from cnp_router.text.describe import specification_text
from cnp_router.text.links import mask_links
from cnp_router.text.quotations import without_quotations
from cnp_router.text.sparse_rows import (
    GrowingRows,
    dense_product,
    longer,
    replaced_rows,
    rows_below,
    rows_between,
    unit_rows,
)
from cnp_router.text.stop_words import STOP_WORDS
from cnp_router.text.term_counts import TermCounts, blocks, evenly
from cnp_router.text.tfidf import TfidfEncoder
from cnp_router.text.tokenise import (
    content_words,
    is_unspaced,
    pieces,
    placed_words,
    singular,
    split_identifier,
    words,
)

__all__ = [
    "BM25",
    "STOP_WORDS",
    "Boilerplate",
    "GrowingRows",
    "TermCounts",
    "TfidfEncoder",
    "blocks",
    "clauses",
    "content_words",
    "cuts",
    "dense_product",
    "evenly",
    "is_unspaced",
    "longer",
    "mask_links",
    "pieces",
    "placed_words",
    "quarters",
    "replaced_rows",
    "rows_below",
    "rows_between",
    "singular",
    "specification_text",
    "split_identifier",
    "unit_rows",
    "without_quotations",
    "words",
]
