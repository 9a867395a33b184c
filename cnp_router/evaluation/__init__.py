"""How good a router is: metrics, the evaluation of a router on past mashups, and reports."""

from cnp_router.evaluation.evaluate import Evaluation, evaluate
from cnp_router.evaluation.report import comparison_rows, markdown_table, text_table

__all__ = ["Evaluation", "comparison_rows", "evaluate", "markdown_table", "text_table"]
