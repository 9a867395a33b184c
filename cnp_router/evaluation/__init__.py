"""How good a router is: metrics, the evaluation of a router on past mashups, and reports."""

from cnp_router.evaluation.compare import compare, compare_async
from cnp_router.evaluation.comparison import Comparison, ComparisonRow, Method
from cnp_router.evaluation.comparison_report import write_report
from cnp_router.evaluation.comparison_tables import comparison_tables
from cnp_router.evaluation.completion import CompletionEvaluation, evaluate_completion
from cnp_router.evaluation.evaluate import Evaluation, evaluate
from cnp_router.evaluation.prequential import PrequentialEvaluation, prequential
from cnp_router.evaluation.report import comparison_rows, markdown_table, text_table

__all__ = [
    "Comparison",
    "ComparisonRow",
    "CompletionEvaluation",
    "Evaluation",
    "Method",
    "PrequentialEvaluation",
    "compare",
    "compare_async",
    "comparison_rows",
    "comparison_tables",
    "evaluate",
    "evaluate_completion",
    "markdown_table",
    "prequential",
    "text_table",
    "write_report",
]
