"""The graph of past compositions: co-usage, transitions, walks, export and drawing."""

from cnp_router.graph.draw import draw_graph
from cnp_router.graph.export import export_graph, to_networkx
from cnp_router.graph.hit_rate import HitRate, hit_rate
from cnp_router.graph.statistics import GraphStatistics
from cnp_router.graph.transitions import NextApi, TransitionGraph
from cnp_router.graph.walk import RandomWalk, ReachedApi
from cnp_router.graph.weighting import Weighting

__all__ = [
    "GraphStatistics",
    "HitRate",
    "NextApi",
    "RandomWalk",
    "ReachedApi",
    "TransitionGraph",
    "Weighting",
    "draw_graph",
    "export_graph",
    "hit_rate",
    "to_networkx",
]
