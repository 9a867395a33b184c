"""How good a router is: metrics, evaluations on past mashups, comparisons of protocols, reports."""

from cnp_router.evaluation.compare import compare, compare_async
from cnp_router.evaluation.comparison import Comparison, ComparisonRow, Method
from cnp_router.evaluation.curves import EvaluationCurves
from cnp_router.evaluation.evaluate import Evaluation, evaluate
from cnp_router.evaluation.evaluate_completion import CompletionEvaluation, evaluate_completion
from cnp_router.evaluation.learning_curve import LearningCurve, learning_curve
from cnp_router.evaluation.prequential import PrequentialEvaluation, prequential
from cnp_router.evaluation.report import comparison_tables, write_report
from cnp_router.evaluation.table import Table

__all__ = [
    "Comparison",
    "ComparisonRow",
    "CompletionEvaluation",
    "Evaluation",
    "EvaluationCurves",
    "LearningCurve",
    "Method",
    "PrequentialEvaluation",
    "Table",
    "compare",
    "compare_async",
    "comparison_tables",
    "evaluate",
    "evaluate_completion",
    "learning_curve",
    "prequential",
    "write_report",
]
